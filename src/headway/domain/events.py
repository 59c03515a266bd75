"""What happens, as an observer hears of it: one frozen value per lifecycle step, after its commit.

Names are in the past tense. No event holds a payload."""

from __future__ import annotations

import msgspec

from headway.domain.failure import Failure


class WorkerStarted(msgspec.Struct, frozen=True):
    worker: str
    queues: tuple[str, ...]
    types: tuple[str, ...]


class WorkerStopping(msgspec.Struct, frozen=True):
    worker: str


class WorkerStopped(msgspec.Struct, frozen=True):
    worker: str


class WorkerTroubled(msgspec.Struct, frozen=True):
    """Something the worker does went wrong and is tried again."""

    worker: str
    part: str
    error: str


class WorkerRecovered(msgspec.Struct, frozen=True):
    """What was in trouble works again."""

    worker: str
    part: str


class JobCreated(msgspec.Struct, frozen=True):
    job_id: str
    type: str
    queue: str
    sequence_id: str


class AttemptStarted(msgspec.Struct, frozen=True):
    job_id: str
    type: str
    queue: str
    worker: str
    version: int
    waited: float
    """Seconds between being due and being started."""


class AttemptFailed(msgspec.Struct, frozen=True):
    job_id: str
    type: str
    queue: str
    worker: str
    version: int
    seconds: float
    failure: Failure
    retry_in: float | None
    """None: it was dead-lettered."""


class JobCompleted(msgspec.Struct, frozen=True):
    job_id: str
    type: str
    queue: str
    worker: str | None
    version: int
    seconds: float


class JobRescheduled(msgspec.Struct, frozen=True):
    job_id: str
    type: str
    queue: str
    worker: str


class JobReleased(msgspec.Struct, frozen=True):
    job_id: str
    type: str
    queue: str
    worker: str


class JobReaped(msgspec.Struct, frozen=True):
    """A lease ran out; `dead` if the job was dead-lettered for it."""

    job_id: str
    type: str
    queue: str
    worker: str | None
    version: int
    dead: bool


class LeaseLost(msgspec.Struct, frozen=True):
    """This worker no longer holds a job it was running; what it did is not recorded."""

    job_id: str
    type: str
    queue: str
    worker: str
    reason: str


class JobsPruned(msgspec.Struct, frozen=True):
    worker: str
    count: int


class TypesUnattended(msgspec.Struct, frozen=True):
    """Jobs of these types wait, and no living worker implements them."""

    types: tuple[str, ...]


Event = (
    WorkerStarted
    | WorkerStopping
    | WorkerStopped
    | WorkerTroubled
    | WorkerRecovered
    | JobCreated
    | AttemptStarted
    | AttemptFailed
    | JobCompleted
    | JobRescheduled
    | JobReleased
    | JobReaped
    | LeaseLost
    | JobsPruned
    | TypesUnattended
)
