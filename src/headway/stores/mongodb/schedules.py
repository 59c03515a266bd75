"""Schedules, each with its last runs in one document; the jobs that they start.

A transaction locks schedules by writing to them. MongoDB does not tell which documents others have
locked: a transaction that writes to one of them ends, and is tried again. `LockSearch` finds the
schedules that can be locked by such tries.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from headway.domain.due_time import due
from headway.domain.job import NewJob
from headway.domain.schedules.schedule import (
    KEPT_RUNS,
    ScheduleAdvance,
    ScheduleRecord,
    ScheduleRun,
    decode_definition,
)
from headway.drivers.mongodb import Command, Document, Try, TryRequest
from headway.ports.statement import Operation, reading
from headway.ports.store import Inserted
from headway.stores.mongodb.documents import (
    CollectionNames,
    JobCommands,
    MongoPart,
    assignment,
    in_parts,
    maybe_moment,
    maybe_stamp,
    micros,
    moment,
    new_document,
    present,
    stamp,
)

FEW = 16
"""Of so many due schedules each one that is not locked is found."""
TRIES = 3
"""Tries in a row that lock none of more schedules, after which a few of them are tried one by one;
after two more, all are left to others."""
SPLITS = 12
"""Conflicts after which a group that another transaction has a part of is left out as a whole."""
BATCHES = 8
"""If others fire many schedules at the same time: batches of due ones to choose from."""
CROWDED_FOR = 1.0
"""Seconds after such a conflict during which others are expected to go on."""


class LockSearch:
    """Schedules to lock, over the tries of one operation.

    Groups of schedules are locked one by one, so the group that ended a try is known: it is split
    until the locked schedule is found. If a whole batch of many ended it, others are firing: then
    another batch is chosen at random.
    """

    def __init__(self, limit: int, *, crowded: bool) -> None:
        self.limit = limit
        self.crowded = crowded and limit > FEW
        """Whether to choose a batch at random."""
        self.conflicts = 0
        self._in_vain = 0
        """Tries in a row that locked nothing."""
        self._groups: list[list[str]] = []
        self._attempted: int | None = None
        """The place of the group that is being locked."""
        self._left_out: set[str] = set()
        self._sample: set[str] | None = None

    def begin(self) -> None:
        """Begin the next try."""
        place, self._attempted = self._attempted, None
        if place is None:
            return
        self.conflicts += 1
        self._in_vain = self._in_vain + 1 if place == 0 else 0
        group = self._groups[place]
        self.crowded = len(group) == self.limit > FEW and self._in_vain < TRIES
        if len(group) == 1 or self.conflicts > SPLITS:
            del self._groups[place]
            self._left_out.update(group)
        else:
            parts = 2 if len(group) > FEW else len(group)
            split = [group[part::parts] for part in range(parts)]
            random.shuffle(split)
            self._groups[place : place + 1] = split

    @property
    def hopeless(self) -> bool:
        """Others have probably locked all."""
        return self._sample is not None and self._in_vain >= TRIES + 2

    def skipped(self) -> int:
        """The number of due schedules to leave to others."""
        return self.limit * random.randrange(BATCHES) if self.crowded else 0

    def choose(self, due: Iterable[str]) -> list[str]:
        """The schedules to lock."""
        names = [name for name in due if name not in self._left_out][: self.limit]
        if self._in_vain >= TRIES and self._sample is None and len(names) > FEW:
            self._groups = [[name] for name in random.sample(names, FEW)]
            self._sample = {name for (name,) in self._groups}
        return names if self._sample is None else [name for name in names if name in self._sample]

    def groups(self, names: Collection[str]) -> Iterator[list[str]]:
        """The groups in which to lock these schedules."""
        wanted = set(names)
        known = ([name for name in group if name in wanted] for group in self._groups)
        self._groups = [group for group in known if group]
        new = wanted.difference(*self._groups)
        if new:
            self._groups.append(sorted(new))
        for place, group in enumerate(self._groups):
            self._attempted = place
            yield group
        self._attempted = None


class MongoSchedules(MongoPart):
    def __init__(self, names: CollectionNames) -> None:
        super().__init__(names)
        self._crowded_until = 0.0
        """Until then others are expected to fire many schedules."""

    def insert_scheduled(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        if not jobs:
            return []
        ids = list({job.id for job in jobs})
        taken: list[Document] = [{"$match": {"_id": {"$in": ids}}}, {"$project": {"run_at": 1}}]
        (found,) = yield self._commands.lookups(now, {"taken": taken}, alone=False)
        present_time = moment(found["now"])
        stored = {each["_id"]: moment(each["run_at"]) for each in found["taken"]}
        new: list[Document] = []
        answers: list[Inserted] = []
        for job in jobs:
            run_at = stored.get(job.id)
            if run_at is not None:
                answers.append(Inserted(job.id, run_at, deduplicated=True))
                continue
            stored[job.id] = run_at = due(job.schedule, present_time)
            new.append(new_document(job, present_time, run_at, waiting=0, awaited=False))
            answers.append(Inserted(job.id, run_at))
        for part in in_parts(new, lambda document: len(document["input"])):
            yield Command({"insert": self._names.job, "documents": part})
        return answers

    def add_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[list[str]]:
        taken = yield from self._read_schedules([each.name for each in schedules], alone=False)
        new = [each for each in schedules if each.name not in taken]
        if new:
            yield from self.put_schedules(new)
        return [each.name for each in new]

    def put_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[None]:
        alone = len(schedules) == 1
        changes = map(_replacement, schedules)
        for part in in_parts(changes, lambda change: len(change["u"]["$set"]["definition"])):
            yield self._commands.update(part, alone=alone, collection=self._names.schedule)

    @reading
    def schedules(
        self, names: Sequence[str], *, lock: bool = False
    ) -> Operation[list[ScheduleRecord | None]]:
        found = yield from self._read_schedules(names, alone=not lock)
        if lock and found:
            yield self._lock_schedules(found)
        return [found.get(name) for name in names]

    @reading
    def list_schedules(
        self, *, after: str | None = None, limit: int = 1_000
    ) -> Operation[list[ScheduleRecord]]:
        if limit <= 0:
            return []
        documents = yield self._commands.find(
            {"_id": {"$gt": after or ""}},
            sort={"_id": 1},
            limit=limit,
            collection=self._names.schedule,
        )
        return [_to_record(document) for document in documents]

    def due_schedules(
        self,
        declared: Collection[str],
        limit: int,
        *,
        ended: Collection[str] = (),
        now: datetime | None = None,
    ) -> Operation[list[ScheduleRecord]]:
        if limit <= 0:
            return []
        this: Try = yield TryRequest()
        crowded = time.monotonic() < self._crowded_until
        search: LockSearch = this.memory.setdefault("search", LockSearch(limit, crowded=crowded))
        search.begin()
        if search.conflicts and search.crowded:
            self._crowded_until = time.monotonic() + CROWDED_FOR
        if search.hopeless:
            return []
        is_due = {"$expr": {"$lte": ["$next_at", present(now)]}}
        reach = max(limit, FEW) if search.conflicts else limit
        skipped = search.skipped()
        found = yield self._fireable(declared, is_due, reach, skip=skipped, hint="due")
        if skipped and not found:
            found = yield self._fireable(declared, is_due, reach, hint="due")
        names = [document["_id"] for document in found]
        if ended and len(names) < limit:
            waits = {"_id": {"$in": list(ended)}, "waiting_tick": {"$gt": 0}}
            found = yield self._fireable(declared, waits, limit)
            names = list(dict.fromkeys((*names, *(document["_id"] for document in found))))
        names = search.choose(names)
        if not names:
            return []
        for group in search.groups(names):
            yield self._lock_schedules(group)
        records = yield from self._read_schedules(names, alone=False)
        return [records[name] for name in names]

    @reading
    def next_schedule(
        self, declared: Collection[str], *, now: datetime | None = None
    ) -> Operation[float | None]:
        return (yield from seconds_to_next(self._commands, declared, now))

    def advance_schedules(self, advances: Sequence[ScheduleAdvance]) -> Operation[None]:
        for part in in_parts(map(_advance, advances), lambda _: 0):
            yield self._commands.update(part, collection=self._names.schedule)

    @reading
    def schedule_runs(self, names: Sequence[str]) -> Operation[list[list[ScheduleRun]]]:
        documents = yield self._commands.find(
            {"_id": {"$in": list(names)}}, {"history": 1}, collection=self._names.schedule
        )
        found = {
            document["_id"]: sorted(map(_to_run, document.get("history", ())), key=_age)
            for document in documents
        }
        return [found.get(name, [])[::-1] for name in names]

    def delete_schedules(self, names: Sequence[str]) -> Operation[list[str]]:
        found = yield self._commands.find(
            {"_id": {"$in": list(names)}},
            {"_id": 1},
            collection=self._names.schedule,
            alone=False,
        )
        gone: list[str] = [document["_id"] for document in found]
        if gone:
            which = {"q": {"_id": {"$in": gone}}, "limit": 0}
            yield Command({"delete": self._names.schedule, "deletes": [which]})
        return gone

    def _read_schedules(
        self, names: Collection[str], *, alone: bool
    ) -> Operation[dict[str, ScheduleRecord]]:
        documents = yield self._commands.find(
            {"_id": {"$in": list(names)}}, collection=self._names.schedule, alone=alone
        )
        return {document["_id"]: _to_record(document) for document in documents}

    def _fireable(
        self,
        declared: Collection[str],
        which: Document,
        limit: int,
        *,
        skip: int = 0,
        hint: str | None = None,
    ) -> Command:
        return self._commands.find(
            fireable(declared) | which,
            {"_id": 1},
            sort={"next_at": 1},
            limit=limit,
            skip=skip,
            hint=hint,
            collection=self._names.schedule,
            alone=False,
        )

    def _lock_schedules(self, names: Iterable[str]) -> Command:
        """Only a write keeps others from writing until the transaction ends."""
        change = {
            "q": {"_id": {"$in": sorted(names)}},
            "u": {"$inc": {"locks": 1}},
            "multi": True,
        }
        return self._commands.update([change], collection=self._names.schedule)


def seconds_to_next(
    commands: JobCommands, declared: Collection[str], now: datetime | None
) -> Operation[float | None]:
    documents = yield commands.aggregate(
        {"$match": fireable(declared)},
        {"$sort": {"next_at": 1}},
        {"$limit": 1},
        {"$project": {"left": {"$subtract": ["$next_at", present(now)]}}},
        collection=commands.names.schedule,
    )
    return documents[0]["left"] / micros(1) if documents else None


def fireable(declared: Collection[str]) -> Document:
    """Schedules that a worker with these declarations may fire."""
    return {
        "paused_at": None,
        "$or": [{"declaration": None}, {"_id": {"$in": list(declared)}}],
    }


def _replacement(record: ScheduleRecord) -> Document:
    values: Document = {
        "definition": record.definition.encode(),
        "declaration": record.declaration,
        "replaced": list(record.replaced),
        "next_at": stamp(record.next_at),
        "waiting_tick": maybe_stamp(record.waiting_tick),
        "paused_at": maybe_stamp(record.paused_at),
        "last_tick": maybe_stamp(record.last_tick),
        "last_at": maybe_stamp(record.last_at),
        "last_sequence_id": record.last_sequence_id,
        "fired": record.fired,
        "skipped": record.skipped,
        "runs": record.runs,
        "changed_at": stamp(record.changed_at),
    }
    change = assignment(values) | {"$setOnInsert": {"created_at": stamp(record.created_at)}}
    return {"q": {"_id": record.name}, "u": change, "upsert": True}


def _advance(advance: ScheduleAdvance) -> Document:
    values: Document = {
        "next_at": stamp(advance.next_at),
        "waiting_tick": maybe_stamp(advance.waiting_tick),
    }
    if advance.started is not None:
        tick, at, sequence_id = advance.started
        values |= {"last_tick": stamp(tick), "last_at": stamp(at), "last_sequence_id": sequence_id}
    change = assignment(values) | {
        "$inc": {"fired": advance.fired, "skipped": advance.skipped, "runs": len(advance.runs)},
        "$push": {
            "history": {"$each": [_from_run(run) for run in advance.runs], "$slice": -KEPT_RUNS}
        },
    }
    return {"q": {"_id": advance.name}, "u": change}


def _to_record(document: Document) -> ScheduleRecord:
    get = document.get
    return ScheduleRecord(
        name=document["_id"],
        definition=decode_definition(document["definition"]),
        declaration=get("declaration"),
        replaced=tuple(document["replaced"]),
        next_at=moment(document["next_at"]),
        waiting_tick=maybe_moment(get("waiting_tick")),
        paused_at=maybe_moment(get("paused_at")),
        last_tick=maybe_moment(get("last_tick")),
        last_at=maybe_moment(get("last_at")),
        last_sequence_id=get("last_sequence_id"),
        fired=document["fired"],
        skipped=document["skipped"],
        runs=document["runs"],
        created_at=moment(document["created_at"]),
        changed_at=moment(document["changed_at"]),
    )


def _age(run: ScheduleRun) -> tuple[datetime, datetime]:
    return run.at, run.tick


def _from_run(run: ScheduleRun) -> Document:
    entry: Document = {"tick": stamp(run.tick), "at": stamp(run.at)}
    if run.sequence_id is not None:
        entry["sequence_id"] = run.sequence_id
    if run.skipped is not None:
        entry["skipped"] = run.skipped
    return entry


def _to_run(entry: Document) -> ScheduleRun:
    return ScheduleRun(
        tick=moment(entry["tick"]),
        at=moment(entry["at"]),
        sequence_id=entry.get("sequence_id"),
        skipped=entry.get("skipped"),
    )
