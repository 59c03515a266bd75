"""Questions about what is stored, and the answers: filters, pages, counts, queues, workers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from headway.domain.job import JobRecord, JobState
from headway.errors import InvalidOption

MAX_PAGE = 1_000
"""Jobs, audit records or groups on one page; and jobs that are acted on at once."""
MAX_COUNTED = 100_000
"""Jobs that are counted one by one."""
MAX_GRAPH = 5_000
"""Jobs that one graph holds."""
MAX_MINUTES = 7 * 24 * 60
"""How far back an overview reaches."""

_PATH = re.compile(r'[^\s:"]+')


class Age(msgspec.Struct, frozen=True, kw_only=True):
    """How long ago something happened, in seconds: less than `under`, at least `over`."""

    under: float | None = None
    over: float | None = None

    @property
    def restricts(self) -> bool:
        return self.under is not None or self.over is not None


ANY_AGE = Age()


class ArgumentFilter(msgspec.Struct, frozen=True):
    """What stands at a path in a job's input: `address.city`, `items.0`. Text is compared as it
    is, everything else as JSON writes it."""

    path: str
    value: str

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise InvalidOption(
                f"args.{self.path[:40]} names no argument to filter by; write args.order_id:7 or "
                "args.address.city:Berlin"
            )


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; an empty tuple does not restrict. Several values of one field: any of
    them. `headway.domain.filters` reads and writes it as people type it."""

    states: tuple[JobState, ...] = ()
    due: bool | None = None
    """Of pending jobs only those that are due (True), or only the scheduled ones (False)."""
    types: tuple[str, ...] = ()
    """One that ends with `*` stands for all that begin so."""
    queues: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    sequence_id: str | None = None
    root_id: str | None = None
    workers: tuple[str, ...] = ()
    """Who holds them, or held them last."""
    keys: tuple[str, ...] = ()
    """Under which they were deduplicated."""
    fingerprints: tuple[str, ...] = ()
    """Of dead letters, or how these begin."""
    arguments: tuple[ArgumentFilter, ...] = ()
    """Several values at one path: any of them; several paths: all of them."""
    errors: tuple[str, ...] = ()
    """Parts of the last error's type or message, upper or lower case."""
    created: Age = ANY_AGE
    finished: Age = ANY_AGE


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


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of one queue, type and state there are, as far as that can be told without
    reading them all. Pending ones are told apart by whether they are due."""

    queue: str
    type: str
    state: JobState
    due: bool
    """False for pending jobs that are scheduled; True for all others."""
    count: int
    exact: bool
    """False: an estimate, or a lower bound."""
    oldest: datetime | None
    """For pending jobs the earliest `run_at`, if it is known."""


class EndedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has ended, as far as times are concerned."""

    queue: str
    type: str
    state: JobState
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime


class EndedCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of one queue ended in one slice of time, in one state, within `covered` seconds
    from its start: all of the slice, or its beginning if it has very many."""

    slice: int
    """0 is the oldest."""
    queue: str
    state: JobState
    count: int
    covered: float


class FailureCount(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one fingerprint."""

    fingerprint: str
    count: int
    exact: bool
    first_at: datetime
    last_at: datetime
    sample_id: str
    """The newest of them."""


def group_failures(jobs: Iterable[JobRecord], limit: int, *, exact: bool) -> list[FailureCount]:
    """Dead letters by fingerprint, the largest group first, then the one that failed last."""
    groups: dict[str, list[JobRecord]] = {}
    for job in jobs:
        groups.setdefault(job.fingerprint or "", []).append(job)
    found: list[FailureCount] = []
    for fingerprint, alike in groups.items():
        ends = [job.finished_at for job in alike if job.finished_at is not None]
        found.append(
            FailureCount(
                fingerprint=fingerprint,
                count=len(alike),
                exact=exact,
                first_at=min(ends),
                last_at=max(ends),
                sample_id=max(job.id for job in alike),
            )
        )
    found.sort(key=lambda group: (group.count, group.last_at), reverse=True)
    return found[:limit]


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
