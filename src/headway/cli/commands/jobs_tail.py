"""`headway jobs tail`: reads the jobs again and again, and prints what has changed.

Each look reads the newest jobs, the running ones and those that ended since the last look, so that
a long queue does not hide the jobs at its other end.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from datetime import datetime

import click
import msgspec

from headway.app import Headway
from headway.cli.filters import read_filter
from headway.cli.job_text import moment_now, note_on
from headway.cli.output import in_colour, print_json_line, say, short_id, terminal_width
from headway.cli.safe_text import harmless
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl
from headway.domain.job import JobRecord, JobState
from headway.domain.lifecycle import shown_state
from headway.domain.queries import MAX_PAGE, Age, JobFilter
from headway.domain.validation import is_id

AT_ONCE = 200
"""Newest and running jobs read in one look."""
MOST_ENDED = 3_000
"""Ended jobs read in one look; if there are more, a message says so."""
OVERLAP = 2.0
"""Seconds that two looks overlap, for late commits."""
REMEMBERED = 10_000
WIDE = 120
"""Columns of a terminal that shows whole ids."""

State = tuple[JobState, int, int, int]


def tail_jobs(
    target: Headway | DashboardUrl, words: Sequence[str], *, last: int, every: float, as_json: bool
) -> None:
    async def run(session: Session) -> None:
        which = await _with_whole_ids(session, read_filter(words))
        tail = _Tail(session, which, as_json=as_json)
        await tail.begin(last)
        while True:
            await asyncio.sleep(every)
            await tail.look()

    with contextlib.suppress(KeyboardInterrupt):  # ends the command
        in_session(target, run)


async def _with_whole_ids(session: Session, which: JobFilter) -> JobFilter:
    """The endings of ids are searched for once, not at every look."""
    ask = session.questions.jobs
    if not all(map(is_id, which.ids)):
        page = await ask(JobFilter(ids=which.ids), limit=MAX_PAGE)
        which = msgspec.structs.replace(which, ids=tuple(job.id for job in page.jobs) or which.ids)
    for word in which.words:
        jobs = (await ask(JobFilter(words=(word,)), limit=2)).jobs
        alone = len(jobs) == 1 and not which.ids
        if alone and jobs[0].id.endswith(word.lower().removeprefix("…")):
            rest = tuple(each for each in which.words if each != word)
            which = msgspec.structs.replace(which, ids=(jobs[0].id,), words=rest)
    return which


class _Tail:
    def __init__(self, session: Session, which: JobFilter, *, as_json: bool) -> None:
        self._session = session
        self._which = which
        self._as_json = as_json
        self._known: dict[str, State] = {}
        self._looked = time.monotonic()

    async def begin(self, last: int) -> None:
        newest = await self._newest(self._which)
        for job in newest:
            self._known[job.id] = _state(job)
        for job in await self._moving():
            self._known[job.id] = _state(job)
        for job in reversed(newest[:last]):
            self._tell(job)

    async def look(self) -> None:
        found = {job.id: job for job in await self._newest(self._which)}
        found.update({job.id: job for job in await self._moving()})
        self._looked = time.monotonic()
        changed = [job for job in found.values() if self._known.get(job.id) != _state(job)]
        for job in sorted(changed, key=_happened_at):
            self._known.pop(job.id, None)  # the oldest are forgotten first
            self._known[job.id] = _state(job)
            self._tell(job)
        for id in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            del self._known[id]

    async def _moving(self) -> list[JobRecord]:
        """Running jobs, and those that ended since the last look."""
        found: list[JobRecord] = []
        if not self._which.states or JobState.RUNNING in self._which.states:
            running = msgspec.structs.replace(self._which, states=(JobState.RUNNING,))
            found += await self._newest(running)
        if not self._which.finished.restricts:
            since = time.monotonic() - self._looked + OVERLAP
            found += await self._ended(
                msgspec.structs.replace(self._which, finished=Age(under=since))
            )
        return found

    async def _ended(self, which: JobFilter) -> list[JobRecord]:
        found: list[JobRecord] = []
        cursor: str | None = None
        while len(found) < MOST_ENDED:
            page = await self._session.questions.jobs(which, cursor=cursor, limit=MAX_PAGE)
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                return found
        say("more jobs end than can be printed; use a filter")
        return found

    async def _newest(self, which: JobFilter) -> list[JobRecord]:
        return (await self._session.questions.jobs(which, limit=AT_ONCE)).jobs

    def _tell(self, job: JobRecord) -> None:
        if self._as_json:
            print_json_line(job)
            return
        now = moment_now()
        state = shown_state(job, now)
        when = _happened_at(job).astimezone().strftime("%H:%M:%S")
        pad = " " * (9 - len(state))
        line = f"{job.type}  {self._id(job)}  {note_on(job, now)}".rstrip()
        click.echo(f"{when}  {in_colour(state)}{pad}  {harmless(line)}")

    def _id(self, job: JobRecord) -> str:
        columns = terminal_width()
        return job.id if columns is None or columns >= WIDE else short_id(job.id)


def _state(job: JobRecord) -> State:
    return job.state, job.lease_version, job.attempts, job.losses


def _happened_at(job: JobRecord) -> datetime:
    match job.state:
        case JobState.RUNNING:
            return job.started_at or job.created_at
        case JobState.COMPLETED | JobState.FAILED | JobState.CANCELLED:
            return job.finished_at or job.created_at
        case _:
            return job.created_at
