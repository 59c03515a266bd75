"""The steps of an attempt as events, and as spans if an observer traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from headway.domain.events import (
    LEASE_LOST_BY_REASON,
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
    LeaseLost,
    LeaseRenewed,
    SequenceCompleted,
    SequenceFailed,
)
from headway.domain.failure import decode_failure
from headway.domain.job import ClaimedJob, JobRecord, JobState, NewJob
from headway.domain.settlement import (
    Complete,
    Fail,
    Lose,
    Release,
    Reschedule,
    Retry,
    Settlement,
)
from headway.errors import Failure
from headway.worker.attempt import Attempt
from headway.worker.environment import WorkerEnvironment

Known = Mapping[str, JobRecord]
"""Jobs by id, read when an outcome was committed, for events that need more than the outcome."""


class Reporter:
    """Makes the events of attempts. None are made while no observer wants them."""

    __slots__ = ("_lease_for", "_monotonic", "_observers", "_worker")

    def __init__(self, environment: WorkerEnvironment) -> None:
        self._worker = environment.settings.worker_id
        self._observers = environment.observers
        self._monotonic = environment.clock.monotonic
        self._lease_for = environment.settings.lease_for

    def started(self, attempt: Attempt, began: float) -> None:
        """In the handler's own context. Called only if an observer wants events of every job."""
        claimed = attempt.claimed
        observers = self._observers
        tracer = observers.tracer
        if tracer is not None:
            try:
                trace = tracer.attempt(claimed, self._worker, attempt.blocker_traces)
                if trace is not None:
                    attempt.trace = trace
                    attempt.trace_id = trace.trace_id
            except Exception:
                observers.failed(tracer)
        waited = self._since(attempt, claimed.run_at, began)
        observers.observe(
            AttemptStarted(
                claimed.id,
                claimed.type,
                claimed.queue,
                claimed.sequence_id,
                self._worker,
                claimed.lease.version,
                claimed.attempts + 1,
                attempt.trace_id,
                waited if waited > 0.0 else 0.0,
            )
        )

    def renewed(self, attempt: Attempt) -> None:
        """From any thread."""
        if self._observers.active:
            self._observers.observe(LeaseRenewed(*self._lease_facts(attempt)))

    def lost(self, attempt: Attempt, reason: str) -> None:
        self._end_trace(attempt, reason)
        kind = LEASE_LOST_BY_REASON.get(reason, LeaseLost)
        self._observers.observe(kind(*self._lease_facts(attempt), reason))

    def settled(self, attempts: Sequence[Attempt], known: Known, told: list[Event]) -> None:
        """Outcomes were committed: add their events to `told`."""
        if not self._observers.present:
            return
        every_job = self._observers.active
        now = self._monotonic()
        for attempt in attempts:
            if attempt.settlement.__class__ is not Complete:
                self._settled(attempt, known, now, told)
            elif every_job:
                self._completed(attempt, known, now, told)

    def asks_for(self, claimed: ClaimedJob, settlement: Settlement | None) -> list[str]:
        """The ids of jobs that must be read for the events of this outcome."""
        if not self._observers.active:
            return []
        match settlement:
            case Complete(successor=NewJob() as successor):
                return [successor.id] if successor.blockers else []
            case Complete() | Fail():
                return [claimed.sequence_id] if claimed.position else []
            case _:
                return []

    def _completed(self, attempt: Attempt, known: Known, now: float, told: list[Event]) -> None:
        if attempt.trace is not None:
            self._end_trace(attempt, "completed")
        claimed = attempt.claimed
        id, type, queue = claimed.id, claimed.type, claimed.queue
        sequence_id, version = claimed.sequence_id, claimed.lease.version
        took = self._since(attempt, claimed.created_at, now)
        told.append(
            AttemptCompleted(
                id,
                type,
                queue,
                sequence_id,
                self._worker,
                version,
                claimed.attempts + 1,
                attempt.trace_id,
                attempt.seconds,
            )
        )
        told.append(JobCompleted(id, type, queue, sequence_id, self._worker, version, took))
        settlement = attempt.settlement
        if isinstance(settlement, Complete) and settlement.successor is not None:
            self._continued(settlement.successor, known, told)
            return
        if claimed.position:
            told.append(self._ended(SequenceCompleted, attempt, known, now))
        else:
            told.append(SequenceCompleted(sequence_id, claimed.sequence_type, queue, took))

    def _settled(self, attempt: Attempt, known: Known, now: float, told: list[Event]) -> None:
        claimed = attempt.claimed
        facts = (claimed.id, claimed.type, claimed.queue, claimed.sequence_id)
        settlement = attempt.settlement
        match settlement:
            case Retry():
                told.append(self._failed(attempt, "failed", settlement.delay))
            case Fail():
                failed = self._failed(attempt, "dead_lettered", None)
                failure = attempt.failure or decode_failure(settlement.error)
                told.append(failed)
                told.append(JobDeadLettered(*facts, failure, failed.attempt, failed.exception))
                told.append(self._ended(SequenceFailed, attempt, known, now))
            case Reschedule():
                self._end_trace(attempt, "rescheduled")
                told.append(JobRescheduled(*facts, self._worker))
            case Release():
                self._end_trace(attempt, "released")
                told.append(JobReleased(*facts, self._worker))
            case Complete() | Lose() | None:
                pass

    def _failed(self, attempt: Attempt, outcome: str, retry_in: float | None) -> AttemptFailed:
        failure = attempt.failure or Failure("Error", "")
        self._end_trace(attempt, outcome, failure)
        exception, attempt.exception = attempt.exception, None  # whose frames hold the attempt
        return AttemptFailed(
            *self._lease_facts(attempt),
            attempt.claimed.attempts + 1,
            attempt.trace_id,
            attempt.seconds,
            failure,
            retry_in,
            exception,
        )

    def _lease_facts(self, attempt: Attempt) -> tuple[str, str, str, str, str, int]:
        """The fields of a LeaseEvent."""
        job = attempt.claimed
        return job.id, job.type, job.queue, job.sequence_id, self._worker, job.lease.version

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
        attempt: Attempt,
        known: Known,
        now: float,
    ) -> SequenceCompleted | SequenceFailed:
        claimed = attempt.claimed
        seconds: float | None = None
        if not claimed.position:
            seconds = self._since(attempt, claimed.created_at, now)
        elif (first := known.get(claimed.sequence_id)) is not None:
            seconds = self._since(attempt, first.created_at, now)
        return kind(claimed.sequence_id, claimed.sequence_type, claimed.queue, seconds)

    def _end_trace(self, attempt: Attempt, outcome: str, failure: Failure | None = None) -> None:
        trace = attempt.trace
        if trace is not None:
            attempt.trace = None
            try:
                trace.end(outcome, attempt.seconds, failure)
            except Exception:
                self._observers.failed(trace)

    def _since(self, attempt: Attempt, moment: datetime, now: float) -> float:
        """Seconds from a time by the store's clock to one by ours; both are known for the claim."""
        until = attempt.claimed.lease.until
        return (until - moment).total_seconds() - self._lease_for + now - attempt.claimed_at
