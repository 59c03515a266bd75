"""Questions: what is stored, and how it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.domain.job import AttemptRecord, JobRecord
from headway.domain.queries import QueueRecord, WorkerRecord
from headway.drivers.mongodb import Command, Document
from headway.ports.statement import Operation, reading
from headway.stores.mongodb.documents import (
    Collections,
    maybe_moment,
    of_sequence,
    present,
    sequence_of,
    to_attempt,
    to_record,
    to_worker,
)

ENOUGH = 1_000_000
"""Documents that a first answer may hold, if they fit into 16 megabytes."""


class Reading:
    """The verbs that change nothing (except that `current` may lock)."""

    _names: Collections

    @reading
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        found = {}
        if ids:
            documents = yield self._find({"_id": {"$in": list(ids)}})
            found = {document["_id"]: to_record(document) for document in documents}
        return [found.get(id) for id in ids]

    @reading
    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        documents = yield self._find({"_id": job_id}, {"history": 1})
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
        documents = yield self._find(late, sort={"until": 1, "_id": 1}, limit=limit)
        return [to_record(document) for document in documents]

    @reading
    def queues(self) -> Operation[list[QueueRecord]]:
        documents = yield self._aggregate({"$group": {"_id": "$queue"}})
        paused: dict[str, Any] = {document["_id"]: None for document in documents}
        documents = yield self._find({}, collection=self._names.queue)
        paused |= {document["_id"]: document.get("paused_at") for document in documents}
        return [QueueRecord(name, maybe_moment(paused[name])) for name in sorted(paused)]

    @reading
    def workers(self) -> Operation[list[WorkerRecord]]:
        documents = yield self._find(
            {}, sort={"started_at": 1, "_id": 1}, collection=self._names.worker
        )
        return [to_worker(document) for document in documents]

    @reading
    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False
    ) -> Operation[list[JobRecord | None]]:
        documents = yield from self._last_jobs(sequence_ids, None, alone=not lock)
        if lock and documents:
            # A write, for only that keeps others from writing until the transaction ends.
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
        documents = yield self._find({"_id": {"$in": list(job_ids)}}, {"blockers": 1})
        blockers = {document["_id"]: document.get("blockers", []) for document in documents}
        wanted = list(dict.fromkeys(id for ids in blockers.values() for id in ids))
        last = yield from self._last_jobs(wanted, {"output": 1, "sequence_id": 1})
        return {
            job_id: [last[id].get("output") if id in last else None for id in blockers[job_id]]
            for job_id in job_ids
            if job_id in blockers
        }

    @reading
    def dependents(
        self, sequence_ids: Sequence[str], *, limit: int | None = None
    ) -> Operation[list[JobRecord]]:
        documents = yield self._find(
            {"blockers": {"$in": list(sequence_ids)}}, sort={"_id": 1}, limit=limit
        )
        return [to_record(document) for document in documents]

    # `alone` reads may be made outside of a transaction. What a transaction is to rely on must be
    # read in it: only then does it meet those who change it meanwhile.

    def _last_jobs(
        self, sequence_ids: Iterable[str], fields: Document | None, *, alone: bool = True
    ) -> Operation[dict[str, Document]]:
        """The last job of each sequence that there is; `fields` must name `sequence_id`."""
        wanted = list(sequence_ids)
        if not wanted:
            return {}
        documents: list[Document] = yield self._find(
            {"$or": of_sequence(wanted)}, fields, alone=alone
        )
        return by_sequence(documents)

    def _find(
        self,
        which: Document,
        fields: Document | None = None,
        *,
        sort: Document | None = None,
        limit: int | None = None,
        skip: int = 0,
        hint: str | None = None,
        collection: str | None = None,
        alone: bool = True,
        after: Any = None,
        latest: bool = False,
    ) -> Command:
        body: Document = {
            "find": collection or self._names.job,
            "filter": which,
            "projection": {"history": 0} if fields is None else fields,
            "batchSize": ENOUGH,
        }
        if sort is not None:
            body["sort"] = sort
        if limit is not None:
            body["limit"] = limit
        if skip:
            body["skip"] = skip
        if hint is not None:
            body["hint"] = hint
        return Command(body, alone=alone, after=after, latest=latest)

    def _aggregate(self, *stages: Document, alone: bool = True, after: Any = None) -> Command:
        return Command(
            {
                "aggregate": self._names.job,
                "pipeline": list(stages),
                "cursor": {"batchSize": ENOUGH},
            },
            alone=alone,
            after=after,
        )

    def _survey(
        self, now: datetime | None, looks: Mapping[str, Sequence[Document]], *, alone: bool = True
    ) -> Command:
        """Ask for the time, as `now`, and for what each of these pipelines finds, in one breath."""
        stages: list[Document] = [{"$documents": [{}]}, {"$set": {"now": present(now)}}]
        stages += [
            {"$lookup": {"from": self._names.job, "pipeline": list(pipeline), "as": name}}
            for name, pipeline in looks.items()
        ]
        return Command({"aggregate": 1, "pipeline": stages, "cursor": {}}, alone=alone)


def by_sequence(documents: Iterable[Document]) -> dict[str, Document]:
    """The last of these jobs in each sequence: later ones take the place of the first."""
    last: dict[str, Document] = {}
    for document in documents:
        sequence_id = sequence_of(document)
        if sequence_id not in last or "sequence_id" in document:
            last[sequence_id] = document
    return last
