"""Questions about what is stored, and the answers: filters, pages, counts, queues, workers."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headway.domain.errors import InvalidOption
from headway.domain.job import JobRecord, JobState

MAX_PAGE = 1_000


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; an empty tuple does not restrict."""

    states: tuple[JobState, ...] = ()
    types: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    sequence_id: str | None = None
    root_id: str | None = None


class Page(msgspec.Struct, frozen=True):
    """Some jobs, newest id first, and the cursor that gives the next ones (None: that was all)."""

    jobs: list[JobRecord]
    cursor: str | None


class JobCount(msgspec.Struct, frozen=True):
    """How many jobs of one queue, type and state there are."""

    queue: str
    type: str
    state: JobState
    count: int
    oldest_run_at: datetime


class QueueRecord(msgspec.Struct, frozen=True):
    name: str
    paused_at: datetime | None


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it described itself when it was last heard of."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    types: tuple[str, ...]
    concurrency: int
    running: int
    started_at: datetime
    seen_at: datetime


class QueueShare(msgspec.Struct, frozen=True):
    """A queue that a claim may take from, and at most how many jobs."""

    name: str
    limit: int


class ClaimOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker wants: at most `limit` jobs, from earlier queues first, of these types only."""

    worker: str
    token: str
    """Fresh for every claim; all jobs handed out by it carry this token."""
    lease_for: float
    """Seconds."""
    queues: tuple[QueueShare, ...]
    types: tuple[str, ...]
    limit: int


class PruneRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which finished sequences may go: those whose last job ended in `state` longer ago than
    `older_than` seconds. `types` are those that sequences began with, `queues` those that they
    ended in; both restrict (None: any), and the `except_` ones spare."""

    state: JobState
    older_than: float
    types: tuple[str, ...] | None = None
    except_types: tuple[str, ...] = ()
    queues: tuple[str, ...] | None = None
    except_queues: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.state.terminal:
            raise InvalidOption(f"only finished jobs can be pruned, not {self.state} ones")
        if self.older_than < 0:
            raise InvalidOption("a retention must not be negative")
