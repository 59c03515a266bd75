"""Counts, throughput and failures, over all jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from heapq import nlargest

from headway.domain.job import JobState
from headway.domain.queries import (
    EndedCount,
    EndedJob,
    FailureCount,
    JobCount,
    JobFilter,
    Tally,
    group_failures,
)
from headway.ports.statement import Operation
from headway.stores.memory.find import matching
from headway.stores.memory.row import to_record
from headway.stores.memory.table import JobTable, moment
from headway.stores.tallies import TallyGroup, make_tallies


class MemoryStatistics(JobTable):
    def counts(self) -> Operation[list[JobCount]]:
        yield from ()
        found: dict[tuple[str, str, JobState], tuple[int, datetime]] = {}
        for row in self._visible():
            key = row.spec.queue, row.spec.type, row.state
            count, oldest = found.get(key, (0, row.run_at))
            found[key] = count + 1, min(oldest, row.run_at)
        return [JobCount(*key, *found[key]) for key in sorted(found)]

    def time(self, *, now: datetime | None = None) -> Operation[datetime]:
        yield from ()
        return moment(now)

    def tally(self, *, now: datetime | None = None) -> Operation[list[Tally]]:
        yield from ()
        now = moment(now)
        groups: dict[TallyGroup, tuple[int, datetime, bool]] = {}
        for row in self._visible():
            due = row.state is not JobState.PENDING or row.run_at <= now
            key = row.spec.queue, row.spec.type, row.state, due
            count, oldest, _ = groups.get(key, (0, row.run_at, True))
            groups[key] = count + 1, min(oldest, row.run_at), True
        return make_tallies(groups)

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
        failed = (
            row for row in matching(self._visible(), which, now) if row.state is JobState.FAILED
        )
        return group_failures(map(to_record, failed), limit, exact=True)
