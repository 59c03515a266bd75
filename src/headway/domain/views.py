"""Answers for operators: summaries, explanations, graphs. All of them can be encoded as JSON."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.limits.limit_views import QueuePermits
from headway.domain.limits.permits import PermitWait
from headway.domain.queries import WorkerRecord


class ShownState(enum.StrEnum):
    """States as people see them: a pending job that is not due yet is scheduled."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Count(msgspec.Struct, frozen=True):
    """A number; if it is not exact, it is an estimate or a lower bound."""

    value: int
    exact: bool = True


class Percentiles(msgspec.Struct, frozen=True):
    """Seconds, over the `samples` jobs that ended last."""

    p50: float
    p95: float
    p99: float
    samples: int


class Bucket(msgspec.Struct, frozen=True):
    """Jobs that ended in the time slice that begins `at`."""

    at: datetime
    completed: int
    failed: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    store: str
    states: dict[ShownState, Count]
    throughput: list[Bucket]
    """Oldest first, of equal length, with empty slices."""
    bucket_seconds: float
    per_second: float
    """Completed per second over the last minute."""
    waited: Percentiles | None
    """Time from due to started."""
    ran: Percentiles | None
    oldest_waiting: float | None
    """Waiting time of the oldest due job, in seconds."""
    time_to_drain: float | None
    """Seconds until no job is pending at the current speed; None if the number does not fall."""
    workers: int
    """Living ones."""


class QueueSummary(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    paused_at: datetime | None
    states: dict[ShownState, Count]
    oldest_waiting: float | None
    per_second: float
    workers: int
    permits: QueuePermits | None = None
    """None: the queue has no limits, and is not held."""


class QueueDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, with the keys of its running jobs."""

    queue: QueueSummary
    warning: str | None = None
    """A sentence if nobody uses a queue of this name."""


class TypeSummary(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    states: dict[ShownState, Count]
    oldest_waiting: float | None
    implemented: bool
    """A living worker has a handler for it."""


class WorkerSummary(msgspec.Struct, frozen=True, kw_only=True):
    worker: WorkerRecord
    alive: bool
    seen_ago: float


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a worker, for the supervisor of its process."""

    live: bool
    """False: the worker is stuck, and only a restart helps."""
    ready: bool
    """The worker claims jobs and can store their results."""
    problems: tuple[str, ...] = ()
    """Why the worker is not live or not ready, in sentences."""


class Reason(enum.StrEnum):
    """Why a job is in its state."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    PAUSED = "paused"
    NO_WORKER = "no_worker"
    NO_WORKER_FOR_QUEUE = "no_worker_for_queue"
    PERMIT = "permit"
    """Limits of its queue, or a hold, keep it from being claimed."""
    BUSY = "busy"
    DUE = "due"
    RUNNING = "running"
    LEASE_EXPIRED = "lease_expired"
    FAILED = "failed"
    CANCELLED = "cancelled"
    COMPLETED = "completed"


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    reason: Reason
    sentence: str
    """Goes on from "the job is": `scheduled, to run in 4 m`, `waiting: its queue is paused`."""
    because: tuple[Explanation, ...] = ()
    """For a blocked job: why its incomplete blockers are not done."""
    waits_for: tuple[PermitWait, ...] = ()
    """For a job without a permit: each limit or hold that keeps it from being claimed."""


class BlockerView(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence that blocks or blocked a job; `state` is None for a deleted sequence."""

    sequence_id: str
    job_id: str | None
    type: str | None
    state: ShownState | None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The last progress that a handler reported."""

    fraction: float
    note: str
    at: datetime


class JobDetail(msgspec.Struct, frozen=True, kw_only=True):
    job: JobRecord
    shown: ShownState
    attempts: list[AttemptRecord]
    blockers: list[BlockerView]
    dependents: list[BlockerView]
    """Jobs that wait for this job's sequence, by their own sequences."""
    progress: Progress | None
    explanation: Explanation


class SequenceView(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence with its current job."""

    id: str
    type: str
    job_id: str
    job_type: str
    state: ShownState
    length: int
    created_at: datetime
    root_id: str


class SequencePage(msgspec.Struct, frozen=True):
    sequences: list[SequenceView]
    cursor: str | None


class EdgeKind(enum.StrEnum):
    CONTINUES = "continues"
    BLOCKS = "blocks"
    STARTED = "started"


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    job_id: str
    type: str
    state: ShownState
    sequence_id: str
    position: int
    attempts: int


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """From the earlier job to the later one."""

    source: str
    target: str
    link: EdgeKind


class SequenceGraph(msgspec.Struct, frozen=True, kw_only=True):
    root_id: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    complete: bool
    """False: there are more jobs than `at_most`."""


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    fingerprint: str
    type: str
    error: str
    """The exception's type."""
    message: str
    """Of the latest one."""
    count: Count
    first_at: datetime
    last_at: datetime
    sample_id: str


BY_FILTER = "filter: "
"""Prefix of the target in the audit of an action on all jobs that match a filter."""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An action of an operator. `before` and `after` are states or settings, as text."""

    id: str
    at: datetime
    actor: str
    action: str
    target: str
    count: int
    before: str
    after: str


class AuditPage(msgspec.Struct, frozen=True):
    records: list[AuditRecord]
    cursor: str | None


class JobAction(enum.StrEnum):
    RETRY = "retry"
    """Failed and cancelled jobs."""
    CANCEL = "cancel"
    """Blocked, pending and running ones."""
    TRIGGER = "trigger"
    """Pending ones, scheduled or not."""
    DELETE = "delete"
    """Sequences that have ended, named by any of their jobs; not while an unfinished job waits for
    them."""


class QueueChange(msgspec.Struct, frozen=True):
    """A queue after it was paused or resumed."""

    queue: str
    paused: bool
    warning: str | None = None
    """A sentence if nobody uses a queue of this name."""


class StartedJob(msgspec.Struct, frozen=True):
    id: str


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action: jobs changed, jobs passed over, cursor of the next batch."""

    changed: int
    passed_over: int
    cursor: str | None = None


class IncompatibleJob(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting job that this code cannot run."""

    job_id: str
    type: str
    state: JobState
    problem: str


class CheckPage(msgspec.Struct, frozen=True):
    examined: int
    incompatible: list[IncompatibleJob]
    cursor: str | None
