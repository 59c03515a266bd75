"""Insertion of new jobs: deduplicated, blocked, or pending."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from headway.domain.due_time import due
from headway.domain.job import TERMINAL, JobState, NewJob
from headway.drivers.mongodb import Command, Document
from headway.errors import DuplicateJob, InvalidOption, JobNotFound
from headway.ports.statement import Operation
from headway.ports.store import Inserted
from headway.stores.dedup import find_twins, insert_answers, without_twins
from headway.stores.mongodb.documents import (
    OPEN,
    JobCommands,
    MongoPart,
    by_sequence,
    in_parts,
    moment,
    new_document,
    of_sequence,
    stamp,
)

_Key = tuple[str, str]
"""A job type and a deduplication key."""


class MongoInsert(MongoPart):
    def insert(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        if not jobs:
            return []
        twins: dict[str, Inserted] = {}
        if any(job.dedup_key is not None for job in jobs):
            twins = yield from self._twins(jobs, now)
        stored = yield from insert_jobs(self._commands, without_twins(jobs, twins), (), now)
        return insert_answers(jobs, twins, stored)

    def _twins(
        self, jobs: Sequence[NewJob], now: datetime | None
    ) -> Operation[dict[str, Inserted]]:
        """The jobs that are not inserted, with the sequences that they duplicate."""
        keys = sorted({(job.type, job.dedup_key) for job in jobs if job.dedup_key is not None})
        yield from self._lock_keys(keys)
        known, present = yield from self._by_key(jobs, now)

        def newest(job: NewJob) -> Operation[Inserted | None]:
            yield from ()
            return _newest(known.get((job.type, job.dedup_key or ""), ()), job, present)

        return (yield from find_twins(jobs, newest))

    def _lock_keys(self, keys: Iterable[_Key]) -> Operation[None]:
        """Keep others from inserting jobs with these keys until the transaction ends: they write
        the same documents, so their transactions conflict with this one."""
        yield Command(
            {
                "update": self._names.dedup,
                "updates": [
                    {
                        "q": {"_id": {"type": type, "key": key}},
                        "u": {"$inc": {"uses": 1}, "$currentDate": {"used_at": True}},
                        "upsert": True,
                    }
                    for type, key in keys
                ],
            }
        )

    def _by_key(
        self, jobs: Sequence[NewJob], now: datetime | None
    ) -> Operation[tuple[dict[_Key, list[Document]], datetime]]:
        """First jobs of sequences with the keys of these jobs, newest first, with the states of
        their last jobs; and the time."""
        seen: dict[tuple[str, str, bool], Document] = {}
        for job in jobs:
            if job.dedup_key is not None:
                clause: Document = {"dedup_key": job.dedup_key, "type": job.type, "position": 0}
                if not job.dedup_any:
                    clause["$or"] = [{"state": {"$in": OPEN}}, {"continued": True}]
                seen[job.type, job.dedup_key, job.dedup_any] = clause
        fields = dict.fromkeys(
            ("type", "dedup_key", "created_at", "run_at", "state", "continued"), 1
        )
        (found,) = yield self._commands.lookups(
            now, {"first": [{"$match": {"$or": list(seen.values())}}, {"$project": fields}]}
        )
        first: list[Document] = found["first"]
        continued = [document["_id"] for document in first if "continued" in document]
        last = yield from self._commands.last_jobs(continued, {"state": 1, "sequence_id": 1})
        by_key: dict[_Key, list[Document]] = defaultdict(list)
        for document in sorted(first, key=_by_age, reverse=True):
            if document["_id"] in last:
                document["state"] = last[document["_id"]]["state"]
            by_key[document["type"], document["dedup_key"]].append(document)
        return by_key, moment(found["now"])


def insert_jobs(
    commands: JobCommands, jobs: Sequence[NewJob], awaited: Collection[str], now: datetime | None
) -> Operation[dict[str, Inserted]]:
    """Insert jobs; other jobs already wait for those in `awaited`."""
    stored: dict[str, Inserted] = {}
    if not jobs:
        return stored
    ids = [job.id for job in jobs]
    outside = {blocker for job in jobs for blocker in job.blockers}.difference(ids)
    looks: dict[str, Sequence[Document]] = {
        "taken": [
            {"$match": {"_id": {"$in": ids}}},
            {"$project": {"type": 1, "run_at": 1, "state": 1}},
        ]
    }
    if outside:
        looks["last"] = [
            {"$match": {"$or": of_sequence(outside)}},
            {"$project": {"state": 1, "sequence_id": 1}},
        ]
    alone = len(jobs) == 1 and not outside
    (found,) = yield commands.lookups(now, looks, alone=alone)
    present = moment(found["now"])
    taken: dict[str, Document] = {document["_id"]: document for document in found["taken"]}
    last = by_sequence(found.get("last", ()))
    yield from _refuse_cycles(commands, jobs)
    new: dict[str, Document] = {}
    met: set[str] = set()
    for job in jobs:
        there = taken.get(job.id)
        if there is not None or job.id in new:
            if job.id_given or (there is not None and there["type"] != job.type):
                raise DuplicateJob(job.id)
            if there is not None:  # by an earlier try of ours, whose answer was lost
                blocked = there["state"] == JobState.BLOCKED
                stored[job.id] = Inserted(job.id, moment(there["run_at"]), blocked)
            continue
        waiting = 0
        for blocker in job.blockers:
            if blocker in new:
                new[blocker]["awaited"] = True
                waiting += 1
            elif blocker in last:
                met.add(blocker)
                waiting += last[blocker]["state"] != JobState.COMPLETED
            else:
                raise JobNotFound(blocker)
        run_at = due(job.schedule, present)
        new[job.id] = new_document(job, present, run_at, waiting=waiting, awaited=job.id in awaited)
        stored[job.id] = Inserted(job.id, run_at, waiting > 0)
    if met:
        yield from _await(commands, [last[blocker] for blocker in met])
    for part in in_parts(new.values(), lambda document: len(document["input"])):
        yield Command({"insert": commands.names.job, "documents": part}, alone=alone)
    return stored


def _await(commands: JobCommands, blockers: Iterable[Document]) -> Operation[None]:
    """Mark blockers as awaited.

    The update changes every blocker, also completed ones: a transaction that completes, continues
    or prunes one at the same time conflicts with it, and one of the two is tried again.
    """
    incomplete: list[str] = []
    complete: list[str] = []
    for blocker in blockers:
        is_complete = blocker["state"] == JobState.COMPLETED
        (complete if is_complete else incomplete).append(blocker["_id"])
    changes: list[tuple[list[str], Document]] = [
        (incomplete, {"$set": {"awaited": True}, "$inc": {"locks": 1}}),
        (complete, {"$inc": {"locks": 1}}),
    ]
    yield Command(
        {
            "update": commands.names.job,
            "updates": [
                {"q": {"_id": {"$in": sorted(ids)}}, "u": change, "multi": True}
                for ids, change in changes
                if ids
            ],
        }
    )


def _refuse_cycles(commands: JobCommands, jobs: Sequence[NewJob]) -> Operation[None]:
    """Raise InvalidOption for a continuation whose blockers wait for its own sequence."""
    for job in jobs:
        goal = job.sequence_id
        if goal is None or goal == job.id or not job.blockers:
            continue
        seen: set[str] = set()
        ahead = set(job.blockers)
        while ahead:
            if goal in ahead:
                raise InvalidOption(
                    f"job {job.id} ({job.type}) would wait for itself: one of its blockers "
                    f"waits for its own sequence {goal}"
                )
            seen |= ahead
            last = yield from commands.last_jobs(
                ahead, {"sequence_id": 1, "blockers": 1, "waiting": 1, "state": 1}
            )
            ahead = {
                blocker
                for document in last.values()
                if document.get("waiting") and document["state"] != JobState.COMPLETED
                for blocker in document["blockers"]
            } - seen


def _newest(sequences: Iterable[Document], job: NewJob, now: datetime) -> Inserted | None:
    """The newest sequence that the new job duplicates."""
    since = None
    if job.dedup_window is not None:
        since = stamp(now - timedelta(seconds=job.dedup_window))
    for first in sequences:
        if first["_id"] == job.dedup_except or (since is not None and first["created_at"] <= since):
            continue
        if job.dedup_any or first["state"] not in TERMINAL:
            blocked = first["state"] == JobState.BLOCKED
            return Inserted(first["_id"], moment(first["run_at"]), blocked, deduplicated=True)
    return None


def _by_age(document: Document) -> tuple[Any, ...]:
    return document["created_at"], document["_id"]
