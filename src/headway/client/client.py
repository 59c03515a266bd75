"""The client: starts, waits for, completes, cancels, retries and deletes jobs.

`scripts/make_sync.py` makes sync_client.py of this module: run `make sync` after a change.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Unpack, cast, overload

from headway.after_commit.effects import Effects
from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.client import changes
from headway.client.completion import Completion
from headway.client.handle import Decode, Handle, decoder_of
from headway.client.references import (
    State,
    Target,
    Targets,
    check_page,
    make_filter,
    sequence_of,
    target_id,
    target_ids,
)
from headway.client.result import POLL_EVERY, wait_for_result
from headway.client.store_calls import StoreCalls
from headway.domain.job import AttemptRecord, JobRecord
from headway.domain.queries import JobCount, Page, QueueRecord, WorkerRecord
from headway.domain.request import (
    A,
    AnyRequest,
    R,
    R_co,
    Request,
    SequenceReference,
    StartOptions,
)
from headway.domain.validation import check_name
from headway.domain.views import Progress
from headway.jobs.job_type import AnyType, ContinuationType
from headway.jobs.payloads import Payloads
from headway.jobs.plan import Plan, plan_start
from headway.jobs.registry import Registry
from headway.ports.clock import Clock
from headway.ports.codec import Codec
from headway.ports.notifier import Notifier
from headway.ports.store import Store


class Sequence(Handle[R_co]):
    """The handle of a sequence: its id, and its result."""

    __slots__ = ("_client",)

    def __init__(
        self, client: Client, id: str, decode: Decode | None, *, deduplicated: bool = False
    ) -> None:
        super().__init__(id, decode, deduplicated)
        self._client = client

    async def result(self, timeout: float | None = None) -> R_co:
        """Wait for the end of the sequence; its output. Raises ResultTimeout, ResultFailed,
        ResultCancelled."""
        return await self._client.wait(self, timeout=timeout)

    async def get(self) -> JobRecord:
        """Its current job, whose state is the sequence's."""
        return await self._client.current(self)


class Client(StoreCalls):
    """Safe to use from any number of tasks. A verb with a `tx` works in the caller's transaction:
    after a rollback it has done nothing."""

    def __init__(
        self,
        store: Store,
        *,
        notifier: Notifier,
        registry: Registry,
        observers: Observers,
        codec: Codec,
        clock: Clock,
        poll_every: float = POLL_EVERY,
    ) -> None:
        super().__init__(
            store,
            observers=observers,
            clock=clock,
            publisher=Publisher(store, notifier, observers),
        )
        self._notifier = notifier
        self._registry = registry
        self._poll_every = poll_every
        self._payloads = Payloads(registry, codec)

    def request(self, type: str, /, **arguments: Any) -> Request[Any]:
        """A request by the name of a job type. Raises UnknownJobType if the app has none. Starting
        a type with `entry=False` is refused when it is tried: type checkers cannot see the type."""
        return cast(Request[Any], self._registry.type(type).request(**arguments))

    async def start(self, request: Request[R], **options: Unpack[StartOptions]) -> Sequence[R]:
        """Start a sequence with its first job and that job's blockers; the handle of the sequence.

        Everything is checked before anything is written: raises InvalidRequest or a subclass.
        """
        tx = options.pop("tx", None)
        plan = plan_start((request,), options)
        (sequence,) = await self._store_plan(plan, (request,), tx)
        return sequence

    async def start_many(
        self, requests: Iterable[Request[R]], *, key: str | None = None, tx: Any = None
    ) -> builtins.list[Sequence[R]]:
        """Start many sequences, all or none, under one `key` if it is given; `request.using(...)`
        sets the options of one."""
        asked = tuple(requests)
        plan = plan_start(asked, None if key is None else {"key": key})
        return await self._store_plan(plan, asked, tx) if asked else []

    async def _store_plan(
        self, plan: Plan, requests: tuple[Request[R], ...], tx: Any
    ) -> builtins.list[Sequence[R]]:
        starting = self._observers.start(plan.jobs)
        if starting is not None:
            plan.carry(starting.trace)
        try:
            stored = await self._run(tx, self._store.insert, plan.jobs, now=self._clock.now())
        except BaseException as error:
            self._observers.end_start(starting, error)
            raise
        self._observers.end_start(starting)
        effects = Effects()
        effects.create(plan.jobs, stored, watched=self._publisher.watched)
        await self._tell(tx, effects)
        return [
            Sequence(
                self,
                stored[place].id,
                request.decode,
                deduplicated=stored[place].deduplicated,
            )
            for place, request in zip(plan.heads, requests, strict=True)
        ]

    def sequence(
        self, id: Target, type: ContinuationType[..., A, *tuple[Any, ...]] | None = None
    ) -> Sequence[A]:
        """The handle of a sequence that was started elsewhere; the store is not asked."""
        decode = None if type is None else type.definition.decode_result
        return Sequence(self, sequence_of(id), decode)

    async def wait(self, sequence: SequenceReference[R], /, *, timeout: float | None = None) -> R:
        """Wait for the end of the sequence; its output. Raises ResultTimeout, ResultFailed,
        ResultCancelled, JobNotFound."""
        result: R = await wait_for_result(
            self._store,
            sequence.id,
            decoder_of(sequence),
            notifier=self._notifier,
            timeout=timeout,
            poll_every=self._poll_every,
        )
        return result

    async def get(self, id: Target, *, tx: Any = None) -> JobRecord:
        """A job as it is now. Raises JobNotFound."""
        return await self._run(tx, changes.read_job, self._store, target_id(id))

    async def current(self, sequence: Target, *, tx: Any = None) -> JobRecord:
        """The current job of a sequence, whose state is the sequence's. Raises JobNotFound."""
        (job,) = await self._run(tx, changes.current_jobs, self._store, [target_id(sequence)])
        return job

    async def blockers(self, sequence: Target, *, tx: Any = None) -> builtins.list[JobRecord]:
        """The current jobs of the blockers of a sequence's current job, in order; pruned ones are
        left out. A blocker that is `failed` or `cancelled` keeps the job blocked until the blocker
        is retried; the blocker's `failure` says why."""
        return await self._run(tx, changes.blockers_of, self._store, target_id(sequence))

    async def list(
        self,
        *,
        state: State | Iterable[State] | None = None,
        type: AnyType | str | Iterable[AnyType | str] | None = None,
        queue: str | Iterable[str] | None = None,
        sequence: Target | None = None,
        root: Target | None = None,
        schedule: str | None = None,
        key: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """A page of jobs, newest first; its cursor gets the next page. The state `scheduled` are
        pending jobs that are not due yet, `pending` are all pending jobs. `schedule` is the
        name of the schedule that started their sequences, `key` the key for limits."""
        which = make_filter(state, type, queue, sequence, root, schedule, key)
        return await self._store.run(
            self._store.find,
            which,
            cursor=cursor,
            limit=check_page(limit),
            now=self._clock.now(),
        )

    async def attempts(self, id: Target) -> builtins.list[AttemptRecord]:
        """The failed and lost executions of a job, oldest first."""
        return await self._store.run(self._store.attempts, target_id(id))

    async def progress(self, id: Target) -> Progress | None:
        """The last progress that a job reported; None if it reported none."""
        (found,) = await self._store.run(self._store.progress, [target_id(id)])
        return found

    async def counts(self) -> builtins.list[JobCount]:
        """Numbers of jobs by queue, type and state; exact, so the store counts every job."""
        return await self._store.run(self._store.counts)

    async def queues(self) -> builtins.list[QueueRecord]:
        return await self._store.run(self._store.queues)

    async def workers(self) -> builtins.list[WorkerRecord]:
        return await self._store.run(self._store.workers)

    async def pause(self, queue: str) -> None:
        """Stop workers from claiming jobs of this queue; running jobs go on."""
        name = check_name("queue", queue)
        await self._store.run(self._store.pause, name, True, now=self._clock.now())

    async def resume(self, queue: str) -> None:
        """Undo `pause`, and wake workers for the jobs that are due in the queue."""
        name = check_name("queue", queue)
        now = self._clock.now()
        await self._tell(None, await self._run(None, changes.resume, self._store, name, now))

    async def retry(
        self,
        targets: Targets,
        *,
        input: AnyRequest | Mapping[str, Any] | None = None,
        tx: Any = None,
    ) -> None:
        """Retry the current jobs of failed or cancelled sequences, all or none: they are due now,
        with their full number of attempts. `input` replaces their input: a request of the same
        type, or arguments by name."""
        edit = None if input is None else partial(self._payloads.encode_input, input)
        ids = target_ids(targets)
        effects = await self._run(tx, changes.retry, self._store, ids, edit, self._clock.now())
        await self._tell(tx, effects)

    async def cancel(self, targets: Targets, *, tx: Any = None) -> None:
        """Cancel sequences, all or none; workers that run their jobs are told to stop."""
        ids = target_ids(targets)
        effects = await self._run(tx, changes.cancel, self._store, ids, self._clock.now())
        await self._tell(tx, effects)

    async def trigger(self, targets: Targets, *, tx: Any = None) -> None:
        """Make pending jobs due now, all or none."""
        ids = target_ids(targets)
        effects = await self._run(tx, changes.trigger, self._store, ids, self._clock.now())
        await self._tell(tx, effects)

    async def delete_sequences(
        self, targets: Targets, *, cascade: bool = False, tx: Any = None
    ) -> builtins.list[str]:
        """Delete root sequences with all sequences that they started; the ids of the deleted jobs.
        Raises SequencesNeeded if other sequences depend on them; `cascade` deletes those too."""
        ids = target_ids(targets)
        gone, effects = await self._run(tx, changes.delete_sequences, self._store, ids, cascade)
        await self._tell(tx, effects)
        return gone

    @overload
    def complete_sequence(
        self, sequence: SequenceReference[R], *, tx: Any = None
    ) -> AbstractAsyncContextManager[Completion[R]]: ...
    @overload
    def complete_sequence(
        self,
        sequence: Target,
        type: ContinuationType[..., A, *tuple[Any, ...]] | None = None,
        *,
        tx: Any = None,
    ) -> AbstractAsyncContextManager[Completion[A]]: ...
    def complete_sequence(
        self, sequence: Target, type: AnyType | None = None, *, tx: Any = None
    ) -> AbstractAsyncContextManager[Completion[Any]]:
        """Open the current job of a sequence, to complete it without a worker:
        `async with client.complete_sequence(id, approve) as completion`. See Completion for its
        lock and its commit.

        Raises WrongState if the sequence has ended, InvalidRequest if its current job is not of
        the `type` given.
        """
        return Completion.open(
            self._store,
            self._publisher,
            self._clock,
            partial(self._payloads.encode_output, type),
            sequence_id=target_id(sequence),
            type=None if type is None else type.name,
            tx=tx,
        )
