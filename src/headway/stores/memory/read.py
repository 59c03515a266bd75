"""Reads: what is stored, as the operation at hand may see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from heapq import nlargest
from itertools import islice

from headway.domain.filters import matches
from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.queries import (
    MAX_PAGE,
    EndedCount,
    EndedJob,
    FailureCount,
    JobCount,
    JobFilter,
    Page,
    Tally,
    group_failures,
)
from headway.domain.views import Count
from headway.errors import InvalidOption
from headway.ports.statement import Operation
from headway.stores.memory.row import Row, record
from headway.stores.memory.table import Table, moment

CURSOR = "before:"


class Reading(Table):
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        yield from ()
        return [record(row) if (row := self._look(job_id)) is not None else None for job_id in ids]

    def find(
        self,
        which: JobFilter,
        *,
        cursor: str | None = None,
        limit: int = 50,
        now: datetime | None = None,
    ) -> Operation[Page]:
        yield from ()
        before = before_cursor(cursor, limit, "jobs")
        found = nlargest(
            limit + 1,
            (row for row in self._matching(which, now) if before is None or row.id < before),
            key=lambda row: row.id,
        )
        more = CURSOR + found[limit - 1].id if len(found) > limit else None
        return Page([record(row) for row in found[:limit]], more)

    def count(
        self, which: JobFilter, at_most: int, *, now: datetime | None = None
    ) -> Operation[Count]:
        yield from ()
        found = sum(1 for _ in islice(self._matching(which, now), at_most + 1))
        return Count(min(found, at_most), found <= at_most)

    def time(self, *, now: datetime | None = None) -> Operation[datetime]:
        yield from ()
        return moment(now)

    def tally(self, *, now: datetime | None = None) -> Operation[list[Tally]]:
        yield from ()
        now = moment(now)
        groups: dict[tuple[str, str, JobState, bool], tuple[int, datetime]] = {}
        for row in self._visible():
            due = row.state is not JobState.PENDING or row.run_at <= now
            key = row.spec.queue, row.spec.type, row.state, due
            count, oldest = groups.get(key, (0, row.run_at))
            groups[key] = count + 1, min(oldest, row.run_at)
        return [
            Tally(
                queue=queue,
                type=type_,
                state=state,
                due=due,
                count=count,
                exact=True,
                oldest=oldest if state is JobState.PENDING else None,
            )
            for (queue, type_, state, due), (count, oldest) in sorted(groups.items())
        ]

    def ended(self, limit: int) -> Operation[list[EndedJob]]:
        yield from ()
        ended = (
            (row.finished_at, row.id, row) for row in self._visible() if row.finished_at is not None
        )
        return [
            EndedJob(
                queue=row.spec.queue,
                type=row.spec.type,
                state=row.state,
                run_at=row.run_at,
                started_at=row.started_at,
                finished_at=finished_at,
            )
            for finished_at, _, row in nlargest(limit, ended)
        ]

    def throughput(
        self, slices: int, seconds: float, *, now: datetime | None = None
    ) -> Operation[list[EndedCount]]:
        yield from ()
        since = moment(now) - timedelta(seconds=slices * seconds)
        found: dict[tuple[int, str, JobState], int] = {}
        for row in self._visible():
            if row.finished_at is None or row.finished_at < since:
                continue
            number = int((row.finished_at - since).total_seconds() // seconds)
            if number < slices:
                key = number, row.spec.queue, row.state
                found[key] = found.get(key, 0) + 1
        return [
            EndedCount(slice=number, queue=queue, state=state, count=count, covered=seconds)
            for (number, queue, state), count in sorted(found.items())
        ]

    def failures(
        self, which: JobFilter, limit: int, *, now: datetime | None = None
    ) -> Operation[list[FailureCount]]:
        yield from ()
        failed = (row for row in self._matching(which, now) if row.state is JobState.FAILED)
        return group_failures(map(record, failed), limit, exact=True)

    def counts(self) -> Operation[list[JobCount]]:
        yield from ()
        found: dict[tuple[str, str, JobState], tuple[int, datetime]] = {}
        for row in self._visible():
            key = row.spec.queue, row.spec.type, row.state
            count, oldest = found.get(key, (0, row.run_at))
            found[key] = count + 1, min(oldest, row.run_at)
        return [JobCount(*key, *found[key]) for key in sorted(found)]

    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        yield from ()
        row = self._look(job_id)
        return [] if row is None else list(row.history)

    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False
    ) -> Operation[list[JobRecord | None]]:
        yield from ()
        reach = self._grasp_last if lock else self._look_last
        lasts = [reach(sequence_id) for sequence_id in sequence_ids]
        return [None if row is None else record(row) for row in lasts]

    def blocker_outputs(self, job_ids: Sequence[str]) -> Operation[dict[str, list[str | None]]]:
        yield from ()
        outputs: dict[str, list[str | None]] = {}
        for job_id in job_ids:
            row = self._look(job_id)
            if row is not None:
                lasts = [self._look_last(blocker) for blocker in row.blockers]
                outputs[job_id] = [None if last is None else last.output for last in lasts]
        return outputs

    def dependents(
        self, sequence_ids: Sequence[str], *, limit: int | None = None
    ) -> Operation[list[JobRecord]]:
        yield from ()
        waiting: dict[str, Row] = {}
        for sequence_id in sequence_ids:
            first = self._look(sequence_id)
            for waiter in (first.waiters if first is not None else None) or ():
                seen = self._seen(waiter)
                if seen is not None:
                    waiting[seen.id] = seen
        return [record(row) for _, row in sorted(waiting.items())[:limit]]

    def _visible(self) -> Iterator[Row]:
        return (seen for row in self._rows.values() if (seen := self._seen(row)) is not None)

    def _matching(self, which: JobFilter, now: datetime | None) -> Iterator[Row]:
        if which == JobFilter():
            return self._visible()
        now = moment(now)
        return (row for row in self._visible() if matches(which, record(row), now))


def before_cursor(cursor: str | None, limit: int, what: str) -> str | None:
    """The id that a page begins below."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidOption(f"a page holds between 1 and {MAX_PAGE} {what}, not {limit}")
    if cursor is None:
        return None
    if not cursor.startswith(CURSOR):
        raise InvalidOption(
            "that is not a cursor of this store; pass the one that came with the last page"
        )
    return cursor.removeprefix(CURSOR)
