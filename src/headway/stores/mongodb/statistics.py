"""Counts, throughput and failures, over all jobs. Only `counts` reads all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from headway.domain.filters import has_text, matches_text
from headway.domain.job import TERMINAL, JobState
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
from headway.drivers.mongodb import Command, Document
from headway.ports.statement import Operation, reading
from headway.stores.mongodb.documents import (
    ORDER,
    MongoPart,
    maybe_moment,
    micros,
    moment,
    present,
    stamp,
    to_record,
)
from headway.stores.mongodb.find import STOPPED, matching, search
from headway.stores.tallies import TallyGroup, TallyPart, estimate_tallies, make_tallies

COUNTED = 3_000
"""Jobs of one state that are counted; more are estimated."""
COUNTED_PER_SLICE = 150
SAMPLE = 1_000
READ_WHOLE = 20 * SAMPLE
"""Jobs up to which all are counted and none estimated: MongoDB draws a random sample quickly only
if it is less than a twentieth of the collection."""
MOST_QUEUES = 200
FAILURES = 50_000
"""Failed jobs that are counted by fingerprint, from an index alone."""
FAILURES_LOOKED_AT = 5_000
"""Failed jobs that are compared with a filter."""

_ENDED = {"state": {"$in": sorted(map(str, TERMINAL))}, "finished_at": {"$gt": 0}}


class MongoStatistics(MongoPart):
    @reading
    def counts(self) -> Operation[list[JobCount]]:
        documents = yield self._commands.aggregate(_grouped("queue", "type", "state"))
        found = sorted(documents, key=lambda document: tuple(document["_id"].values()))
        return [
            JobCount(
                document["_id"]["queue"],
                document["_id"]["type"],
                JobState(document["_id"]["state"]),
                document["count"],
                moment(document["oldest"]),
            )
            for document in found
        ]

    @reading
    def time(self, *, now: datetime | None = None) -> Operation[datetime]:
        (found,) = yield self._commands.lookups(now, {})
        return moment(found["now"])

    @reading
    def tally(self, *, now: datetime | None = None) -> Operation[list[Tally]]:
        # The server keeps this number: nothing is counted for it.
        reply = yield Command({"count": self._names.job}, alone=True)
        total: int = reply["n"]
        if total <= READ_WHOLE:
            documents = yield self._commands.aggregate(
                _due(now), _grouped("queue", "type", "state", "due")
            )
            return make_tallies({_group(each): (*_numbers(each), True) for each in documents})
        documents = yield self._commands.aggregate(
            {"$sample": {"size": SAMPLE}}, _due(now), _grouped("queue", "type", "state", "due")
        )
        estimated = {_group(each): round(each["count"] * total / SAMPLE) for each in documents}
        counted, cut = yield from self._counted(now)
        return estimate_tallies(counted, cut, estimated)

    def _counted(
        self, now: datetime | None
    ) -> Operation[tuple[dict[TallyGroup, tuple[int, datetime | None]], set[TallyPart]]]:
        """Counts of all states but completed, each from its index up to a bound; and the states
        that exceed it. Pending jobs are counted by queue, so a long queue hides no short one."""
        queues = yield from self._pending_queues()
        share = max(COUNTED // max(len(queues), 1), 50)
        parts: dict[TallyPart, tuple[Document, Document, int]] = {
            (JobState.PENDING, queue): ({"state": "pending", "queue": queue}, ORDER, share)
            for queue in queues
        }
        parts[JobState.RUNNING, None] = ({"state": "running"}, {"until": 1, "_id": 1}, COUNTED)
        for state in STOPPED:
            parts[state, None] = ({"state": str(state)}, {"_id": -1}, COUNTED)
        looks: dict[str, Sequence[Document]] = {
            f"part{place}": [
                {"$match": which},
                {"$sort": order},
                {"$limit": most},
                _due(now),
                _grouped("queue", "type", "state", "due"),
            ]
            for place, (which, order, most) in enumerate(parts.values())
        }
        (found,) = yield self._commands.lookups(now, looks)
        counted: dict[TallyGroup, tuple[int, datetime | None]] = {}
        cut: set[TallyPart] = set()
        for place, (part, (_, _, most)) in enumerate(parts.items()):
            groups: list[Document] = found[f"part{place}"]
            counted |= {_group(each): _numbers(each) for each in groups}
            if sum(each["count"] for each in groups) >= most:
                cut.add(part)
        return counted, cut

    def _pending_queues(self) -> Operation[list[str]]:
        """Queues that have pending jobs; one index lookup per queue."""
        queues: list[str] = []
        while len(queues) < MOST_QUEUES:
            beyond = {"state": "pending", "queue": {"$gt": queues[-1] if queues else ""}}
            documents = yield self._commands.find(
                beyond, {"queue": 1}, sort={"queue": 1}, limit=1, hint="pending"
            )
            if not documents:
                break
            queues.append(documents[0]["queue"])
        return queues

    @reading
    def ended(self, limit: int) -> Operation[list[EndedJob]]:
        if limit <= 0:
            return []
        fields: Document = dict.fromkeys(
            ("queue", "type", "state", "run_at", "started_at", "finished_at"), 1
        )
        documents = yield self._commands.find(_ENDED, fields, sort={"finished_at": -1}, limit=limit)
        return [
            EndedJob(
                queue=each["queue"],
                type=each["type"],
                state=JobState(each["state"]),
                run_at=moment(each["run_at"]),
                started_at=maybe_moment(each.get("started_at")),
                finished_at=moment(each["finished_at"]),
            )
            for each in documents
        ]

    @reading
    def throughput(
        self, slices: int, seconds: float, *, now: datetime | None = None
    ) -> Operation[list[EndedCount]]:
        at = yield from self.time(now=now)
        first, length = stamp(at) - micros(slices * seconds), micros(seconds)
        starts = [first + number * length for number in range(slices)]
        looks: dict[str, Sequence[Document]] = {
            f"slice{number}": [
                {"$match": {**_ENDED, "finished_at": {"$gte": start, "$lt": start + length}}},
                {"$sort": {"finished_at": 1}},
                {"$limit": COUNTED_PER_SLICE},
                {"$project": {"queue": 1, "state": 1, "finished_at": 1}},
            ]
            for number, start in enumerate(starts)
        }
        (found,) = yield self._commands.lookups(now, looks)
        counts: list[EndedCount] = []
        for number, start in enumerate(starts):
            ended: list[Document] = found[f"slice{number}"]
            covered = seconds
            if len(ended) == COUNTED_PER_SLICE:
                covered = max(ended[-1]["finished_at"] - start, 1) / 1_000_000
            groups = Counter((each["queue"], each["state"]) for each in ended)
            counts += [
                EndedCount(
                    slice=number, queue=queue, state=JobState(state), count=count, covered=covered
                )
                for (queue, state), count in sorted(groups.items())
            ]
        return counts

    @reading
    def failures(
        self, which: JobFilter, limit: int, *, now: datetime | None = None
    ) -> Operation[list[FailureCount]]:
        if which.states and JobState.FAILED not in which.states:
            return []
        which = structs.replace(which, states=(JobState.FAILED,))
        if has_text(which):
            documents, last = yield from search(
                self._commands, which, None, FAILURES_LOOKED_AT, MAX_PAGE, now
            )
            jobs = [job for job in map(to_record, documents) if matches_text(which, job)]
            return group_failures(jobs, limit, exact=last is None and len(documents) < MAX_PAGE)
        everything = which == JobFilter(states=which.states)
        most = FAILURES if everything else FAILURES_LOOKED_AT
        newest: Document = {"fingerprint": 1, "_id": -1} if everything else {"_id": -1}
        documents = yield self._commands.aggregate(
            {"$match": {"state": "failed"}},
            {"$sort": newest},
            {"$limit": most},
            {"$match": {} if everything else matching(which, now)},
            {
                "$group": {
                    "_id": "$fingerprint",
                    "count": {"$sum": 1},
                    "first": {"$min": "$finished_at"},
                    "last": {"$max": "$finished_at"},
                    "sample": {"$max": "$_id"},
                }
            },
            {"$sort": {"count": -1, "last": -1}},
            {"$limit": limit},
        )
        more = yield self._commands.find(
            {"state": "failed"}, {"_id": 1}, sort={"_id": -1}, limit=1, skip=most
        )
        return [
            FailureCount(
                fingerprint=each["_id"] or "",
                count=each["count"],
                exact=not more,
                first_at=moment(each["first"]),
                last_at=moment(each["last"]),
                sample_id=each["sample"],
            )
            for each in documents
        ]


def _due(now: datetime | None) -> Document:
    """Adds the field `due`; false only for pending jobs that are scheduled for later."""
    is_due = {"$or": [{"$ne": ["$state", "pending"]}, {"$lte": ["$run_at", present(now)]}]}
    return {"$set": {"due": is_due}}


def _grouped(*fields: str) -> Document:
    by = {field: f"${field}" for field in fields}
    return {"$group": {"_id": by, "count": {"$sum": 1}, "oldest": {"$min": "$run_at"}}}


def _group(document: Document) -> TallyGroup:
    by = document["_id"]
    return by["queue"], by["type"], JobState(by["state"]), by["due"]


def _numbers(document: Document) -> tuple[int, datetime | None]:
    return document["count"], maybe_moment(document["oldest"])
