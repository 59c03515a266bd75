"""Records of workers and of paused queues."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.domain.queries import QueueRecord, WorkerRecord
from headway.drivers.mongodb import Command, Document
from headway.ports.statement import Operation, reading
from headway.stores.mongodb.documents import (
    MongoPart,
    literal,
    maybe_moment,
    micros,
    moment,
    present,
)
from headway.stores.mongodb.schedules import seconds_to_next


class MongoWorkers(MongoPart):
    @reading
    def queues(self) -> Operation[list[QueueRecord]]:
        documents = yield self._commands.aggregate({"$group": {"_id": "$queue"}})
        paused: dict[str, Any] = {document["_id"]: None for document in documents}
        documents = yield self._commands.find({}, collection=self._names.queue)
        paused |= {document["_id"]: document.get("paused_at") for document in documents}
        return [QueueRecord(name, maybe_moment(paused[name])) for name in sorted(paused)]

    @reading
    def managed_queues(self) -> Operation[list[QueueRecord]]:
        documents = yield self._commands.find({}, sort={"_id": 1}, collection=self._names.queue)
        return [
            QueueRecord(document["_id"], maybe_moment(document.get("paused_at")))
            for document in documents
        ]

    def save_worker(
        self, worker: WorkerRecord, *, now: datetime | None = None
    ) -> Operation[float | None]:
        change = {
            "host": literal(worker.host),
            "pid": worker.pid,
            "queues": literal(list(worker.queues)),
            "types": literal(list(worker.types)),
            "concurrency": worker.concurrency,
            "running": worker.running,
            "started_at": {"$ifNull": ["$started_at", present(now)]},
            "seen_at": present(now),
            "schedules": _pairs(worker.schedules),
            "limits": _pairs(worker.limits),
        }
        yield self._commands.upsert(self._names.worker, worker.id, {"$set": change})
        if worker.schedules is None:
            return None
        # No command of MongoDB writes to one collection and answers from another.
        return (yield from seconds_to_next(self._commands, worker.schedules, now))

    @reading
    def workers(self) -> Operation[list[WorkerRecord]]:
        documents = yield self._commands.find(
            {}, sort={"started_at": 1, "_id": 1}, collection=self._names.worker
        )
        return [
            WorkerRecord(
                id=document["_id"],
                host=document["host"],
                pid=document["pid"],
                queues=tuple(document["queues"]),
                types=tuple(document["types"]),
                concurrency=document["concurrency"],
                running=document["running"],
                started_at=moment(document["started_at"]),
                seen_at=moment(document["seen_at"]),
                schedules=_declared(document.get("schedules")),
                limits=_declared(document.get("limits")),
            )
            for document in documents
        ]

    def delete_workers(
        self,
        ids: Sequence[str] = (),
        *,
        unseen_for: float | None = None,
        now: datetime | None = None,
    ) -> Operation[int]:
        gone: list[Document] = [{"_id": {"$in": list(ids)}}]
        if unseen_for is not None:
            since = {"$subtract": [present(now), micros(unseen_for)]}
            gone.append({"$expr": {"$lt": ["$seen_at", since]}})
        reply = yield Command(
            {"delete": self._names.worker, "deletes": [{"q": {"$or": gone}, "limit": 0}]},
            alone=True,
        )
        return int(reply["n"])


def _pairs(declared: dict[str, str] | None) -> Document | None:
    """Pairs: a name may contain a dot or a dollar, which a field's name may not."""
    return None if declared is None else literal([list(pair) for pair in declared.items()])


def _declared(pairs: list[tuple[str, str]] | None) -> dict[str, str] | None:
    return None if pairs is None else dict(pairs)
