"""What a worker did with a job, told step by step: as events, and as spans where one traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from headway.after_commit.observers import Observers
from headway.domain.events import (
    AttemptCompleted,
    AttemptFailed,
    AttemptStarted,
    Event,
    JobBlocked,
    JobCompleted,
    JobCreated,
    JobDeadLettered,
    JobReleased,
    JobRescheduled,
    JobUnblocked,
    LeaseRenewed,
    SequenceCompleted,
    SequenceCreated,
    SequenceFailed,
    lease_lost,
)
from headway.domain.failure import decode_failure
from headway.domain.job import ClaimedJob, JobRecord, JobState, NewJob
from headway.domain.settlement import (
    Complete,
    Fail,
    Freed,
    Lose,
    Release,
    Reschedule,
    Retry,
    Settlement,
)
from headway.errors import Failure
from headway.ports.clock import Clock
from headway.ports.store import Inserted
from headway.worker.attempt import Execution

Known = Mapping[str, JobRecord]
"""Jobs by id, as they were when an outcome was committed, as far as they were asked for."""


class Reporter:
    """Tells what is committed. Nothing is told of a job while nobody listens."""

    __slots__ = ("_lease_for", "_monotonic", "_observers", "_worker")

    def __init__(self, worker: str, observers: Observers, clock: Clock, lease_for: float) -> None:
        self._worker = worker
        self._observers = observers
        self._monotonic = clock.monotonic
        self._lease_for = lease_for

    def started(self, execution: Execution, began: float) -> None:
        """In the handler's own context. Asked only while somebody wants to hear of every job."""
        claimed = execution.claimed
        observers = self._observers
        tracer = observers.tracer
        if tracer is not None:
            try:
                trace = tracer.attempt(claimed, self._worker, execution.blocker_traces)
                if trace is not None:
                    execution.trace = trace
                    execution.trace_id = trace.trace_id
            except Exception:
                observers.failed(tracer)
        waited = self._since(execution, claimed.run_at, began)
        observers.observe(
            AttemptStarted(
                claimed.id,
                claimed.type,
                claimed.queue,
                claimed.sequence_id,
                self._worker,
                claimed.lease.version,
                claimed.attempts + 1,
                execution.trace_id,
                waited if waited > 0.0 else 0.0,
            )
        )

    def renewed(self, execution: Execution) -> None:
        """From any thread."""
        if self._observers.active:
            claimed = execution.claimed
            self._observers.observe(
                LeaseRenewed(
                    claimed.id,
                    claimed.type,
                    claimed.queue,
                    claimed.sequence_id,
                    self._worker,
                    claimed.lease.version,
                )
            )

    def lost(self, execution: Execution, reason: str) -> None:
        self._end_trace(execution, reason)
        claimed = execution.claimed
        self._observers.observe(
            lease_lost(
                claimed.id,
                claimed.type,
                claimed.queue,
                claimed.sequence_id,
                self._worker,
                claimed.lease.version,
                reason,
            )
        )

    def created(self, jobs: Iterable[NewJob], stored: Iterable[Inserted]) -> None:
        """Jobs were stored together with an outcome."""
        if self._observers.active:
            self._observers.observe_all(creation(jobs, stored))

    def settled(self, executions: Sequence[Execution], known: Known) -> None:
        """Outcomes were committed."""
        observers = self._observers
        if not observers.present:
            return
        told: list[Event] = []
        every_job = observers.active
        now = self._monotonic()
        for execution in executions:
            if execution.settlement.__class__ is not Complete:
                self._settled(execution, known, now, told)
            elif every_job:
                self._completed(execution, known, now, told)
        if told:
            observers.observe_all(told)

    def freed(self, freed: Iterable[Freed]) -> None:
        if self._observers.active:
            for job in freed:
                self._observers.observe(JobUnblocked(job.job_id, job.type, job.queue))

    def asks_for(self, claimed: ClaimedJob, settlement: Settlement | None) -> list[str]:
        """The ids of jobs that must be known for telling this outcome."""
        if not self._observers.active:
            return []
        match settlement:
            case Complete(successor=NewJob() as successor):
                return [successor.id] if successor.blockers else []
            case Complete() | Fail():
                return [claimed.sequence_id] if claimed.position else []
            case _:
                return []

    def _completed(self, execution: Execution, known: Known, now: float, told: list[Event]) -> None:
        if execution.trace is not None:
            self._end_trace(execution, "completed")
        claimed = execution.claimed
        id, type, queue = claimed.id, claimed.type, claimed.queue
        sequence_id, version = claimed.sequence_id, claimed.lease.version
        took = self._since(execution, claimed.created_at, now)
        told.append(
            AttemptCompleted(
                id,
                type,
                queue,
                sequence_id,
                self._worker,
                version,
                claimed.attempts + 1,
                execution.trace_id,
                execution.seconds,
            )
        )
        told.append(JobCompleted(id, type, queue, sequence_id, self._worker, version, took))
        settlement = execution.settlement
        if isinstance(settlement, Complete) and settlement.successor is not None:
            self._continued(settlement.successor, known, told)
            return
        if claimed.position:
            told.append(self._ended(SequenceCompleted, execution, known, now))
        else:
            told.append(SequenceCompleted(sequence_id, claimed.sequence_type, queue, took))

    def _settled(self, execution: Execution, known: Known, now: float, told: list[Event]) -> None:
        claimed = execution.claimed
        facts = (claimed.id, claimed.type, claimed.queue, claimed.sequence_id)
        settlement = execution.settlement
        match settlement:
            case Retry():
                told.append(self._failed(execution, "failed", settlement.delay))
            case Fail():
                told.append(self._failed(execution, "dead_lettered", None))
                failure = execution.failure or decode_failure(settlement.error)
                told.append(JobDeadLettered(*facts, failure))
                told.append(self._ended(SequenceFailed, execution, known, now))
            case Reschedule():
                self._end_trace(execution, "rescheduled")
                told.append(JobRescheduled(*facts, self._worker))
            case Release():
                self._end_trace(execution, "released")
                told.append(JobReleased(*facts, self._worker))
            case Complete() | Lose() | None:
                pass

    def _failed(self, execution: Execution, outcome: str, retry_in: float | None) -> AttemptFailed:
        failure = execution.failure or Failure("Error", "")
        self._end_trace(execution, outcome, failure)
        claimed = execution.claimed
        return AttemptFailed(
            claimed.id,
            claimed.type,
            claimed.queue,
            claimed.sequence_id,
            self._worker,
            claimed.lease.version,
            claimed.attempts + 1,
            execution.trace_id,
            execution.seconds,
            failure,
            retry_in,
        )

    def _continued(self, successor: NewJob, known: Known, told: list[Event]) -> None:
        sequence_id = successor.sequence_id or successor.id
        facts = (successor.id, successor.type, successor.queue, sequence_id)
        told.append(JobCreated(*facts))
        record = known.get(successor.id)
        if record is not None and record.state is JobState.BLOCKED:
            told.append(JobBlocked(*facts, len(successor.blockers)))

    def _ended(
        self,
        kind: type[SequenceCompleted | SequenceFailed],
        execution: Execution,
        known: Known,
        now: float,
    ) -> SequenceCompleted | SequenceFailed:
        claimed = execution.claimed
        seconds: float | None = None
        if not claimed.position:
            seconds = self._since(execution, claimed.created_at, now)
        elif (first := known.get(claimed.sequence_id)) is not None:
            seconds = self._since(execution, first.created_at, now)
        return kind(claimed.sequence_id, claimed.sequence_type, claimed.queue, seconds)

    def _end_trace(
        self, execution: Execution, outcome: str, failure: Failure | None = None
    ) -> None:
        trace = execution.trace
        if trace is not None:
            execution.trace = None
            try:
                trace.end(outcome, execution.seconds, failure)
            except Exception:
                self._observers.failed(trace)

    def _since(self, execution: Execution, moment: datetime, now: float) -> float:
        """Seconds from a moment of the store's clock to one of ours: they met at the claim."""
        until = execution.claimed.lease.until
        return (until - moment).total_seconds() - self._lease_for + now - execution.claimed_at


def creation(
    jobs: Iterable[NewJob], stored: Iterable[Inserted]
) -> list[SequenceCreated | JobCreated | JobBlocked]:
    """What is told of jobs that were stored; nothing of those that were there before."""
    events: list[SequenceCreated | JobCreated | JobBlocked] = []
    for job, answer in zip(jobs, stored, strict=True):
        if answer.deduplicated or answer.id != job.id:
            continue
        sequence_id = job.sequence_id or job.id
        if job.sequence_id is None:
            events.append(SequenceCreated(sequence_id, job.type, job.queue))
        events.append(JobCreated(job.id, job.type, job.queue, sequence_id))
        if answer.blocked:
            events.append(JobBlocked(job.id, job.type, job.queue, sequence_id, len(job.blockers)))
    return events


def onward(execution: Execution) -> str | None:
    """What a job carries that comes of this attempt."""
    trace = execution.trace
    return execution.claimed.trace if trace is None else trace.onward or execution.claimed.trace
