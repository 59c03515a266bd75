"""Orders of a worker to a store: claims, progress reports, pruning."""

from __future__ import annotations

import msgspec

from headway.domain.job import JobState
from headway.domain.validation import check_seconds
from headway.errors import InvalidOption


class ProgressReport(msgspec.Struct, frozen=True):
    """The progress that the holder of a job reports."""

    job_id: str
    token: str
    fraction: float
    note: str


class QueueShare(msgspec.Struct, frozen=True):
    """A queue to claim from, and the most jobs to claim from it."""

    name: str
    limit: int
    at_once: int | None = None
    """How many of them can be started at once; the others are claimed ahead. None: all."""


class ClaimOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: at most `limit` jobs, from earlier queues first, of these types only."""

    worker: str
    token: str
    """New for every claim; all jobs of the claim get it."""
    lease_for: float
    """Seconds."""
    queues: tuple[QueueShare, ...]
    types: tuple[str, ...]
    limit: int
    most_losses: int | None = None
    """Jobs that were lost more often than this are not claimed; None: all are."""
    limited: bool = False
    """Claim from queues with limits, too: the caller has looked at them."""
    again: bool = False
    """A claim with this token was sent before, and its answer may have been lost."""


class PruneRule(msgspec.Struct, frozen=True, kw_only=True):
    """Finished sequences to delete: the last job ended in `state` more than `older_than` seconds
    ago. `types` are the types of their first jobs, `queues` the queues of their last jobs
    (None: any); the `except_` ones are kept."""

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
