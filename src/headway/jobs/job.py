"""The Job: a handler's view of the job that it runs, and its actions on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Generic, NoReturn, Protocol, TypeGuard, Unpack

from headway.domain.due_time import After, At
from headway.domain.lease import Lease
from headway.domain.limits.rate import MOST
from headway.domain.request import Bs, Continuation, ContinuationRequest, R, RequestOptions
from headway.domain.validation import check_whole
from headway.errors import InvalidOption, InvalidRequest, JobInterrupted
from headway.ports.current_attempt import RunningAttempt


class InterruptibleAttempt(RunningAttempt, Protocol):
    """The attempt that runs a Job's handler."""

    @property
    def interruption(self) -> str | None: ...

    progress: tuple[float, str] | None

    def spend(self, weight: int) -> None: ...


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
    """Raised by `job.reschedule` to leave the handler. A BaseException, so that an
    `except Exception` in the handler does not catch it."""

    def __init__(self, schedule: At | After) -> None:
        self.schedule = schedule
        super().__init__("the job asked to run again later")


class HoldAsked(BaseException):
    """Raised by `job.hold` to leave the handler; a BaseException as RescheduleAsked is."""

    def __init__(self, schedule: At | After, *, key: bool) -> None:
        self.schedule = schedule
        self.key = key
        super().__init__("the job asked to hold its queue")


class Job(Generic[*Bs]):
    """A running job, as its handler sees it. `Bs` are the types of its blockers' results."""

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
    def key(self) -> str | None:
        """The key that limits count the job under; None: it has none."""
        return self._attempt.claimed.key

    @property
    def attempt(self) -> int:
        """Number of this execution, 1 for the first. Lost executions do not count."""
        return self._attempt.claimed.attempts + 1

    @property
    def attempts(self) -> int:
        """Failures recorded so far."""
        return self._attempt.claimed.attempts

    @property
    def losses(self) -> int:
        """Leases of this job that expired in a row, since an execution last ended regularly."""
        return self._attempt.claimed.losses

    @property
    def lease(self) -> Lease:
        """The lease as it was claimed. `lease.version` rises with every claim of the job: send it
        with writes to other systems, so that they can refuse a write with an older version."""
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
        """The job whose handler started or continued this job's sequence; None: no handler did."""
        return self._attempt.claimed.origin_id

    @property
    def position(self) -> int:
        """The place in the sequence, 0 for its first job."""
        return self._attempt.claimed.position

    @property
    def schedule(self) -> str | None:
        """The name of the schedule that started the job's sequence; None: no schedule did."""
        return self._attempt.claimed.schedule

    @property
    def scheduled_for(self) -> datetime | None:
        """The tick for which the schedule started the job's sequence: the time in its timetable,
        however late the job runs. All jobs of the sequence have the same. None without a schedule.
        """
        return self._attempt.claimed.scheduled_for

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
        """The trace context of the process that started the job."""
        return self._attempt.claimed.trace

    @property
    def blockers(self) -> tuple[*Bs]:
        """The results of the blockers, in order."""
        return self._blockers

    @property
    def interruption(self) -> str | None:
        """Why the handler must stop, or None: timeout, shutdown, lease_expired, already_completed,
        taken_by_another_worker, cancelled, not_found or error. An `async` handler is cancelled at
        the same time; a handler in a thread must read this, or call `check()`, from time to time.
        """
        return self._attempt.interruption

    def check(self) -> None:
        """Raise JobInterrupted if the handler must stop."""
        if self._attempt.interruption is not None:
            raise JobInterrupted(self.id, self._attempt.interruption)

    def prepare(self) -> AbstractAsyncContextManager[Any]:
        """A short transaction for reads before the work begins: `async with job.prepare() as tx`.
        Once per execution, and before `complete`."""
        return self._transactions("job.prepare()").prepare()

    def complete(self) -> Awaitable[Any]:
        """Open the transaction that completes the job: `tx = await job.complete()`.

        The transaction has locked the job and checked that this worker still holds its lease. Your
        writes in it commit together with the job's result or continuation and the jobs that it
        unblocks; an error after this call rolls everything back, and the job is tried again.
        """
        return self._transactions("job.complete()").complete()

    @property
    def tx(self) -> Any:
        """The transaction that completes the job: of an atomic handler, or after `complete`."""
        transactions = self._transactions("job.tx")
        if not transactions.open:
            raise InvalidRequest(
                "there is no transaction yet: call `await job.complete()` first, "
                "or declare the job with atomic=True"
            )
        return transactions.tx

    def continue_with(
        self, request: ContinuationRequest[R], **options: Unpack[RequestOptions]
    ) -> Continuation[R]:
        """Continue the sequence with another job: `return job.continue_with(...)`, once per
        execution."""
        if self._continued is not None:
            raise InvalidRequest(
                "job.continue_with() may be called once per execution: a sequence is a line; "
                "start further sequences with app.start()"
            )
        continuation = Continuation(request.with_options(options) if options else request)
        self._continued = continuation
        return continuation

    def check_continued(self, returned: object) -> None:
        """Raise if `continue_with` was called and the handler returned something else."""
        if self._continued is not None and returned is not self._continued:
            raise InvalidRequest(
                "job.continue_with() was called, but the handler returned something else: "
                "write `return job.continue_with(...)`"
            )

    def reschedule(self, schedule: At | After) -> NoReturn:
        """Leave the handler and run the job again later. This execution is not an attempt."""
        if not isinstance(schedule, At | After):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
            raise InvalidRequest(f"job.reschedule() takes At(...) or After(...), not {schedule!r}")
        raise RescheduleAsked(schedule)

    def hold(self, schedule: At | After, *, key: bool = False) -> NoReturn:
        """Leave the handler, and start no job of its queue until then: the service that the queue
        is for has asked for it. With `key`, no job of this job's key. This job is given back at its
        place; this execution is not an attempt."""
        if not isinstance(schedule, At | After):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
            raise InvalidRequest(f"job.hold() takes At(...) or After(...), not {schedule!r}")
        if key and self.key is None:
            raise InvalidRequest(
                "job.hold(key=True) holds the jobs of this job's key, and it has none: start it "
                "with key=, or hold the whole queue"
            )
        raise HoldAsked(schedule, key=key)

    def spent(self, weight: int) -> None:
        """Count this much more against the rate of the queue, besides 1 for the start: a weight
        that is known only afterwards, such as tokens. Further jobs wait until it is paid for."""
        check_whole("job.spent()", weight)
        if not 0 <= weight <= MOST:
            raise InvalidOption(f"job.spent() takes a number between 0 and {MOST:,}, not {weight}")
        self._attempt.spend(weight)

    def heartbeat(self) -> Awaitable[None]:
        """Renew the lease now; raise JobInterrupted if this worker has lost it. The worker renews
        leases by itself: call this to be certain at one point of the handler."""
        return self._transactions("job.heartbeat()").renew()

    def progress(self, fraction: float, message: str = "") -> None:
        """Report how much of the work is done, between 0 and 1, for operators. Stored about once a
        second, so call it as often as you like."""
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
