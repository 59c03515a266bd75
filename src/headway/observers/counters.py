"""Counters of events, shared by both metrics exporters. Counting is cheap; the exporters read the
counters when metrics are collected."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from headway.domain import events
from headway.domain.events import Event
from headway.runtime.forks import Forkable

Labels = tuple[str, ...]
Measure = Callable[[str, float, str, str, str | None], None]
"""Records a duration: its name, seconds, job or sequence type, queue, and the error type. Waits for
permits have no type."""

MOST_STOPPED = 100
"""Stopped workers that are remembered, so that their gauges show zero."""
WAIT, RUN, JOB, SEQUENCE, LATE, PERMIT = "wait", "run", "job", "sequence", "late", "permit"


class Counter(msgspec.Struct, frozen=True):
    name: str
    """For OpenTelemetry, without the prefix."""
    plural: str
    """For Prometheus, without the prefix and `_total`."""
    says: str
    labels: Labels = ("type", "queue")


BY_JOB: dict[type[Any], Counter] = {
    events.SequenceCreated: Counter("sequence.created", "sequences_created", "Sequences started"),
    events.SequenceCompleted: Counter(
        "sequence.completed", "sequences_completed", "Sequences that completed"
    ),
    events.SequenceFailed: Counter(
        "sequence.failed", "sequences_failed", "Sequences that ended in a dead letter"
    ),
    events.SequenceCancelled: Counter(
        "sequence.cancelled", "sequences_cancelled", "Sequences that were cancelled"
    ),
    events.JobCreated: Counter("job.created", "jobs_created", "Jobs stored"),
    events.JobBlocked: Counter(
        "job.blocked", "jobs_blocked", "Jobs stored that wait for sequences"
    ),
    events.JobUnblocked: Counter(
        "job.unblocked", "jobs_unblocked", "Jobs whose blockers are complete"
    ),
    events.AttemptStarted: Counter(
        "job.attempt.started", "attempts_started", "Attempts that started"
    ),
    events.AttemptCompleted: Counter(
        "job.attempt.completed", "attempts_completed", "Attempts that succeeded"
    ),
    events.AttemptFailed: Counter("job.attempt.failed", "attempts_failed", "Attempts that failed"),
    events.LeaseRenewed: Counter(
        "job.attempt.lease_renewed", "leases_renewed", "Leases that were renewed"
    ),
    events.TakenByAnotherWorker: Counter(
        "job.attempt.taken_by_another_worker",
        "attempts_taken_by_another_worker",
        "Attempts whose job another worker holds now",
    ),
    events.AlreadyCompleted: Counter(
        "job.attempt.already_completed",
        "attempts_already_completed",
        "Attempts whose job was completed elsewhere",
    ),
    events.JobCompleted: Counter("job.completed", "jobs_completed", "Jobs that completed"),
    events.JobDeadLettered: Counter(
        "job.dead_lettered", "jobs_dead_lettered", "Jobs that failed for good"
    ),
    events.JobReaped: Counter("job.reaped", "jobs_reaped", "Jobs whose lease expired"),
    events.JobRescheduled: Counter(
        "job.rescheduled", "jobs_rescheduled", "Jobs that were rescheduled"
    ),
    events.JobReleased: Counter(
        "job.released", "jobs_released", "Jobs that workers gave back unfinished"
    ),
    events.JobCancelled: Counter("job.cancelled", "jobs_cancelled", "Jobs that were cancelled"),
    events.JobRetried: Counter(
        "job.retried", "jobs_retried", "Failed or cancelled jobs to be run again"
    ),
    events.ScheduleFailed: Counter(
        "schedule.error",
        "schedule_errors",
        "Times that the ticks of a schedule could not be computed",
    ),
}
LEASE_EXPIRED = Counter(
    "job.attempt.lease_expired", "attempts_lease_expired", "Attempts whose lease expired"
)
LEASE_LOST = Counter(
    "job.attempt.lease_lost",
    "attempts_lease_lost",
    "Attempts that lost their job for another reason",
    ("type", "queue", "reason"),
)
WORKER_STARTED = Counter("worker.started", "workers_started", "Workers started", ())
WORKER_STOPPING = Counter("worker.stopping", "workers_stopping", "Workers told to stop", ())
WORKER_STOPPED = Counter("worker.stopped", "workers_stopped", "Workers stopped", ())
WORKER_ERROR = Counter("worker.error", "worker_errors", "Failures in parts of a worker", ("part",))
STORE_ERROR = Counter("store.error", "store_errors", "Failed calls of the store", ("part",))
NOTIFIER_ERROR = Counter("notifier.error", "notifier_errors", "Failures of the notifier", ())
LOOP_BLOCKED = Counter(
    "worker.loop_blocked",
    "loop_blocked",
    "Times that a handler blocked the event loop",
    ("type", "where"),
)
LOOP_BLOCKED_TIME = Counter(
    "worker.loop_blocked.time",
    "loop_blocked_seconds",
    "Seconds for which the event loop was blocked",
    ("type", "where"),
)
TICK_FIRED = Counter("schedule.tick.fired", "ticks_fired", "Ticks of schedules that started a job")
TICK_SKIPPED = Counter(
    "schedule.tick.skipped",
    "ticks_skipped",
    "Ticks of schedules that started no job",
    ("type", "queue", "reason"),
)
CLAIM_REFUSED = Counter(
    "queue.claim.refused",
    "claims_refused",
    "Claims that a limit of the queue refused, or did not grant in full",
    ("queue", "limit"),
)
QUEUE_HELD = Counter(
    "queue.held", "queue_holds", "Times that a handler held its queue, or a key of the queue"
)
JOBS_PRUNED = Counter("job.pruned", "jobs_pruned", "Finished jobs that were pruned", ())
JOBS_DELETED = Counter("job.deleted", "jobs_deleted", "Jobs that were deleted", ())

COUNTERS = (
    *BY_JOB.values(),
    LEASE_EXPIRED,
    LEASE_LOST,
    WORKER_STARTED,
    WORKER_STOPPING,
    WORKER_STOPPED,
    WORKER_ERROR,
    STORE_ERROR,
    NOTIFIER_ERROR,
    LOOP_BLOCKED,
    LOOP_BLOCKED_TIME,
    TICK_FIRED,
    TICK_SKIPPED,
    CLAIM_REFUSED,
    QUEUE_HELD,
    JOBS_PRUNED,
    JOBS_DELETED,
)


class EventCounters(Forkable):
    """Counts events, from any thread. Calls `measure` with every duration, under the lock."""

    def __init__(self, measure: Measure) -> None:
        self.in_child()
        self.watch_forks()
        self._measure = measure
        self._counts: dict[str, defaultdict[Labels, float]] = {
            each.name: defaultdict(int) for each in COUNTERS
        }
        self._started, self._completed, self._done, self._ended = (
            self._counts[BY_JOB[kind].name]
            for kind in (
                events.AttemptStarted,
                events.AttemptCompleted,
                events.JobCompleted,
                events.SequenceCompleted,
            )
        )
        self._workers: dict[str, _WorkerSlots] = {}
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            kind: partial(_count_one, self._counts[each.name]) for kind, each in BY_JOB.items()
        }
        self._handlers |= {
            events.AttemptStarted: self._attempt_started,
            events.AttemptCompleted: self._attempt_completed,
            events.AttemptFailed: self._attempt_failed,
            events.JobReleased: self._attempt_ended,
            events.JobRescheduled: self._attempt_ended,
            events.TakenByAnotherWorker: self._attempt_ended,
            events.AlreadyCompleted: self._attempt_ended,
            events.LeaseLost: self._lease_lost,
            events.JobCompleted: self._job_completed,
            events.SequenceCompleted: self._sequence_completed,
            events.WorkerStarted: self._worker_started,
            events.WorkerStopping: self._worker_stopping,
            events.WorkerStopped: self._worker_stopped,
            events.WorkerTroubled: self._worker_troubled,
            events.StoreFailed: self._store_failed,
            events.NotifierFailed: self._notifier_failed,
            events.LoopBlocked: self._loop_blocked,
            events.LoopResumed: self._loop_resumed,
            events.ScheduleFired: self._schedule_fired,
            events.ScheduleSkipped: self._schedule_skipped,
            events.ClaimRefused: self._claim_refused,
            events.PermitsGranted: self._permits_granted,
            events.QueueHeld: self._queue_held,
            events.JobsPruned: self._jobs_pruned,
            events.JobsDeleted: self._jobs_deleted,
        }

    def in_child(self) -> None:
        self._lock = threading.Lock()

    def observe(self, event: Event) -> None:
        handle = self._handlers.get(event.__class__)
        if handle is not None:
            with self._lock:
                handle(event)

    def observe_all(self, given: Sequence[Event]) -> None:
        find = self._handlers.get
        with self._lock:
            for event in given:
                handle = find(event.__class__)
                if handle is not None:
                    handle(event)

    def counts(self, counter: Counter) -> dict[Labels, float]:
        """Counts by the values of the counter's labels."""
        with self._lock:
            return dict(self._counts[counter.name])

    def processing(self) -> dict[str, int]:
        """Running attempts by job type; 0 for types without any."""
        with self._lock:
            found = dict.fromkeys(
                (type for each in self._workers.values() for type in each.types), 0
            )
            for worker in self._workers.values():
                for type in worker.running.values():
                    found[type] = found.get(type, 0) + 1
            return found

    def idle(self) -> dict[str, int]:
        """Free slots of workers that could take a job of this type."""
        with self._lock:
            found: dict[str, int] = {}
            for worker in self._workers.values():
                free = max(worker.concurrency - len(worker.running), 0) if worker.works else 0
                for type in worker.types:
                    found[type] = found.get(type, 0) + free
            return found

    def _attempt_started(self, event: events.AttemptStarted) -> None:
        self._started[event.type, event.queue] += 1
        worker = self._workers.get(event.worker)
        if worker is None:
            worker = self._workers[event.worker] = _WorkerSlots((event.type,), 0)
        worker.running[event.job_id] = event.type
        self._measure(WAIT, event.waited, event.type, event.queue, None)

    def _attempt_completed(self, event: events.AttemptCompleted) -> None:
        self._completed[event.type, event.queue] += 1
        worker = self._workers.get(event.worker)
        if worker is not None:
            worker.running.pop(event.job_id, None)
        self._measure(RUN, event.seconds, event.type, event.queue, None)

    def _attempt_failed(self, event: events.AttemptFailed) -> None:
        self._attempt_ended(event)
        self._measure(RUN, event.seconds, event.type, event.queue, event.failure.type)

    def _attempt_ended(self, event: Any) -> None:
        """The attempt ended without completion; perhaps before it started."""
        counter = BY_JOB.get(event.__class__)
        if counter is not None:
            self._counts[counter.name][event.type, event.queue] += 1
        worker = self._workers.get(event.worker)
        if worker is not None:
            worker.running.pop(event.job_id, None)

    def _lease_lost(self, event: events.LeaseLost) -> None:
        self._attempt_ended(event)
        if event.reason == "lease_expired":
            self._count(LEASE_EXPIRED, (event.type, event.queue))
        else:
            self._count(LEASE_LOST, (event.type, event.queue, event.reason))

    def _job_completed(self, event: events.JobCompleted) -> None:
        self._done[event.type, event.queue] += 1
        if event.seconds is not None:
            self._measure(JOB, event.seconds, event.type, event.queue, None)

    def _sequence_completed(self, event: events.SequenceCompleted) -> None:
        self._ended[event.type, event.queue] += 1
        if event.seconds is not None:
            self._measure(SEQUENCE, event.seconds, event.type, event.queue, None)

    def _worker_started(self, event: events.WorkerStarted) -> None:
        self._workers[event.worker] = _WorkerSlots(event.types, event.concurrency)
        self._count(WORKER_STARTED, ())

    def _worker_stopping(self, event: events.WorkerStopping) -> None:
        worker = self._workers.get(event.worker)
        if worker is not None:
            worker.works = False
        self._count(WORKER_STOPPING, ())

    def _worker_stopped(self, event: events.WorkerStopped) -> None:
        worker = self._workers.get(event.worker)
        if worker is not None:
            worker.running.clear()
        stopped = [id for id, each in self._workers.items() if not each.works]
        for id in stopped[:-MOST_STOPPED]:
            del self._workers[id]
        self._count(WORKER_STOPPED, ())

    def _worker_troubled(self, event: events.WorkerTroubled) -> None:
        self._count(WORKER_ERROR, (event.part,))

    def _store_failed(self, event: events.StoreFailed) -> None:
        self._count(STORE_ERROR, (event.part,))

    def _notifier_failed(self, _: events.NotifierFailed) -> None:
        self._count(NOTIFIER_ERROR, ())

    def _loop_blocked(self, event: events.LoopBlocked) -> None:
        self._count(LOOP_BLOCKED, (event.type or "", event.where))

    def _loop_resumed(self, event: events.LoopResumed) -> None:
        self._count(LOOP_BLOCKED_TIME, (event.type or "", event.where), event.seconds)

    def _schedule_fired(self, event: events.ScheduleFired) -> None:
        self._count(TICK_FIRED, (event.type, event.queue))
        self._measure(LATE, event.seconds, event.type, event.queue, None)

    def _schedule_skipped(self, event: events.ScheduleSkipped) -> None:
        reason = "replaced" if event.replaced and event.reason == "missed" else event.reason
        self._count(TICK_SKIPPED, (event.type, event.queue, reason), event.count)

    def _claim_refused(self, event: events.ClaimRefused) -> None:
        self._count(CLAIM_REFUSED, (event.queue, event.limit))

    def _permits_granted(self, event: events.PermitsGranted) -> None:
        for seconds in event.waited:
            self._measure(PERMIT, seconds, "", event.queue, None)

    def _queue_held(self, event: events.QueueHeld) -> None:
        self._count(QUEUE_HELD, (event.type, event.queue))

    def _jobs_pruned(self, event: events.JobsPruned) -> None:
        self._count(JOBS_PRUNED, (), event.count)

    def _jobs_deleted(self, event: events.JobsDeleted) -> None:
        self._count(JOBS_DELETED, (), event.count)

    def _count(self, counter: Counter, labels: Labels, much: float = 1) -> None:
        self._counts[counter.name][labels] += much


def _count_one(counts: defaultdict[Labels, float], event: Any) -> None:
    counts[event.type, event.queue] += 1


class _WorkerSlots:
    __slots__ = ("concurrency", "running", "types", "works")

    def __init__(self, types: tuple[str, ...], concurrency: int) -> None:
        self.types = types
        self.concurrency = concurrency
        self.running: dict[str, str] = {}
        """The types of its running jobs, by job id."""
        self.works = True
