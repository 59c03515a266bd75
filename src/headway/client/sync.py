"""The client without an event loop: the same verbs, for Flask, Django and scripts."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

from headway.after_commit.effects import Effects, Publisher
from headway.after_commit.observers import Observers
from headway.client import changes
from headway.client.completion import BlockingCompletion
from headway.client.result import POLL_EVERY, wait_for_result_sync
from headway.client.sequence import BlockingSequence, decoder_of
from headway.client.targets import (
    AnyType,
    Target,
    Targets,
    check_page,
    make_filter,
    sequence_of,
    target_id,
    target_ids,
)
from headway.domain.events import StoreFailed
from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.names import check_name
from headway.domain.queries import JobCount, Page, QueueRecord, WorkerRecord
from headway.domain.request import (
    B1,
    B2,
    B3,
    B4,
    B5,
    B6,
    R,
    Request,
    S,
    SequenceReference,
    Source,
    StartOptions,
    Step,
)
from headway.domain.views import Progress
from headway.errors import StoreError
from headway.jobs.job_type import StepType
from headway.jobs.payloads import Outputs
from headway.jobs.plan import Plan, check_startable, plan_start
from headway.jobs.registry import Registry
from headway.ports.clock import Clock
from headway.ports.codec import Codec
from headway.ports.notifier import Notifier
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.runtime.store_errors import in_short

P = ParamSpec("P")
T = TypeVar("T")


class BlockingClient:
    """Safe to use from any thread. Where a verb takes `tx`, what it does happens in the
    caller's transaction: rolled back means that it never happened."""

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
        self._store = store
        self._notifier = notifier
        self._registry = registry
        self._observers = observers
        self._clock = clock
        self._poll_every = poll_every
        self._outputs = Outputs(registry, codec)
        self._publisher = Publisher(store, notifier, observers)

    def request(self, type: str, /, **arguments: Any) -> Step[Any]:
        """A request by the job type's name. Raises UnknownJobType if it is not registered here."""
        return self._registry.type(type).request(**arguments)

    @overload
    def start(
        self, request: Request[R], **options: Unpack[StartOptions]
    ) -> BlockingSequence[R]: ...
    @overload
    def start(
        self,
        request: Request[R, B1],
        *,
        blockers: tuple[Source[B1]],
        **options: Unpack[StartOptions],
    ) -> BlockingSequence[R]: ...
    @overload
    def start(
        self,
        request: Request[R, B1, B2],
        *,
        blockers: tuple[Source[B1], Source[B2]],
        **options: Unpack[StartOptions],
    ) -> BlockingSequence[R]: ...
    @overload
    def start(
        self,
        request: Request[R, B1, B2, B3],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3]],
        **options: Unpack[StartOptions],
    ) -> BlockingSequence[R]: ...
    @overload
    def start(
        self,
        request: Request[R, B1, B2, B3, B4],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4]],
        **options: Unpack[StartOptions],
    ) -> BlockingSequence[R]: ...
    @overload
    def start(
        self,
        request: Request[R, B1, B2, B3, B4, B5],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5]],
        **options: Unpack[StartOptions],
    ) -> BlockingSequence[R]: ...
    @overload
    def start(
        self,
        request: Request[R, B1, B2, B3, B4, B5, B6],
        *,
        blockers: tuple[Source[B1], Source[B2], Source[B3], Source[B4], Source[B5], Source[B6]],
        **options: Unpack[StartOptions],
    ) -> BlockingSequence[R]: ...
    @overload
    def start(
        self,
        request: Request[R, *tuple[S, ...]],
        *,
        blockers: list[Source[S]],
        **options: Unpack[StartOptions],
    ) -> BlockingSequence[R]: ...
    def start(self, request: Any, *, blockers: Any = None, **options: Any) -> Any:
        """Store a job, with its blockers, that begins a sequence; its handle.

        Everything is checked before anything is written: raises InvalidRequest or one of its kind.
        """
        check_startable(request)
        tx = options.pop("tx", None)
        if blockers is not None or options:
            request = request.using(blockers=blockers, **options)
        plan = plan_start((request,))
        (sequence,) = self._store_plan(plan, (request,), tx)
        return sequence

    def start_many(
        self, requests: Iterable[Request[R]], *, tx: Any = None
    ) -> builtins.list[BlockingSequence[R]]:
        """Start many at once, all or none; `request.using(...)` gives each its own options."""
        asked = tuple(requests)
        return self._store_plan(plan_start(asked), asked, tx) if asked else []

    def _store_plan(
        self, plan: Plan, requests: tuple[Request[R], ...], tx: Any
    ) -> builtins.list[BlockingSequence[R]]:
        starting = self._observers.start(plan.jobs)
        if starting is not None:
            plan.carry(starting.trace)
        try:
            stored = self._run(tx, self._store.insert, plan.jobs, now=self._clock.now())
        except BaseException as error:
            self._observers.end_start(starting, error)
            raise
        self._observers.end_start(starting)
        effects = Effects()
        effects.create(plan.jobs, stored, watched=self._publisher.watched)
        self._told(tx, effects)
        return [
            BlockingSequence(
                self,
                stored[place].id,
                request.decode,
                deduplicated=stored[place].deduplicated,
            )
            for place, request in zip(plan.heads, requests, strict=True)
        ]

    @overload
    def sequence(self, id: Target) -> BlockingSequence[Any]: ...
    @overload
    def sequence(
        self, id: Target, type: StepType[..., R, *tuple[Any, ...]]
    ) -> BlockingSequence[R]: ...
    def sequence(self, id: Target, type: AnyType | None = None) -> BlockingSequence[Any]:
        """The handle of a sequence that was started elsewhere; nothing is looked up."""
        decode = None if type is None else type.definition.decode_result
        return BlockingSequence(self, sequence_of(id), decode)

    def wait(self, sequence: SequenceReference[R], /, *, timeout: float | None = None) -> R:
        """What the sequence yields, once it has ended. Raises WaitTimeout, SequenceFailed,
        SequenceCancelled, and JobNotFound."""
        result: R = wait_for_result_sync(
            self._store,
            sequence.id,
            decoder_of(sequence),
            timeout=timeout,
            poll_every=self._poll_every,
        )
        return result

    def get(self, id: Target, *, tx: Any = None) -> JobRecord:
        """A job as it is now. Raises JobNotFound."""
        return self._run(tx, changes.read_job, self._store, target_id(id))

    def current(self, sequence: Target, *, tx: Any = None) -> JobRecord:
        """The current job of a sequence, whose state is the sequence's. Raises JobNotFound."""
        (job,) = self._run(tx, changes.current_jobs, self._store, [target_id(sequence)])
        return job

    def blockers(self, sequence: Target, *, tx: Any = None) -> builtins.list[JobRecord]:
        """What the current job of a sequence waits for, or waited for: the current jobs of its
        blockers, in order, as far as they are kept. One that is `failed` or `cancelled` keeps it
        blocked until it is retried; its `failure` says why."""
        return self._run(tx, changes.blockers_of, self._store, target_id(sequence))

    def list(
        self,
        *,
        state: JobState | str | Iterable[JobState | str] | None = None,
        type: AnyType | str | Iterable[AnyType | str] | None = None,
        queue: str | Iterable[str] | None = None,
        sequence: Target | None = None,
        root: Target | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Jobs, newest first, a page at a time; pass a page's cursor to get the next one."""
        which = make_filter(state, type, queue, sequence, root)
        return self._store.run_sync(self._store.find, which, cursor=cursor, limit=check_page(limit))

    def attempts(self, id: Target) -> builtins.list[AttemptRecord]:
        """The failed and lost executions of a job, oldest first."""
        return self._store.run_sync(self._store.attempts, target_id(id))

    def progress(self, id: Target) -> Progress | None:
        """How far a job last said it was; None if it never did."""
        (found,) = self._store.run_sync(self._store.progress, [target_id(id)])
        return found

    def counts(self) -> builtins.list[JobCount]:
        """How many jobs there are, by queue, type and state; exact, so it looks at them all."""
        return self._store.run_sync(self._store.counts)

    def queues(self) -> builtins.list[QueueRecord]:
        return self._store.run_sync(self._store.queues)

    def workers(self) -> builtins.list[WorkerRecord]:
        return self._store.run_sync(self._store.workers)

    def pause(self, queue: str) -> None:
        """Let no more jobs of this queue be claimed; those that run go on."""
        name = check_name("queue", queue)
        self._store.run_sync(self._store.pause, name, True, now=self._clock.now())

    def resume(self, queue: str) -> None:
        """Undo `pause`, and wake workers for what waits in the queue."""
        name = check_name("queue", queue)
        now = self._clock.now()
        self._told(None, self._run(None, changes.resume, self._store, name, now))

    def retry(
        self,
        targets: Targets,
        *,
        input: Step[Any, *tuple[Any, ...]] | Mapping[str, Any] | None = None,
        tx: Any = None,
    ) -> None:
        """Make failed or cancelled sequences go on where they stopped, all or none: their current
        jobs are due now, with all attempts before them, and with another `input` if one is given
        (a request of the same type, or arguments by name)."""
        edit = None if input is None else partial(self._outputs.edited_input, input)
        ids = target_ids(targets)
        effects = self._run(tx, changes.retry, self._store, ids, edit, self._clock.now())
        self._told(tx, effects)

    def cancel(self, targets: Targets, *, tx: Any = None) -> None:
        """End sequences where they are, all or none; who runs their jobs is told to stop."""
        ids = target_ids(targets)
        effects = self._run(tx, changes.cancel, self._store, ids, self._clock.now())
        self._told(tx, effects)

    def trigger(self, targets: Targets, *, tx: Any = None) -> None:
        """Make pending jobs due now, all or none."""
        ids = target_ids(targets)
        effects = self._run(tx, changes.trigger, self._store, ids, self._clock.now())
        self._told(tx, effects)

    def delete_sequences(
        self, targets: Targets, *, cascade: bool = False, tx: Any = None
    ) -> builtins.list[str]:
        """Delete root sequences with everything that was started by them; the ids of the jobs that
        are gone. Raises SequencesNeeded while others depend on them, unless with `cascade` those
        are deleted too."""
        ids = target_ids(targets)
        gone, effects = self._run(tx, changes.delete_sequences, self._store, ids, cascade)
        self._told(tx, effects)
        return gone

    @overload
    def complete_sequence(
        self, sequence: SequenceReference[R], *, tx: Any = None
    ) -> BlockingCompletion[R]: ...
    @overload
    def complete_sequence(
        self,
        sequence: Target,
        type: StepType[..., R, *tuple[Any, ...]],
        *,
        tx: Any = None,
    ) -> BlockingCompletion[R]: ...
    @overload
    def complete_sequence(
        self, sequence: JobRecord | UUID | str, *, tx: Any = None
    ) -> BlockingCompletion[Any]: ...
    def complete_sequence(
        self, sequence: Target, type: AnyType | None = None, *, tx: Any = None
    ) -> BlockingCompletion[Any]:
        """Take the current job of a sequence, to complete it without a worker; see Completion.

        In the caller's transaction the job stays locked until that ends. Raises WrongState if the
        sequence has ended, InvalidRequest if its current job is not of the `type` given.
        """
        return BlockingCompletion(
            self._store,
            tx,
            self._clock,
            partial(self._outputs.encode, type),
            self._publisher,
            target_id(sequence),
            None if type is None else type.name,
        )

    def _run(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            if tx is None:
                return self._store.run_sync(operation, *args, **kwargs)
            return self._store.run_in_sync(tx, operation, *args, **kwargs)
        except StoreError as error:
            self._observers.observe(StoreFailed(None, "client", in_short(error)))
            raise

    def _told(self, tx: Any, effects: Effects) -> None:
        if tx is None:
            self._publisher.publish_soon(effects)
        else:
            self._publisher.publish_with_sync(tx, effects)
