"""Completing a sequence without a worker: approvals, webhooks, repairs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, ParamSpec, Self, TypeVar

from headway.after_commit.effects import Effects
from headway.after_commit.publisher import Publisher
from headway.client import changes
from headway.domain.job import JobRecord, JobState
from headway.domain.request import ContinuationRequest
from headway.errors import InvalidRequest, WrongState
from headway.jobs.plan import Succession, plan_successor
from headway.ports.clock import Clock
from headway.ports.statement import Operation
from headway.ports.store import Operations, Store

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Encode = Callable[[str, Any], str | None]
"""A job type's name and an output to the text that is stored."""


class _Completion(Generic[R]):
    job: JobRecord
    """The sequence's current job; after `continue_with`, the next one."""

    def __init__(self, store: Store, tx: Any, clock: Clock, encode: Encode) -> None:
        self._store = store
        self._tx = tx
        self._clock = clock
        self._encode = encode
        self._effects = Effects()
        self._ended = False

    def _check_open(self) -> None:
        if self._ended:
            raise WrongState(self.job.id, JobState.COMPLETED, "it was completed just now")


class Completion(_Completion[R]):
    """The current job of a sequence, locked until the transaction ends.

    Complete it, continue its sequence with one or more jobs, or only read `job`.
    """

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        publisher: Publisher,
        clock: Clock,
        encode: Encode,
        *,
        sequence_id: str,
        type: str | None,
        tx: Any,
    ) -> AsyncGenerator[Completion[Any]]:
        if tx is None:
            async with store.begin() as own:
                completion = cls(store, own, clock, encode)
                completion.job = await store.run_in(own, changes.open_job, store, sequence_id, type)
                yield completion
            await publisher.publish(completion._effects)
        else:
            completion = cls(store, tx, clock, encode)
            completion.job = await store.run_in(tx, changes.open_job, store, sequence_id, type)
            yield completion
            await publisher.publish_with(tx, completion._effects)

    async def complete(self, output: R) -> None:
        """End the sequence with this output. A worker that runs the job is told to stop, and its
        own output is refused."""
        self._check_open()
        text = self._encode(self.job.type, output)
        self._effects.absorb(
            await self._store.run_in(
                self._tx, changes.complete_job, self._store, self.job, text, self._clock.now()
            )
        )
        self._ended = True

    async def continue_with(self, request: ContinuationRequest[R]) -> None:
        """Complete the job and continue its sequence with another one."""
        self._check_open()
        self.job, effects = await self._store.run_in(
            self._tx,
            changes.continue_job,
            self._store,
            self.job,
            plan_successor(request, self.job),
            self._clock.now(),
        )
        self._effects.absorb(effects)


class SyncCompletion(_Completion[R]):
    """The same without an event loop, and without a transaction of its own.

    In the caller's transaction the job stays locked until that ends. Without one, each step is a
    transaction, and refused if the sequence has moved since the last one.
    """

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        clock: Clock,
        encode: Encode,
        *,
        sequence_id: str,
        type: str | None,
        tx: Any,
    ) -> None:
        super().__init__(store, tx, clock, encode)
        self._publisher = publisher
        self.job = self._run(changes.open_job, store, sequence_id, type)

    def complete(self, output: R) -> None:
        """End the sequence with this output. A worker that runs the job is told to stop, and its
        own output is refused."""
        self._check_open()
        text = self._encode(self.job.type, output)
        self._tell(self._run(_complete_again, self._store, self.job, text, self._clock))
        self._ended = True

    def continue_with(self, request: ContinuationRequest[R]) -> None:
        """Complete the job and continue its sequence with another one."""
        self._check_open()
        succession = plan_successor(request, self.job)
        self.job, effects = self._run(
            _continue_again, self._store, self.job, succession, self._clock
        )
        self._tell(effects)

    def _run(self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self._tx is None:
            return self._store.run_sync(operation, *args, **kwargs)
        return self._store.run_in_sync(self._tx, operation, *args, **kwargs)

    def _tell(self, effects: Effects) -> None:
        if self._tx is None:
            self._publisher.publish_soon(effects)
        else:
            self._effects.absorb(effects)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._tx is not None and kind is None:
            self._publisher.publish_with_sync(self._tx, self._effects)


def _complete_again(
    store: Operations, job: JobRecord, output: str | None, clock: Clock
) -> Operation[Effects]:
    locked = yield from _reopen(store, job)
    return (yield from changes.complete_job(store, locked, output, clock.now()))


def _continue_again(
    store: Operations, job: JobRecord, succession: Succession, clock: Clock
) -> Operation[tuple[JobRecord, Effects]]:
    locked = yield from _reopen(store, job)
    return (yield from changes.continue_job(store, locked, succession, clock.now()))


def _reopen(store: Operations, job: JobRecord) -> Operation[JobRecord]:
    """Lock the job again; refused if its sequence has a new current job."""
    locked = yield from changes.open_job(store, job.sequence_id, None)
    if locked.id != job.id:
        raise InvalidRequest(
            f"sequence {job.sequence_id} has gone on to job {locked.id} ({locked.type}) meanwhile; "
            "look at it again"
        )
    return locked
