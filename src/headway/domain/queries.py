"""Questions of people to a store, and the answers: filters, pages, counts, queues, workers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from headway.domain.job import JobRecord, JobState
from headway.domain.validation import is_id
from headway.errors import InvalidOption

MAX_PAGE = 1_000
"""Jobs, audit records or groups on one page; and jobs that are acted on at once."""
MAX_COUNTED = 100_000
"""Jobs that are counted exactly."""
MAX_GRAPH = 5_000
"""The most jobs in one graph."""
MAX_MINUTES = 7 * 24 * 60
"""The longest time that an overview shows."""
LATELY = (12, 5.0)
"""Time slices for the current speed, their number and seconds: a minute in all."""
BEAT_EVERY = 5.0
"""Seconds between the heartbeats of a worker, at most."""
ALIVE_FOR = timedelta(seconds=4 * BEAT_EVERY)
"""A worker that was silent for longer counts as dead."""

IDS_COMPARED = 20_000
"""Ids that one step of a search by the endings of ids reads."""

_PATH = re.compile(r'[^\s:"]+')


class Age(msgspec.Struct, frozen=True, kw_only=True):
    """An age in seconds: less than `under`, at least `over`."""

    under: float | None = None
    over: float | None = None

    @property
    def restricts(self) -> bool:
        return self.under is not None or self.over is not None


ANY_AGE = Age()


class ArgumentFilter(msgspec.Struct, frozen=True):
    """A value at a path in a job's input: `address.city`, `items.0`. Text is compared as it is,
    other values as JSON."""

    path: str
    value: str

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise InvalidOption(
                f"args.{self.path[:40]} names no argument to filter by; write args.order_id:7 or "
                "args.address.city:Berlin"
            )


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs to list; an empty tuple does not restrict. Several values of one field: any of them.
    `headway.domain.filters` reads and writes filters as people type them."""

    states: tuple[JobState, ...] = ()
    due: bool | None = None
    """Of pending jobs only those that are due (True), or only the scheduled ones (False)."""
    types: tuple[str, ...] = ()
    """A name that ends with `*` stands for all names that begin with it."""
    queues: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    """Whole ids. `headway.admin.id_lookup` puts them in the place of endings, here and below."""
    sequence_id: str | None = None
    root_id: str | None = None
    workers: tuple[str, ...] = ()
    """Present or last holders of the jobs."""
    keys: tuple[str, ...] = ()
    """Their keys for limits."""
    dedup_keys: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    """Names of the schedules that started their sequences."""
    fingerprints: tuple[str, ...] = ()
    """Fingerprints of failed jobs, or beginnings of fingerprints."""
    arguments: tuple[ArgumentFilter, ...] = ()
    """Several values at one path: any of them; several paths: all of them."""
    errors: tuple[str, ...] = ()
    """Parts of the last error's type or message, in any case."""
    words: tuple[str, ...] = ()
    """Each is a part of the type, queue, worker, a key or the last error in any case, or a whole
    value in the input, or the ending of the id."""
    hidden: tuple[str, ...] = ()
    """Parts of names: `words` are not searched for in fields of the input that are named so."""
    created: Age = ANY_AGE
    finished: Age = ANY_AGE


class Page(msgspec.Struct, frozen=True):
    """Some jobs, newest id first, and the cursor of the next page (None: there is none)."""

    jobs: list[JobRecord]
    cursor: str | None


class IdPage(msgspec.Struct, frozen=True):
    """Ids with one of the wanted endings, newest first, and the cursor to search on from (None: all
    ids were compared)."""

    ids: list[str]
    cursor: str | None


def check_page(cursor: str | None, limit: int, what: str) -> None:
    """Refuse a page of a wrong size, and a cursor that is not an id."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidOption(f"a page holds between 1 and {MAX_PAGE} {what}, not {limit}")
    if cursor is not None and not is_id(cursor):
        raise InvalidOption(f"{cursor!r} is not the cursor of a page")


class JobCount(msgspec.Struct, frozen=True):
    """The number of jobs of one queue, type and state."""

    queue: str
    type: str
    state: JobState
    count: int
    oldest_run_at: datetime


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs of one queue, type and state, from a bounded read. Due and scheduled
    pending jobs are counted apart."""

    queue: str
    type: str
    state: JobState
    due: bool
    """False for pending jobs that are scheduled; True for all others."""
    count: int
    exact: bool
    """False: an estimate, or a lower bound."""
    oldest: datetime | None
    """The earliest `run_at` of pending jobs, if known."""


class EndedJob(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a job that has ended."""

    queue: str
    type: str
    state: JobState
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime


class EndedCount(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs of one queue that ended in one slice of time, in one state, within the
    first `covered` seconds: the whole slice, or its beginning if very many ended in it."""

    slice: int
    """0 is the oldest."""
    queue: str
    state: JobState
    count: int
    covered: float


def completed_per_second(lately: Iterable[EndedCount]) -> dict[str, float]:
    """The current speed of each queue, from the counts of the `LATELY` slices."""
    slices, _ = LATELY
    speeds: dict[str, float] = defaultdict(float)
    for each in lately:
        if each.state is JobState.COMPLETED and each.covered > 0:
            speeds[each.queue] += each.count / each.covered / slices
    return dict(speeds)


class FailureCount(msgspec.Struct, frozen=True, kw_only=True):
    """Failed jobs with one fingerprint."""

    fingerprint: str
    count: int
    exact: bool
    first_at: datetime
    last_at: datetime
    sample_id: str
    """The newest job of the group."""


def group_failures(jobs: Iterable[JobRecord], limit: int, *, exact: bool) -> list[FailureCount]:
    """Failed jobs by fingerprint, the largest group first, then the one that failed last."""
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
    """A worker, by its last heartbeat."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    types: tuple[str, ...]
    concurrency: int
    running: int
    started_at: datetime
    seen_at: datetime
    schedules: dict[str, str] | None = None
    """Names of the schedules that its code declares, with their fingerprints; None: this worker
    fires no schedules."""
    limits: dict[str, str] | None = None
    """Names of the queues whose limits its code declares, with their fingerprints."""


def is_alive(worker: WorkerRecord, now: datetime) -> bool:
    return worker.seen_at > now - ALIVE_FOR
