"""The job: new, stored, claimed; its states and its failed attempts."""

from __future__ import annotations

import enum
from collections.abc import Collection
from datetime import datetime

import msgspec

from headway.domain.due_time import NOW, After, At
from headway.domain.failure import decode_failure
from headway.domain.lease import Lease
from headway.errors import Failure


class JobState(enum.StrEnum):
    """Where a job is in its life. A pending job with a future `run_at` is *shown* as scheduled."""

    BLOCKED = "blocked"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})

DEFAULT_QUEUE = "default"
DEFAULT_MAX_ATTEMPTS = 20
DEFAULT_MAX_LOSSES = 5


class NewJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job before it is stored. The store adds the time, and the state by its blockers."""

    id: str
    type: str
    input: str
    """The encoded arguments: text, JSON unless another codec is used."""
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Higher runs first."""
    schedule: At | After = NOW
    max_attempts: int | None = DEFAULT_MAX_ATTEMPTS
    """Executions allowed in all; None is unlimited."""
    max_losses: int = DEFAULT_MAX_LOSSES
    timeout: float | None = None
    """Seconds a single execution may take."""
    id_given: bool = False
    """The caller chose the id: a stored job with this id is an error, not our own insert again."""
    sequence_id: str | None = None
    """None: this job begins a sequence, under the job's id."""
    sequence_type: str | None = None
    root_id: str | None = None
    """None: its own id."""
    origin_id: str | None = None
    position: int = 0
    """The place in the sequence, 0 for its first job."""
    blockers: tuple[str, ...] = ()
    """Ids of sequences that must complete before this job may run, in order."""
    dedup_key: str | None = None
    dedup_any: bool = False
    """Deduplicate against completed sequences too."""
    dedup_window: float | None = None
    """Seconds after which an older sequence no longer counts."""
    dedup_except: str | None = None
    """A sequence id that does not count: lets a job start its own successor under its key."""
    only_for: str | None = None
    """The id of a later job of the batch: if that job is deduplicated, this one is not stored."""
    trace: str | None = None
    """Context carried from the producer to the handler (trace parent and the like)."""
    key: str | None = None
    """For limits by key, and for keys that take turns."""
    schedule_name: str | None = None
    """The schedule that starts the sequence. `insert` stores only jobs without one."""
    scheduled_for: datetime | None = None
    """The tick of that schedule."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored job as it was at one moment."""

    id: str
    type: str
    queue: str
    priority: int
    state: JobState
    input: str
    output: str | None
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    """Time of the last claim."""
    finished_at: datetime | None
    attempts: int
    """Recorded failures."""
    losses: int
    """Leases that ran out."""
    max_attempts: int | None
    max_losses: int
    timeout: float | None
    last_error: str | None
    """The job's last error, encoded by `headway.domain.failure`. It is kept after a retry
    and after success; the state tells whether the job failed."""
    lease: Lease | None
    """Present exactly while the job is running."""
    lease_version: int
    worker: str | None
    """The present or last holder; None if the job was completed without a worker."""
    sequence_id: str
    sequence_type: str
    root_id: str
    origin_id: str | None
    position: int
    awaited: bool
    """Some job waits for this job's sequence."""
    blockers: tuple[str, ...]
    """Ids of all its blocking sequences, done or not, in order."""
    dedup_key: str | None
    trace: str | None
    fingerprint: str | None = None
    """Of a dead letter: groups similar failures."""
    schedule: str | None = None
    """The schedule that started the job's sequence; None: no schedule did."""
    scheduled_for: datetime | None = None
    """The tick of that schedule."""
    key: str | None = None
    """For limits by key, and for keys that take turns."""

    @property
    def failure(self) -> Failure | None:
        """`last_error`, decoded."""
        return None if self.last_error is None else decode_failure(self.last_error)


class ClaimedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a claim gives it to a worker: enough to run the job and to settle it."""

    id: str
    type: str
    queue: str
    priority: int
    input: str
    run_at: datetime
    created_at: datetime
    attempts: int
    losses: int
    max_attempts: int | None
    max_losses: int
    timeout: float | None
    lease: Lease
    sequence_id: str
    sequence_type: str
    root_id: str
    origin_id: str | None
    position: int
    has_blockers: bool
    trace: str | None
    schedule: str | None = None
    scheduled_for: datetime | None = None
    key: str | None = None


class ClaimedJobs(list[ClaimedJob]):
    """The answer of a claim: the jobs in the order in which they should be run."""

    limited: Collection[str] = ()
    """Queues of the order that were left out because they have limits."""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A failed or lost execution. Successful ones leave no such row."""

    job_id: str
    version: int
    """The lease version of the execution."""
    outcome: str
    """`failed` or `lost`."""
    worker: str | None
    started_at: datetime | None
    finished_at: datetime
    error: str

    @property
    def failure(self) -> Failure:
        """`error`, decoded."""
        return decode_failure(self.error)
