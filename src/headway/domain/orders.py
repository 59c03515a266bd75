"""What a worker asks of a store: claims, progress reports, pruning."""

from __future__ import annotations

import msgspec

from headway.domain.job import JobState
from headway.domain.validation import check_seconds
from headway.errors import InvalidOption


class ProgressReport(msgspec.Struct, frozen=True):
    """How far the holder of a job says that it is."""

    job_id: str
    token: str
    fraction: float
    note: str


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
    most_losses: int | None = None
    """Jobs that were lost more often than this are left where they are; None: all are taken."""
    again: bool = False
    """A claim with this token was sent before, and its answer may have been lost."""


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
        check_seconds("a retention", self.older_than, zero=True)
