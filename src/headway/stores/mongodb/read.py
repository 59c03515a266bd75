"""Reads of single jobs and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import AttemptRecord, JobRecord
from headway.drivers.mongodb import Command
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
        self, sequence_ids: Sequence[str], *, lock: bool = False
    ) -> Operation[list[JobRecord | None]]:
        documents = yield from self._commands.last_jobs(sequence_ids, None, alone=not lock)
        if lock and documents:
            # Only a write keeps others from writing until the transaction ends.
            yield Command(
                {
                    "update": self._names.job,
                    "updates": [
                        {
                            "q": {"_id": {"$in": sorted(d["_id"] for d in documents.values())}},
                            "u": {"$inc": {"locks": 1}},
                            "multi": True,
                        }
                    ],
                }
            )
        return [to_record(documents[id]) if id in documents else None for id in sequence_ids]

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
