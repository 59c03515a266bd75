"""Counts, throughput, failures. Only `counts` reads the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from headway.domain.filters import has_text, matches_text
from headway.domain.job import JobState
from headway.domain.queries import (
    MAX_PAGE,
    EndedCount,
    EndedJob,
    FailureCount,
    JobCount,
    JobFilter,
    Tally,
    group_failures,
)
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.sql.dialect import SqlPart, maybe_time
from headway.stores.sql.find import NEWEST, conditions, look
from headway.stores.tallies import TallyGroup, estimate_tallies, make_tallies, part_of

COUNTED = 3_000
"""Jobs of one state that are counted exactly."""
COUNTED_PER_SLICE = 150
FAILURES = 50_000
"""Failed jobs that are counted by fingerprint, from an index alone."""
FAILURES_LOOKED_AT = 5_000
"""Failed jobs that are read to see whether they match."""


class SqlStatistics(SqlPart):
    @reading
    def time(self, *, now: datetime | None = None) -> Operation[datetime]:
        rows = yield Statement(self._sql["time"], (self._dialect.now(now),), alone=True)
        return self._dialect.time(rows[0][0])

    @reading
    def tally(self, *, now: datetime | None = None) -> Operation[list[Tally]]:
        present = self._dialect.now(now)
        rows: Sequence[Row] = yield Statement(
            self._sql["sample"], (present, self._dialect.sample_size), alone=True
        )
        share = rows[0][0] or 1.0
        sampled = {_group(row[1:]): row[5:] for row in rows if row[1] is not None}
        if share >= 1:  # it was no sample, but all there is
            return make_tallies(
                {
                    group: (count, maybe_time(self._dialect, oldest), True)
                    for group, (count, oldest) in sampled.items()
                }
            )
        rows = yield Statement(self._sql["tally"], (present, COUNTED), alone=True)
        return estimate_tallies(
            {_group(row): (row[4], maybe_time(self._dialect, row[5])) for row in rows},
            {part_of(_group(row)) for row in rows if not row[6]},
            {group: round(found[0] / share) for group, found in sampled.items()},
        )

    @reading
    def counts(self) -> Operation[list[JobCount]]:
        rows = yield Statement(self._sql["counts"], alone=True)
        return [
            JobCount(queue, type, JobState(state), count, self._dialect.time(oldest))
            for queue, type, state, count, oldest in rows
        ]

    @reading
    def ended(self, limit: int) -> Operation[list[EndedJob]]:
        rows = yield Statement(self._sql["ended"], (limit,), alone=True)
        time = self._dialect.time
        return [
            EndedJob(
                queue=queue,
                type=type_,
                state=JobState(state),
                run_at=time(run_at),
                started_at=maybe_time(self._dialect, started_at),
                finished_at=time(finished_at),
            )
            for queue, type_, state, run_at, started_at, finished_at in rows
        ]

    @reading
    def throughput(
        self, slices: int, seconds: float, *, now: datetime | None = None
    ) -> Operation[list[EndedCount]]:
        rows = yield Statement(
            self._sql["throughput"],
            (self._dialect.now(now), slices, seconds, COUNTED_PER_SLICE),
            alone=True,
        )
        return [
            EndedCount(
                slice=number, queue=queue, state=JobState(state), count=count, covered=covered
            )
            for number, queue, state, count, covered in rows
        ]

    @reading
    def failures(
        self, which: JobFilter, limit: int, *, now: datetime | None = None
    ) -> Operation[list[FailureCount]]:
        if which.states and JobState.FAILED not in which.states:
            return []
        which = structs.replace(which, states=(JobState.FAILED,))
        if has_text(which):
            rows, last = yield from look(
                self._dialect, "find", which, NEWEST, FAILURES_LOOKED_AT, MAX_PAGE, now
            )
            jobs = [job for job in self._records(rows) if matches_text(which, job)]
            return group_failures(jobs, limit, exact=last is None and len(rows) < MAX_PAGE)
        if which == JobFilter(states=which.states):
            statement = Statement(self._sql["failures"], (FAILURES, limit), alone=True)
        else:
            statement = Statement(
                self._sql["failures_matching"],
                (*conditions(self._dialect, which, NEWEST, now), FAILURES_LOOKED_AT, limit),
                alone=True,
            )
        rows = yield statement
        return [
            FailureCount(
                fingerprint=fingerprint,
                count=count,
                exact=bool(exact),
                first_at=self._dialect.time(first_at),
                last_at=self._dialect.time(last_at),
                sample_id=str(sample_id),
            )
            for fingerprint, count, first_at, last_at, sample_id, exact in rows
        ]


def _group(row: Row) -> TallyGroup:
    return row[0], row[1], JobState(row[2]), bool(row[3])
