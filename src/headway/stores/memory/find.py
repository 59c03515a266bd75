"""Search for jobs by a filter, in pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import islice

from headway.domain.filters import matches
from headway.domain.queries import IdPage, JobFilter, Page, check_page
from headway.domain.views import Count
from headway.ports.statement import Operation
from headway.stores.memory.row import JobRow, to_record
from headway.stores.memory.table import JobTable, moment


class MemoryFind(JobTable):
    def find(
        self,
        which: JobFilter,
        *,
        cursor: str | None = None,
        limit: int = 50,
        now: datetime | None = None,
    ) -> Operation[Page]:
        yield from ()
        check_page(cursor, limit, "jobs")
        found = nlargest(
            limit + 1,
            (
                row
                for row in matching(self._visible(), which, now)
                if cursor is None or row.id < cursor
            ),
            key=lambda row: row.id,
        )
        more = found[limit - 1].id if len(found) > limit else None
        return Page([to_record(row) for row in found[:limit]], more)

    def find_ids(self, endings: Sequence[str], *, cursor: str | None = None) -> Operation[IdPage]:
        yield from ()
        wanted = tuple(endings)
        ids = sorted((row.id for row in self._visible() if row.id.endswith(wanted)), reverse=True)
        return IdPage([id for id in ids if cursor is None or id < cursor], None)

    def count(
        self, which: JobFilter, at_most: int, *, now: datetime | None = None
    ) -> Operation[Count]:
        yield from ()
        found = sum(1 for _ in islice(matching(self._visible(), which, now), at_most + 1))
        return Count(min(found, at_most), found <= at_most)


def matching(rows: Iterator[JobRow], which: JobFilter, now: datetime | None) -> Iterator[JobRow]:
    if which == JobFilter():
        return rows
    now = moment(now)
    return (row for row in rows if matches(which, to_record(row), now))
