"""Search for jobs by a filter: the index that serves it, and the bounds of the search.

Every search is bounded. An index that is sorted by id gives a part of the jobs, newest first, and
the id to go on from. A small set from another index is read whole; a large one is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from headway.domain.filters import (
    JobText,
    error_needles,
    has_text,
    input_needles,
    matches_text,
    word_needles,
)
from headway.domain.job import TERMINAL, JobRecord, JobState
from headway.domain.queries import (
    IDS_COMPARED,
    MAX_PAGE,
    Age,
    IdPage,
    JobFilter,
    Page,
    check_page,
)
from headway.domain.views import Count
from headway.drivers.mongodb import Document
from headway.ports.statement import Operation, reading
from headway.stores.mongodb.documents import (
    JobCommands,
    MongoPart,
    micros,
    of_members,
    present,
    to_record,
)

SCAN = 10_000
"""Jobs that are read for one page."""
FEW = 5_000
"""Jobs in a small set."""
SCAN_TO_COUNT = 20_000
JUDGED = 500
"""Jobs whose text is compared here for one page, after the database has filtered them."""

STOPPED = frozenset({JobState.BLOCKED, JobState.FAILED, JobState.CANCELLED})
"""States with an index by id."""

_EVERYTHING = JobFilter()


class MongoIndexChoice(msgspec.Struct, frozen=True):
    """The index that serves a filter."""

    base: Document = {}
    """A condition on an index that is sorted by id."""
    precise: bool = False
    """Whether all jobs that meet the condition match the filter."""
    small_sets: tuple[tuple[Document, str | None], ...] = ()
    """Instead of `base`: conditions that few jobs meet, each with its index."""


class MongoFind(MongoPart):
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
        judged = has_text(which)
        most = max(limit + 1, JUDGED) if judged else limit + 1
        documents, last = yield from search(self._commands, which, cursor, SCAN, most, now)
        jobs = [to_record(document) for document in documents]
        if not judged:
            return Page(jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else last)
        found: list[JobRecord] = []
        for job in jobs:
            if matches_text(which, job):
                found.append(job)
                if len(found) == limit:
                    return Page(found, job.id)
        return Page(found, jobs[-1].id if len(jobs) == most else last)

    @reading
    def find_ids(self, endings: Sequence[str], *, cursor: str | None = None) -> Operation[IdPage]:
        reach: Document = {} if cursor is None else {"$lt": cursor}
        rest: list[Document] = yield self._commands.find(
            {"_id": reach} if reach else {},
            {"_id": 1},
            sort={"_id": -1},
            limit=1,
            skip=IDS_COMPARED - 1,
        )
        last: str | None = rest[0]["_id"] if rest else None
        bounds = reach if last is None else {**reach, "$gte": last}
        ending = f"(?:{'|'.join(map(re.escape, endings))})$"
        documents: list[Document] = yield self._commands.find(
            {"_id": {**bounds, "$regex": ending}}, {"_id": 1}, sort={"_id": -1}
        )
        return IdPage([each["_id"] for each in documents], last)

    @reading
    def count(
        self, which: JobFilter, at_most: int, *, now: datetime | None = None
    ) -> Operation[Count]:
        if has_text(which):
            most = 2 * MAX_PAGE
            fields = dict.fromkeys(JobText._fields, 1)
            documents, last = yield from search(
                self._commands, which, None, SCAN, most, now, fields
            )
            found = sum(_fits(which, document) for document in documents)
            every = last is None and len(documents) < most
            return Count(min(found, at_most), every and found <= at_most)
        documents, last = yield from search(
            self._commands, which, None, SCAN_TO_COUNT, at_most + 1, now, {"_id": 1}
        )
        found = len(documents)
        return Count(min(found, at_most), last is None and found <= at_most)


def search(
    commands: JobCommands,
    which: JobFilter,
    cursor: str | None,
    scan: int,
    most: int,
    now: datetime | None,
    fields: Document | None = None,
) -> Operation[tuple[list[Document], str | None]]:
    """Matching jobs, newest first, and the id at which the search stopped at its bound, if any."""
    choice = choose_index(which, now)
    base, precise = choice.base, choice.precise
    if choice.small_sets:
        ids = yield from _small_set(commands, choice)
        base = {} if ids is None else {"_id": {"$in": sorted(ids)}}
        scan = scan if ids is None else FEW
    below: Document = {} if cursor is None else {"_id": {"$lt": cursor}}
    reach: Document = {"$and": [base, below]}
    looked = most if precise else scan
    documents: list[Document] = yield commands.aggregate(
        {"$match": reach},
        {"$sort": {"_id": -1}},
        {"$limit": looked},
        {"$match": matching(which, now)},
        {"$limit": most},
        {"$project": {"history": 0} if fields is None else fields},
    )
    if precise or len(documents) == most:
        return documents, None
    rest: list[Document] = yield commands.find(
        reach, {"_id": 1}, sort={"_id": -1}, limit=1, skip=looked - 1
    )
    return documents, rest[0]["_id"] if rest else None


def _small_set(commands: JobCommands, choice: MongoIndexChoice) -> Operation[set[str] | None]:
    """The ids of a small set; None if it is not small."""
    ids: set[str] = set()
    for question, index in choice.small_sets:
        documents = yield commands.find(question, {"_id": 1}, limit=FEW + 1, hint=index)
        ids.update(document["_id"] for document in documents)
        if len(ids) > FEW:
            return None
    return ids


def choose_index(which: JobFilter, now: datetime | None) -> MongoIndexChoice:
    """The narrowest index that contains all jobs that can match."""
    states = frozenset(which.states)
    if which.ids:
        return MongoIndexChoice(small_sets=(({"_id": {"$in": list(which.ids)}}, None),))
    if which.sequence_id is not None:
        return MongoIndexChoice(small_sets=((of_members("sequence_id", which.sequence_id), None),))
    if which.root_id is not None:
        alone = structs.replace(which, root_id=None) == _EVERYTHING
        return MongoIndexChoice(of_members("root_id", which.root_id), precise=alone)
    if which.dedup_keys:
        by_key = {"dedup_key": {"$in": list(which.dedup_keys)}}
        return MongoIndexChoice(small_sets=((by_key, None),))
    if which.fingerprints:
        states = states or frozenset({JobState.FAILED})
    if states and states <= STOPPED:
        alone = structs.replace(which, states=()) == _EVERYTHING
        return MongoIndexChoice({"state": _any_of(map(str, sorted(states)))}, precise=alone)
    if states and JobState.COMPLETED not in states:
        return MongoIndexChoice(
            small_sets=tuple(({"state": str(state)}, _INDEX[state]) for state in sorted(states))
        )
    if which.finished.restricts or (states and states <= TERMINAL):
        ended = {"state": _any_of(map(str, sorted(states & TERMINAL or TERMINAL)))}
        finished = _ages("finished_at", which.finished, now)
        return MongoIndexChoice(
            small_sets=(({"$and": [ended, {"finished_at": {"$gt": 0}}, *finished]}, "finished"),)
        )
    return MongoIndexChoice(precise=which == _EVERYTHING)


_INDEX = {
    JobState.BLOCKED: "stopped",
    JobState.PENDING: "pending",
    JobState.RUNNING: "running",
    JobState.FAILED: "stopped",
    JobState.CANCELLED: "stopped",
}


def matching(which: JobFilter, now: datetime | None) -> Document:
    """The filter as a MongoDB query, without the exact comparison of texts."""
    wanted: list[Document] = [{}]
    if which.states:
        wanted.append({"state": _any_of(map(str, which.states))})
    if which.due is not None:
        compared = "$lte" if which.due else "$gt"
        is_due = {"$expr": {compared: ["$run_at", present(now)]}}
        wanted.append({"$or": [{"state": {"$ne": "pending"}}, is_due]})
    if which.types:
        wanted.append(_any_prefix("type", *_patterns(which.types)))
    if which.fingerprints:
        wanted += [{"state": "failed"}, _any_prefix("fingerprint", (), which.fingerprints)]
    for field, values in (
        ("_id", which.ids),
        ("queue", which.queues),
        ("worker", which.workers),
        ("dedup_key", which.dedup_keys),
        ("key", which.keys),
        ("schedule", which.schedules),
    ):
        if values:
            wanted.append({field: _any_of(values)})
    for field, id in (("sequence_id", which.sequence_id), ("root_id", which.root_id)):
        if id is not None:
            wanted.append(of_members(field, id))
    wanted += _ages("created_at", which.created, now)
    wanted += _ages("finished_at", which.finished, now)
    wanted += [{"input": {"$regex": re.escape(needle)}} for needle in input_needles(which)]
    if needles := error_needles(which):
        any_needle = "|".join(map(re.escape, needles))
        wanted.append({"last_error": {"$regex": any_needle, "$options": "i"}})
    for word, value in word_needles(which):
        wanted.append({"$or": [*_containing(word), {"input": {"$regex": re.escape(value)}}]})
    return {"$and": wanted}


def _containing(word: str) -> Iterator[Document]:
    part = re.escape(word)
    for field in ("type", "queue", "worker", "dedup_key", "key", "last_error"):
        yield {field: {"$regex": part, "$options": "i"}}
    yield {"_id": {"$regex": f"{part.lower()}$"}}


def _fits(which: JobFilter, document: Document) -> bool:
    texts: list[Any] = [document.get(name) for name in JobText._fields[1:]]
    return matches_text(which, JobText(document["_id"], *texts))


def _any_of(values: Iterable[str]) -> Any:
    listed = list(values)
    return listed[0] if len(listed) == 1 else {"$in": listed}


def _patterns(types: Sequence[str]) -> tuple[list[str], list[str]]:
    """Whole names, and prefixes of names."""
    whole = [each for each in types if not each.endswith("*")]
    return whole, [each[:-1] for each in types if each.endswith("*")]


def _any_prefix(field: str, whole: Sequence[str], prefixes: Sequence[str]) -> Document:
    alternatives: list[Document] = [{field: {"$in": list(whole)}}]
    alternatives += [{field: {"$regex": f"^{re.escape(each)}"}} for each in prefixes]
    return {"$or": alternatives}


def _ages(field: str, age: Age, now: datetime | None) -> list[Document]:
    """Conditions on the age of a time field; jobs without a value do not match."""
    wanted: list[Document] = [{field: {"$gt": 0}}] if age.restricts else []
    for compared, seconds in (("$gt", age.under), ("$lte", age.over)):
        if seconds is not None:
            since = {"$subtract": [present(now), micros(seconds)]}
            wanted.append({"$expr": {compared: [f"${field}", since]}})
    return wanted
