"""find and count: the choice of the index for a filter, and the bounds of the search.

Every search is bounded. A search along ids, newest first, reads a number of jobs and says where it
stopped. A small set of jobs that no index has in the order of their ids is read whole, or not at
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from headway.domain.failure import FINGERPRINT
from headway.domain.filters import (
    JobText,
    error_needles,
    has_text,
    input_needles,
    matches_text,
    word_needles,
)
from headway.domain.job import TERMINAL, JobRecord, JobState
from headway.domain.queries import IDS_COMPARED, IdPage, JobFilter, Page, check_page
from headway.domain.validation import is_id
from headway.domain.views import Count
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.sql.dialect import Dialect, SqlPart

SCAN = 10_000
"""Jobs that one try reads for a page."""
TRIES = 3
"""Tries before the page stays empty."""
FEW = 5_000
"""The most jobs in a set that is read whole."""
SCAN_TO_COUNT = 20_000
JUDGED = 1_500
"""Jobs whose text is compared here for one page, after the database has excluded most others."""

MOST_FINGERPRINTS = 500

STOPPED = frozenset({JobState.BLOCKED, JobState.FAILED, JobState.CANCELLED})
"""States with an index by id."""

NEWEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
"""The cursor before the first page."""

_EVERYTHING = JobFilter()


class Index:
    """An index to search: the end of the statement's name, its parameters, and whether all jobs in
    it match (`precise`). `few`: the statement is for small sets only."""

    __slots__ = ("few", "name", "params", "precise")

    def __init__(self, name: str, *params: Any, precise: bool = False, few: bool = False) -> None:
        self.name = name
        self.params = params
        self.precise = precise
        self.few = few


class SqlFind(SqlPart):
    @reading
    def find(
        self,
        which: JobFilter,
        *,
        cursor: str | None = None,
        limit: int = 50,
        now: datetime | None = None,
    ) -> Operation[Page]:
        check_page(cursor, limit, "jobs")
        which = yield from self._completed(which)
        if not _can_match(which):
            return Page([], None)
        page = Page([], cursor or NEWEST)
        for _ in range(TRIES):
            page = yield from self._page(which, page.cursor or NEWEST, limit, now)
            if page.jobs or page.cursor is None:
                break
        return page

    def _page(
        self, which: JobFilter, start: str, limit: int, now: datetime | None
    ) -> Operation[Page]:
        if not has_text(which):
            rows, last = yield from look(self._dialect, "find", which, start, SCAN, limit + 1, now)
            jobs = self._records(rows[:limit])
            return Page(jobs, jobs[-1].id if len(rows) > limit else last)
        rows, last = yield from look(self._dialect, "judge", which, start, SCAN, JUDGED, now)
        found: list[str] = []
        for text in map(_text, rows):
            if matches_text(which, text):
                found.append(text.id)
                if len(found) == limit:
                    last = text.id
                    break
        else:
            last = str(rows[-1][0]) if len(rows) == JUDGED else last
        if not found:
            return Page([], last)
        rows = yield Statement(self._sql["get"], (found,), alone=True)
        return Page(sorted(self._records(rows), key=_by_id, reverse=True), last)

    @reading
    def find_ids(self, endings: Sequence[str], *, cursor: str | None = None) -> Operation[IdPage]:
        rows = yield Statement(
            self._sql["ids_ending"], (cursor or NEWEST, list(endings), IDS_COMPARED), alone=True
        )
        last = rows[0][0]
        ids = {str(row[1]) for row in rows if row[1] is not None}
        return IdPage(sorted(ids, reverse=True), None if last is None else str(last))

    @reading
    def count(
        self, which: JobFilter, at_most: int, *, now: datetime | None = None
    ) -> Operation[Count]:
        which = yield from self._completed(which)
        if not _can_match(which):
            return Count(0)
        if has_text(which):
            rows, last = yield from look(self._dialect, "judge", which, NEWEST, SCAN, JUDGED, now)
            found = sum(matches_text(which, _text(row)) for row in rows)
            every = last is None and len(rows) < JUDGED
            return Count(min(found, at_most), every and found <= at_most)
        rows, last = yield from look(
            self._dialect, "count", which, NEWEST, SCAN_TO_COUNT, at_most + 1, now
        )
        return Count(min(len(rows), at_most), last is None and len(rows) <= at_most)

    def _completed(self, which: JobFilter) -> Operation[JobFilter]:
        """The filter for failed jobs only, as no others have fingerprints; beginnings of
        fingerprints become whole ones, unless there are very many."""
        if not which.fingerprints:
            return which
        states = which.states or (JobState.FAILED,)
        fingerprints = which.fingerprints
        if any(len(each) < FINGERPRINT for each in fingerprints):
            rows = yield Statement(self._sql["failures"], (0, MOST_FINGERPRINTS), alone=True)
            found = tuple(row[0] for row in rows if row[0].startswith(fingerprints))
            if len(rows) < MOST_FINGERPRINTS:
                fingerprints = found or ("-" * FINGERPRINT,)  # which there is none of
        return structs.replace(which, states=states, fingerprints=fingerprints)


def look(
    dialect: Dialect,
    verb: str,
    which: JobFilter,
    cursor: str,
    scan: int,
    most: int,
    now: datetime | None,
) -> Operation[tuple[list[Row], str | None]]:
    """Rows of matching jobs, newest first, and the id of the last job that was read if there are
    more."""
    index = _index_for(which)
    parameters = conditions(dialect, which, cursor, now)
    last: str | None = None
    while True:
        looked = max(FEW, most) if index.few else most if index.precise else scan
        rows: Sequence[Row] = yield Statement(
            dialect.sql[f"{verb}_{index.name}"],
            (*parameters, looked, most, *index.params),
            alone=True,
        )
        told = rows[0][0]
        if not index.few:
            last = None if told is None else str(told)
        elif not told:  # these are more than a few
            index = Index("newest")
            continue
        return [row[1:] for row in rows if row[1] is not None], last


def conditions(
    dialect: Dialect, which: JobFilter, cursor: str, now: datetime | None
) -> tuple[Any, ...]:
    """The parameters of `match.conditions`."""
    types = [each for each in which.types if not each.endswith("*")]
    words = word_needles(which)
    return (
        cursor,
        [str(state) for state in which.states] or None,
        which.due,
        dialect.now(now),
        types if which.types else None,
        [each[:-1] for each in which.types if each.endswith("*")] or None,
        list(which.queues) or None,
        list(which.workers) or None,
        list(which.dedup_keys) or None,
        list(which.fingerprints) or None,
        which.created.under,
        which.created.over,
        which.finished.under,
        which.finished.over,
        input_needles(which) or None,
        error_needles(which) or None,
        [word.lower() for word, _ in words] or None,
        [value for _, value in words] or None,
        list(which.schedules) or None,
        list(which.keys) or None,
    )


def _can_match(which: JobFilter) -> bool:
    """False if no job can match the filter."""
    if which.fingerprints and JobState.FAILED not in which.states:
        return False
    if which.ids and not any(map(is_id, which.ids)):
        return False
    return all(id is None or is_id(id) for id in (which.sequence_id, which.root_id))


def _text(row: Row) -> JobText:
    id, *texts = row
    return JobText(str(id), *texts)


def _by_id(job: JobRecord) -> str:
    return job.id


def _index_for(which: JobFilter) -> Index:
    """The narrowest index that has all jobs that can match."""
    states = frozenset(which.states)
    if which.ids:
        return _few(ids=[id for id in which.ids if is_id(id)])
    if which.sequence_id is not None:
        return _few(sequence=which.sequence_id)
    if which.root_id is not None:
        alone = structs.replace(which, root_id=None) == _EVERYTHING
        return Index("family", which.root_id, precise=alone)
    if which.dedup_keys:
        return _few(dedup_keys=list(which.dedup_keys))
    if which.fingerprints:
        if all(len(each) == FINGERPRINT for each in which.fingerprints):
            rest = structs.replace(which, fingerprints=(), states=())
            return Index("failed", precise=rest == _EVERYTHING)
        return Index("stopped", precise=False)
    if states and states <= STOPPED:
        return Index("stopped", precise=structs.replace(which, states=()) == _EVERYTHING)
    if states and JobState.COMPLETED not in states:
        return _few(states=[str(state) for state in which.states])
    if which.finished.restricts or (states and states <= TERMINAL):
        return _few(finished=True)
    return Index("newest", precise=which == _EVERYTHING)


def _few(
    *,
    ids: list[str] | None = None,
    sequence: str | None = None,
    dedup_keys: list[str] | None = None,
    states: list[str] | None = None,
    finished: bool = False,
) -> Index:
    return Index("few", ids, sequence, dedup_keys, states, finished, few=True)
