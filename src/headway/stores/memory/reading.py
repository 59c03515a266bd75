"""Reads: what is stored, as the operation at hand may see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import nlargest

from headway.domain.errors import InvalidOption
from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.reading import MAX_PAGE, JobCount, JobFilter, Page
from headway.ports.statement import Operation
from headway.stores.memory.row import Row, record, root_id
from headway.stores.memory.table import Table

CURSOR = "before:"


class Reading(Table):
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        yield from ()
        return [record(row) if (row := self._look(job_id)) is not None else None for job_id in ids]

    def find(
        self, which: JobFilter, *, cursor: str | None = None, limit: int = 50
    ) -> Operation[Page]:
        yield from ()
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidOption(f"a page holds between 1 and {MAX_PAGE} jobs, not {limit}")
        before = None
        if cursor is not None:
            if not cursor.startswith(CURSOR):
                raise InvalidOption(
                    "that is not a cursor of this store; pass the one that came with the last page"
                )
            before = cursor.removeprefix(CURSOR)
        rows = (
            row
            for row in self._visible()
            if (before is None or row.id < before) and _matches(row, which)
        )
        found = nlargest(limit + 1, rows, key=lambda row: row.id)
        more = CURSOR + found[limit - 1].id if len(found) > limit else None
        return Page([record(row) for row in found[:limit]], more)

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

    def dependents(self, sequence_ids: Sequence[str]) -> Operation[list[JobRecord]]:
        yield from ()
        waiting: dict[str, Row] = {}
        for sequence_id in sequence_ids:
            first = self._look(sequence_id)
            for waiter in (first.waiters if first is not None else None) or ():
                seen = self._seen(waiter)
                if seen is not None:
                    waiting[seen.id] = seen
        return [record(row) for _, row in sorted(waiting.items())]

    def _visible(self) -> Iterator[Row]:
        return (seen for row in self._rows.values() if (seen := self._seen(row)) is not None)


def _matches(row: Row, which: JobFilter) -> bool:
    spec = row.spec
    return (
        (not which.states or row.state in which.states)
        and (not which.types or spec.type in which.types)
        and (not which.queues or spec.queue in which.queues)
        and (which.sequence_id is None or which.sequence_id == (row.first or row).id)
        and (which.root_id is None or which.root_id == root_id(row))
    )
