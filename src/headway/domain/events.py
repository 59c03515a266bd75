"""Lifecycle events, as observers get them: one frozen value per step, after its commit.

Names are in the past tense. No event holds a payload. The order of events by kind of job:

    plain        SequenceCreated, JobCreated, AttemptStarted, AttemptCompleted, JobCompleted,
                 SequenceCompleted
    continuing   ..., AttemptCompleted, JobCompleted, JobCreated, AttemptStarted, ...
    failing      AttemptStarted, AttemptFailed, ..., AttemptFailed, JobDeadLettered, SequenceFailed
    blocked      JobCreated, JobBlocked, ..., JobUnblocked, AttemptStarted, ...
    reaped       AttemptStarted, JobReaped, AttemptStarted, ...
"""

from __future__ import annotations

import msgspec

from headway.errors import Failure


class WorkerStarted(msgspec.Struct, frozen=True, gc=False):
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...]
    concurrency: int


class WorkerStopping(msgspec.Struct, frozen=True, gc=False):
    worker: str


class WorkerStopped(msgspec.Struct, frozen=True, gc=False):
    worker: str


class WorkerTroubled(msgspec.Struct, frozen=True, gc=False):
    """A part of the worker failed and tries again; one event per outage, at its beginning."""

    worker: str
    part: str
    error: str


class WorkerRecovered(msgspec.Struct, frozen=True, gc=False):
    """The part that had failed works again."""

    worker: str
    part: str


class StoreFailed(msgspec.Struct, frozen=True, gc=False):
    """A call of the store failed; one event per call."""

    worker: str | None
    """None: a client called."""
    part: str
    error: str


class NotifierFailed(msgspec.Struct, frozen=True, gc=False):
    """Notifications could not be received or published; one event per failure."""

    worker: str | None
    error: str


class LoopBlocked(msgspec.Struct, frozen=True, gc=False):
    """A handler has blocked the worker's event loop for some time."""

    worker: str
    seconds: float
    """So far."""
    where: str
    """`file:line in function`."""
    job_id: str | None
    type: str | None


class LoopResumed(msgspec.Struct, frozen=True, gc=False):
    """The event loop runs again."""

    worker: str
    seconds: float
    """Duration of the blockage."""
    where: str
    type: str | None


class SequenceCreated(msgspec.Struct, frozen=True, gc=False):
    sequence_id: str
    type: str
    queue: str


class SequenceCompleted(msgspec.Struct, frozen=True, gc=False):
    sequence_id: str
    type: str
    queue: str
    """The queue of its last job."""
    seconds: float | None
    """Since it was created, by the store's clock; None where that is not known."""


class SequenceFailed(msgspec.Struct, frozen=True, gc=False):
    sequence_id: str
    type: str
    queue: str
    seconds: float | None


class SequenceCancelled(msgspec.Struct, frozen=True, gc=False):
    sequence_id: str
    type: str
    queue: str


class JobCreated(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str


class JobBlocked(msgspec.Struct, frozen=True, gc=False):
    """The job was stored and waits for sequences."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    blockers: int


class JobUnblocked(msgspec.Struct, frozen=True, gc=False):
    """The last sequence that the job waited for is complete."""

    job_id: str
    type: str
    queue: str


class AttemptStarted(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str
    version: int
    attempt: int
    """1 for the first attempt; lost attempts are not counted."""
    trace_id: str | None
    waited: float
    """Seconds between being due and being started."""


class AttemptCompleted(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str
    version: int
    attempt: int
    trace_id: str | None
    seconds: float
    """Run time of the handler."""


class AttemptFailed(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str
    version: int
    attempt: int
    trace_id: str | None
    seconds: float
    failure: Failure
    retry_in: float | None
    """None: the job is not tried again."""


class LeaseRenewed(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str
    version: int


class LeaseLost(msgspec.Struct, frozen=True, gc=False):
    """This worker no longer holds a job that it was running; its result is discarded."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str
    version: int
    reason: str


class TakenByAnotherWorker(LeaseLost, frozen=True, gc=False):
    """The lease expired, and another worker holds the job now."""


class AlreadyCompleted(LeaseLost, frozen=True, gc=False):
    """The job was completed elsewhere meanwhile."""


class JobCompleted(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str | None
    """None: it was completed without a worker."""
    version: int
    seconds: float | None
    """Since it was created, by the store's clock; None where that is not known."""


class JobDeadLettered(msgspec.Struct, frozen=True, gc=False):
    """The job failed, or was lost, for good."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    failure: Failure


class JobReaped(msgspec.Struct, frozen=True, gc=False):
    """A lease expired. `dead`: the job was dead-lettered for it. Not `charged`: the store was away,
    so that the worker could not renew the lease."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str | None
    """The worker that held the lease."""
    version: int
    dead: bool
    charged: bool = True


class JobRescheduled(msgspec.Struct, frozen=True, gc=False):
    """The handler rescheduled the job; or, without a worker, an operator made it due now."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str | None


class JobReleased(msgspec.Struct, frozen=True, gc=False):
    """The worker gave the job back unfinished; no attempt or loss is charged."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str


class JobCancelled(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str


class JobRetried(msgspec.Struct, frozen=True, gc=False):
    """A failed or cancelled job is to be run again."""

    job_id: str
    type: str
    queue: str
    sequence_id: str


class JobsDeleted(msgspec.Struct, frozen=True, gc=False):
    count: int


class JobsPruned(msgspec.Struct, frozen=True, gc=False):
    worker: str
    count: int


class TypesUnattended(msgspec.Struct, frozen=True, gc=False):
    """Jobs of these types wait, and no living worker has handlers for them."""

    types: tuple[str, ...]


Event = (
    WorkerStarted
    | WorkerStopping
    | WorkerStopped
    | WorkerTroubled
    | WorkerRecovered
    | StoreFailed
    | NotifierFailed
    | LoopBlocked
    | LoopResumed
    | SequenceCreated
    | SequenceCompleted
    | SequenceFailed
    | SequenceCancelled
    | JobCreated
    | JobBlocked
    | JobUnblocked
    | AttemptStarted
    | AttemptCompleted
    | AttemptFailed
    | LeaseRenewed
    | TakenByAnotherWorker
    | AlreadyCompleted
    | LeaseLost
    | JobCompleted
    | JobDeadLettered
    | JobReaped
    | JobRescheduled
    | JobReleased
    | JobCancelled
    | JobRetried
    | JobsDeleted
    | JobsPruned
    | TypesUnattended
)


def lease_lost(
    job_id: str, type: str, queue: str, sequence_id: str, worker: str, version: int, reason: str
) -> LeaseLost:
    """The event for this reason."""
    facts = (job_id, type, queue, sequence_id, worker, version, reason)
    match reason:
        case "taken_by_another_worker":
            return TakenByAnotherWorker(*facts)
        case "already_completed":
            return AlreadyCompleted(*facts)
        case _:
            return LeaseLost(*facts)
