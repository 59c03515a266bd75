"""Reads of single jobs and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import AttemptRecord, JobRecord
from headway.drivers.mongodb import Command, Try, TryRequest
from headway.ports.statement import Operation, reading
from headway.stores.mongodb.documents import MongoPart, present, to_attempt, to_record


class MongoRead(MongoPart):
    @reading
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        found = {}
        if ids:
            documents = yield self._commands.find({"_id": {"$in": list(ids)}})
            found = {document["_id"]: to_record(document) for document in documents}
        return [found.get(id) for id in ids]

    @reading
    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        documents = yield self._commands.find({"_id": job_id}, {"history": 1})
        return [
            to_attempt(job_id, entry)
            for document in documents
            for entry in document.get("history", ())
        ]

    @reading
    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        if limit <= 0:
            return []
        late = {"state": "running", "$expr": {"$lte": ["$until", present(now)]}}
        documents = yield self._commands.find(late, sort={"until": 1, "_id": 1}, limit=limit)
        return [to_record(document) for document in documents]

    @reading
    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False, wait: bool = True
    ) -> Operation[list[JobRecord | None]]:
        documents = yield from self._commands.last_jobs(sequence_ids, None, alone=not lock)
        ids = sorted(document["_id"] for document in documents.values())
        held: set[str] = set()
        if lock and ids and wait:
            yield self._lock_jobs(ids)
        elif lock and ids:
            held = yield from self._lock_free(ids)
        return [
            to_record(documents[id])
            if id in documents and documents[id]["_id"] not in held
            else None
            for id in sequence_ids
        ]

    def _lock_free(self, ids: Sequence[str]) -> Operation[set[str]]:
        """Lock those of these jobs that no other transaction holds; the others. A held job ends the
        try; the next one locks the jobs one by one, and leaves it out."""
        this: Try = yield TryRequest()
        held: set[str] = this.memory.setdefault("held", set())
        ended: Sequence[str] = this.memory.pop("locking", ())
        if len(ended) == 1:
            held.update(ended)
        apart = this.memory["apart"] = bool(ended) or this.memory.get("apart", False)
        free = [id for id in ids if id not in held]
        for group in [[id] for id in free] if apart else [free]:
            this.memory["locking"] = group
            yield self._lock_jobs(group)
            del this.memory["locking"]
        return held

    def _lock_jobs(self, ids: Sequence[str]) -> Command:
        """Only a write keeps others from writing until the transaction ends."""
        change = {"q": {"_id": {"$in": ids}}, "u": {"$inc": {"locks": 1}}, "multi": True}
        return Command({"update": self._names.job, "updates": [change]})

    @reading
    def blocker_outputs(self, job_ids: Sequence[str]) -> Operation[dict[str, list[str | None]]]:
        if not job_ids:
            return {}
        documents = yield self._commands.find({"_id": {"$in": list(job_ids)}}, {"blockers": 1})
        blockers = {document["_id"]: document.get("blockers", []) for document in documents}
        wanted = list(dict.fromkeys(id for ids in blockers.values() for id in ids))
        last = yield from self._commands.last_jobs(wanted, {"output": 1, "sequence_id": 1})
        return {
            job_id: [last[id].get("output") if id in last else None for id in blockers[job_id]]
            for job_id in job_ids
            if job_id in blockers
        }

    @reading
    def dependents(
        self, sequence_ids: Sequence[str], *, limit: int | None = None
    ) -> Operation[list[JobRecord]]:
        documents = yield self._commands.find(
            {"blockers": {"$in": list(sequence_ids)}}, sort={"_id": 1}, limit=limit
        )
        return [to_record(document) for document in documents]
