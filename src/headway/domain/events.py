"""What happens, as an observer hears of it: one frozen value per lifecycle step, after its commit.

Names are in the past tense. No event holds a payload.

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
    """Something the worker does went wrong and is tried again; told once, when it begins."""

    worker: str
    part: str
    error: str


class WorkerRecovered(msgspec.Struct, frozen=True, gc=False):
    """What was in trouble works again."""

    worker: str
    part: str


class StoreFailed(msgspec.Struct, frozen=True, gc=False):
    """The store did not do what it was asked; told each time."""

    worker: str | None
    """None: a client asked."""
    part: str
    error: str


class NotifierFailed(msgspec.Struct, frozen=True, gc=False):
    """News could not be heard or published; told each time."""

    worker: str | None
    error: str


class LoopBlocked(msgspec.Struct, frozen=True, gc=False):
    """The worker's event loop has not turned for a while: some handler does not let go of it."""

    worker: str
    seconds: float
    """So far."""
    where: str
    """`file:line in function`."""
    job_id: str | None
    type: str | None


class LoopResumed(msgspec.Struct, frozen=True, gc=False):
    """The event loop turns again."""

    worker: str
    seconds: float
    """For which it was blocked."""
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
    """Of its last job."""
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
    """It was stored and waits for sequences."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    blockers: int


class JobUnblocked(msgspec.Struct, frozen=True, gc=False):
    """The last sequence that it waited for is complete."""

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
    """1 for the first execution; lost ones are not counted."""
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
    """That the handler ran."""


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
    """None: it is not tried again."""


class LeaseRenewed(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str
    version: int


class LeaseLost(msgspec.Struct, frozen=True, gc=False):
    """This worker no longer holds a job it was running; what it did is not recorded."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str
    version: int
    reason: str


class TakenByAnotherWorker(LeaseLost, frozen=True, gc=False):
    """Its lease ran out, and another worker holds the job by now."""


class AlreadyCompleted(LeaseLost, frozen=True, gc=False):
    """Somebody completed the job meanwhile."""


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
    """It failed, or was lost, for good."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    failure: Failure


class JobReaped(msgspec.Struct, frozen=True, gc=False):
    """A lease ran out; `dead` if the job was dead-lettered for it, not `charged` if the store was
    away, so that its holder could not renew it."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str | None
    """Who held it."""
    version: int
    dead: bool
    charged: bool = True


class JobRescheduled(msgspec.Struct, frozen=True, gc=False):
    """It asked to run again later; or, without a worker, somebody made it due now."""

    job_id: str
    type: str
    queue: str
    sequence_id: str
    worker: str | None


class JobReleased(msgspec.Struct, frozen=True, gc=False):
    """Given back unfinished; nothing is charged."""

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
    """Jobs of these types wait, and no living worker implements them."""

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
