"""The Job that a handler is given: what it is, what came before it, and what it may ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Generic, NoReturn, Protocol, TypeGuard, Unpack, overload

import msgspec

from headway.domain.lease import Lease
from headway.domain.request import (
    B1,
    B2,
    B3,
    B4,
    B5,
    B6,
    Bs,
    Continuation,
    R,
    RequestOptions,
    S,
    Source,
    Step,
)
from headway.domain.schedule import After, At
from headway.errors import InvalidPayload, InvalidRequest, JobInterrupted
from headway.ports.attempt import RunningAttempt


class InterruptibleAttempt(RunningAttempt, Protocol):
    """The attempt that runs a Job's handler."""

    @property
    def interruption(self) -> str | None: ...

    progress: tuple[float, str] | None


class JobTransactions(Protocol):
    """The transactions of one attempt."""

    @property
    def open(self) -> bool: ...

    @property
    def tx(self) -> Any: ...

    def prepare(self) -> AbstractAsyncContextManager[Any]: ...

    def complete(self) -> Awaitable[Any]: ...

    def renew(self) -> Awaitable[None]: ...


class RescheduleAsked(BaseException):
    """Raised by `job.reschedule` to leave the handler; not an Exception, so that a handler's own
    `except Exception` does not swallow it."""

    def __init__(self, schedule: At | After) -> None:
        self.schedule = schedule
        super().__init__("the job asked to run again later")


class Job(Generic[*Bs]):
    """A running job, for the handler that runs it. `Bs` are the types that its blockers yield."""

    __slots__ = ("_attempt", "_blockers", "_continued", "_open_transactions")

    def __init__(
        self,
        attempt: InterruptibleAttempt,
        blockers: tuple[*Bs],
        transactions: Callable[[Any], JobTransactions] | None,
    ) -> None:
        self._attempt = attempt
        self._blockers = blockers
        self._open_transactions = transactions
        self._continued: Continuation[Any] | None = None

    @property
    def id(self) -> str:
        return self._attempt.claimed.id

    @property
    def type(self) -> str:
        return self._attempt.claimed.type

    @property
    def queue(self) -> str:
        return self._attempt.claimed.queue

    @property
    def priority(self) -> int:
        return self._attempt.claimed.priority

    @property
    def attempt(self) -> int:
        """Which execution this is, 1 for the first; lost ones are not counted."""
        return self._attempt.claimed.attempts + 1

    @property
    def attempts(self) -> int:
        """Failures recorded so far."""
        return self._attempt.claimed.attempts

    @property
    def losses(self) -> int:
        """Leases on this job that ran out in a row, since it was last settled."""
        return self._attempt.claimed.losses

    @property
    def lease(self) -> Lease:
        """The lease as it was claimed. `lease.version` rises with every claim of the job: send it
        along with writes of your own, and have them refused if a higher one was seen."""
        return self._attempt.claimed.lease

    @property
    def sequence_id(self) -> str:
        return self._attempt.claimed.sequence_id

    @property
    def sequence_type(self) -> str:
        return self._attempt.claimed.sequence_type

    @property
    def root_id(self) -> str:
        return self._attempt.claimed.root_id

    @property
    def origin_id(self) -> str | None:
        """The job whose handler started this one's sequence, if one did."""
        return self._attempt.claimed.origin_id

    @property
    def position(self) -> int:
        """The place in the sequence, 0 for its first job."""
        return self._attempt.claimed.position

    @property
    def created_at(self) -> datetime:
        return self._attempt.claimed.created_at

    @property
    def run_at(self) -> datetime:
        return self._attempt.claimed.run_at

    @property
    def timeout(self) -> float | None:
        return self._attempt.claimed.timeout

    @property
    def trace(self) -> str | None:
        """The context that the producer sent along."""
        return self._attempt.claimed.trace

    @property
    def blockers(self) -> tuple[*Bs]:
        """What the sequences yielded that this job waited for, in order."""
        return self._blockers

    @property
    def interruption(self) -> str | None:
        """Why the work must stop, or None: timeout, shutdown, lease_expired, already_completed,
        taken_by_another_worker, cancelled, not_found or error. An `async` handler is cancelled at
        the same time; a handler in a thread has to look here, or call `check()`, now and then."""
        return self._attempt.interruption

    def check(self) -> None:
        """Raise JobInterrupted if the work must stop."""
        if self._attempt.interruption is not None:
            raise JobInterrupted(self.id, self._attempt.interruption)

    def prepare(self) -> AbstractAsyncContextManager[Any]:
        """A short transaction to read in before the work begins: `async with job.prepare() as tx`.
        Once per execution, and before `complete`."""
        return self._transactions("job.prepare()").prepare()

    def complete(self) -> Awaitable[Any]:
        """Open the transaction that completes the job: `tx = await job.complete()`.

        It has locked the job and made sure that this worker still holds it. What is written in it
        commits together with the handler's return value, its continuation and whatever that
        unblocks; any error from here on rolls all of it back, and the job is tried again.
        """
        return self._transactions("job.complete()").complete()

    @property
    def tx(self) -> Any:
        """The completing transaction: of an atomic handler, or after `complete`."""
        transactions = self._transactions("job.tx")
        if not transactions.open:
            raise InvalidRequest(
                "there is no transaction yet: call `await job.complete()` first, "
                "or declare the job with atomic=True"
            )
        return transactions.tx

    @overload
    def continue_with(
        self, step: Step[R], **options: Unpack[RequestOptions]
    ) -> Continuation[R]: ...
    @overload
    def continue_with(
        self,
        step: Step[R, B1],
        *,
        blockers: tuple[Source[B1]],
        **options: Unpack[RequestOptions],
    ) -> Continuation[R]: ...
    @overload
    def continue_with(
        self,
        step: Step[R, B1, B2],
        *,
        blockers: tuple[Source[B1], Source[B2]],
        **options: Unpack[RequestOptions],
    ) -> Continuation[R]: ...
    @overload
    def continue_with(
        self,
        step: Step[R, B1, B2, B3],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3]],
        **options: Unpack[RequestOptions],
    ) -> Continuation[R]: ...
    @overload
    def continue_with(
        self,
        step: Step[R, B1, B2, B3, B4],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4]],
        **options: Unpack[RequestOptions],
    ) -> Continuation[R]: ...
    @overload
    def continue_with(
        self,
        step: Step[R, B1, B2, B3, B4, B5],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5]],
        **options: Unpack[RequestOptions],
    ) -> Continuation[R]: ...
    @overload
    def continue_with(
        self,
        step: Step[R, B1, B2, B3, B4, B5, B6],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5], Source[B6]],
        **options: Unpack[RequestOptions],
    ) -> Continuation[R]: ...
    @overload
    def continue_with(
        self,
        step: Step[R, *tuple[S, ...]],
        *,
        blockers: list[Source[S]],
        **options: Unpack[RequestOptions],
    ) -> Continuation[R]: ...
    def continue_with(self, step: Any, *, blockers: Any = None, **options: Any) -> Any:
        """Go on with another job: return what this returns. Once per execution."""
        if self._continued is not None:
            raise InvalidRequest(
                "job.continue_with() may be called once per execution: a sequence is a line; "
                "start further sequences with app.start()"
            )
        if blockers is not None or options:
            step = step.using(blockers=blockers, **options)
        self._continued = Continuation(step)
        return self._continued

    def check_continued(self, returned: object) -> None:
        """Raise if `continue_with` was called and its result went missing."""
        if self._continued is not None and returned is not self._continued:
            raise InvalidRequest(
                "job.continue_with() was called, but the handler returned something else: "
                "write `return job.continue_with(...)`"
            )

    def reschedule(self, schedule: At | After) -> NoReturn:
        """Leave the handler and run the job again later; no attempt is charged."""
        if not isinstance(schedule, At | After):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
            raise InvalidRequest(f"job.reschedule() takes At(...) or After(...), not {schedule!r}")
        raise RescheduleAsked(schedule)

    def heartbeat(self) -> Awaitable[None]:
        """Renew the lease now and make sure that it is still ours, or raise JobInterrupted. The
        worker renews it by itself: this is for handlers that want to be certain at one point."""
        return self._transactions("job.heartbeat()").renew()

    def progress(self, fraction: float, message: str = "") -> None:
        """Say how far the work is, between 0 and 1; operators see it. Kept about once a second, so
        call it as often as you like."""
        if not 0 <= fraction <= 1:
            raise InvalidRequest(f"progress is a fraction between 0 and 1, not {fraction!r}")
        self._attempt.progress = (float(fraction), str(message))

    def _transactions(self, what: str) -> JobTransactions:
        if self._open_transactions is None:
            raise InvalidRequest(
                f"{what} is only available in `async def` handlers without isolate=True"
            )
        return self._open_transactions(self._attempt)

    def __repr__(self) -> str:
        return f"<Job {self.type} {self.id} attempt {self.attempt}>"


def is_continuation(value: object) -> TypeGuard[Continuation[Any]]:
    return isinstance(value, Continuation)


def decode_blockers(
    outputs: Sequence[str | None],
    decoders: tuple[Callable[[str | None], Any], ...] | None,
    any_number: bool = False,
) -> tuple[Any, ...]:
    """The values that the blockers yielded. Raises InvalidPayload for one that does not fit."""
    if decoders is None:
        return tuple(_plain(output) for output in outputs)
    if any_number:
        fixed = len(decoders) - 1
        decoders = decoders[:fixed] + decoders[fixed:] * (len(outputs) - fixed)
    if len(decoders) != len(outputs):
        raise InvalidPayload(
            f"the job was started with {len(outputs)} blockers, its handler takes {len(decoders)}"
        )
    return tuple(decode(output) for decode, output in zip(decoders, outputs, strict=True))


def _plain(output: str | None) -> Any:
    if output is None:
        return None
    try:
        return msgspec.json.decode(output)
    except msgspec.DecodeError as error:
        raise InvalidPayload(f"a blocker's output is not JSON: {error}") from None
