"""Lifecycle events, as observers get them: one frozen value per step, after its commit.

Names are in the past tense. No event holds a payload, but the frames of an `exception` do: see
`headway.ports.observer`. The order of events by kind of job:

    plain        SequenceCreated, JobCreated, AttemptStarted, AttemptCompleted, JobCompleted,
                 SequenceCompleted
    continuing   ..., AttemptCompleted, JobCompleted, JobCreated, AttemptStarted, ...
    failing      AttemptStarted, AttemptFailed, ..., AttemptFailed, JobDeadLettered, SequenceFailed
    blocked      JobCreated, JobBlocked, ..., JobUnblocked, AttemptStarted, ...
    reaped       AttemptStarted, JobReaped, AttemptStarted, ...
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from headway.errors import Failure


class WorkerEvent(msgspec.Struct, frozen=True, gc=False):
    worker: str


class LoopEvent(WorkerEvent, frozen=True, gc=False):
    seconds: float
    """Duration of the blockage, so far if it goes on."""
    where: str
    """`file:line in function`."""


class SequenceEvent(msgspec.Struct, frozen=True, gc=False):
    sequence_id: str
    type: str
    queue: str
    """The queue of the sequence's last job."""


class JobEvent(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    type: str
    queue: str
    sequence_id: str


class LeaseEvent(JobEvent, frozen=True, gc=False):
    """About a job that this worker has claimed."""

    worker: str
    version: int


class AttemptEvent(LeaseEvent, frozen=True, gc=False):
    attempt: int
    """1 for the first attempt; lost attempts are not counted."""
    trace_id: str | None


class WorkerStarted(WorkerEvent, frozen=True, gc=False):
    queues: tuple[str, ...]
    types: tuple[str, ...]
    concurrency: int
    schedules: tuple[str, ...] = ()
    """Names of the declared schedules that the worker fires."""


class WorkerStopping(WorkerEvent, frozen=True, gc=False): ...


class WorkerStopped(WorkerEvent, frozen=True, gc=False): ...


class WorkerTroubled(WorkerEvent, frozen=True, gc=False):
    """A part of the worker failed and tries again; one event per outage, at its beginning."""

    part: str
    error: str


class WorkerRecovered(WorkerEvent, frozen=True, gc=False):
    """The part that had failed works again."""

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


class LoopBlocked(LoopEvent, frozen=True, gc=False):
    """A handler has blocked the worker's event loop for some time."""

    job_id: str | None
    type: str | None


class LoopResumed(LoopEvent, frozen=True, gc=False):
    """The event loop runs again."""

    type: str | None


class SequenceCreated(SequenceEvent, frozen=True, gc=False): ...


class SequenceCompleted(SequenceEvent, frozen=True, gc=False):
    seconds: float | None
    """Seconds since creation, by the store's clock; None if unknown."""


class SequenceFailed(SequenceEvent, frozen=True, gc=False):
    seconds: float | None


class SequenceCancelled(SequenceEvent, frozen=True, gc=False): ...


class JobCreated(JobEvent, frozen=True, gc=False): ...


class JobBlocked(JobEvent, frozen=True, gc=False):
    """The job was stored and waits for sequences."""

    blockers: int


class JobUnblocked(msgspec.Struct, frozen=True, gc=False):
    """The last sequence that the job waited for is complete."""

    job_id: str
    type: str
    queue: str


class AttemptStarted(AttemptEvent, frozen=True, gc=False):
    waited: float
    """Seconds between being due and being started."""


class AttemptCompleted(AttemptEvent, frozen=True, gc=False):
    seconds: float
    """Run time of the handler."""


class AttemptFailed(AttemptEvent, frozen=True, gc=False):
    seconds: float
    failure: Failure
    retry_in: float | None
    """None: the job is not tried again."""
    exception: BaseException | None = None
    """The exception itself, if an observer asked for exceptions and the handler ran in this
    process."""


class LeaseRenewed(LeaseEvent, frozen=True, gc=False): ...


class LeaseLost(LeaseEvent, frozen=True, gc=False):
    """This worker lost the lease of a job that it was running; the result is discarded."""

    reason: str


class TakenByAnotherWorker(LeaseLost, frozen=True, gc=False):
    """The lease expired, and another worker holds the job now."""


class AlreadyCompleted(LeaseLost, frozen=True, gc=False):
    """The job was completed elsewhere meanwhile."""


class JobCompleted(JobEvent, frozen=True, gc=False):
    worker: str | None
    """None: completed without a worker."""
    version: int
    seconds: float | None
    """Seconds since creation, by the store's clock; None if unknown."""


class JobDeadLettered(JobEvent, frozen=True, gc=False):
    """The job failed, or was lost, for good."""

    failure: Failure
    attempt: int
    """The number of the attempt that failed or was lost."""
    exception: BaseException | None = None
    """As in `AttemptFailed`."""


class JobReaped(JobEvent, frozen=True, gc=False):
    """A lease expired. `dead`: the job is dead-lettered. Not `charged`: the worker could not renew
    the lease because the store did not answer."""

    worker: str | None
    """The worker that held the lease."""
    version: int
    dead: bool
    charged: bool = True


class JobRescheduled(JobEvent, frozen=True, gc=False):
    """The handler rescheduled the job; or, without a worker, an operator made the job due."""

    worker: str | None


class JobReleased(JobEvent, frozen=True, gc=False):
    """The worker gave the job back unfinished; no attempt or loss is charged."""

    worker: str


class JobCancelled(JobEvent, frozen=True, gc=False): ...


class JobRetried(JobEvent, frozen=True, gc=False):
    """A failed or cancelled job is to be run again."""


class JobsDeleted(msgspec.Struct, frozen=True, gc=False):
    count: int


class JobsPruned(WorkerEvent, frozen=True, gc=False):
    count: int


class TypesUnattended(msgspec.Struct, frozen=True, gc=False):
    """Jobs of these types wait, and no living worker has handlers for them."""

    types: tuple[str, ...]


class ScheduleEvent(msgspec.Struct, frozen=True, gc=False):
    schedule: str
    type: str
    """The job type that it starts."""
    queue: str


class ScheduleFired(ScheduleEvent, frozen=True, gc=False):
    job_id: str
    tick: datetime
    seconds: float
    """Seconds between the tick and the start of its job, by the store's clock."""


class ScheduleSkipped(ScheduleEvent, frozen=True, gc=False):
    """Ticks started no job."""

    tick: datetime
    """The last one of them."""
    reason: str
    """`overlap`: the last sequence had not ended. `missed`: no worker fired the tick in time."""
    count: int
    replaced: bool
    """A later tick was fired in their place."""


class ScheduleFailed(ScheduleEvent, frozen=True, gc=False):
    """A worker cannot compute the ticks of a schedule: a package or a time zone is missing."""

    error: str


class SchedulesRefused(msgspec.Struct, frozen=True, gc=False):
    """Declared schedules were not stored: schedules of these names were put at run time."""

    names: tuple[str, ...]


class ClaimRefused(msgspec.Struct, frozen=True, gc=False):
    """A limit of a queue kept a worker from claiming as many jobs as it can run."""

    worker: str
    queue: str
    limit: str
    """`running`, `per_key`, `rate` or `held`."""
    again_in: float | None
    """Seconds until the next start is allowed; None: when a running job ends."""


class PermitsGranted(msgspec.Struct, frozen=True, gc=False):
    """A worker claimed jobs of a queue that a limit had kept it from before."""

    worker: str
    queue: str
    waited: tuple[float, ...]
    """Seconds that each of the jobs was due while claims were refused."""


class QueueHeld(msgspec.Struct, frozen=True, gc=False):
    """A handler asked to start no job of its queue, or of its key, for a time."""

    queue: str
    key: str | None
    """None: the whole queue."""
    until: datetime
    job_id: str
    type: str


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
    | ScheduleFired
    | ScheduleSkipped
    | ScheduleFailed
    | SchedulesRefused
    | ClaimRefused
    | PermitsGranted
    | QueueHeld
)

LEASE_LOST_BY_REASON: dict[str, type[LeaseLost]] = {
    "taken_by_another_worker": TakenByAnotherWorker,
    "already_completed": AlreadyCompleted,
}
"""LeaseLost itself for all other reasons."""
