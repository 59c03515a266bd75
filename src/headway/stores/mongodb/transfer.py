"""Moves of jobs to another store, and from another store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime

import msgspec
from pymongo.asynchronous.database import AsyncDatabase

from headway.domain.job import JobState
from headway.drivers.mongodb import Command, Document
from headway.errors import DuplicateJob, SchemaMissing
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.ports.transfer import BatchOutcome, MovedJob
from headway.stores.mongodb.documents import (
    CollectionNames,
    MongoPart,
    in_parts,
    literal,
    moved_document,
    present,
    to_attempt,
    to_record,
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MovedJob)


class MongoTransfer(MongoPart):
    def __init__(
        self,
        names: CollectionNames,
        store: Store,
        connected: Callable[[], AbstractAsyncContextManager[AsyncDatabase[Document]]],
    ) -> None:
        super().__init__(names)
        self.store = store
        self._connected = connected

    async def identity(self) -> tuple[object, ...]:
        """The UUID that the server gave the collection of jobs."""
        async with self._connected() as database:
            found = await database.list_collections(filter={"name": self._names.job})
            collections = await found.to_list()
        if not collections:
            raise SchemaMissing(self.store.name)
        return (collections[0]["info"]["uuid"],)

    def movable(
        self, states: Sequence[JobState], after: str | None, limit: int
    ) -> Operation[list[tuple[str, str]]]:
        # By id: jobs in other states are skipped only once per pass.
        which: Document = {"_id": {"$gt": after or ""}, "state": {"$in": list(map(str, states))}}
        documents = yield self._commands.find(
            which, {"root_id": 1}, sort={"_id": 1}, limit=limit, hint="_id_"
        )
        return [(each["_id"], each.get("root_id") or each["_id"]) for each in documents]

    def trees(self, root_ids: Sequence[str], *, lock: bool = False) -> Operation[list[MovedJob]]:
        roots = {"$in": list(root_ids)}
        documents: list[Document] = yield self._commands.find(
            {"$or": [{"_id": roots}, {"root_id": roots}]}, {}, sort={"_id": 1}, alone=False
        )
        if lock and documents:
            ids = [document["_id"] for document in documents]
            yield self._commands.update(
                [{"q": {"_id": {"$in": ids}}, "u": {"$inc": {"locks": 1}}, "multi": True}]
            )
        return [
            MovedJob(
                to_record(document),
                document.get("waiting", 0),
                tuple(to_attempt(document["_id"], entry) for entry in document.get("history", ())),
            )
            for document in documents
        ]

    def insert_moved(self, jobs: Sequence[MovedJob]) -> Operation[None]:
        taken = yield self._commands.find(
            {"_id": {"$in": [moved.job.id for moved in jobs]}}, {"_id": 1}, alone=False
        )
        if taken:
            raise DuplicateJob(taken[0]["_id"])
        last: dict[str, int] = {}  # by sequence; sequences move as a whole
        for moved in jobs:
            sequence_id = moved.job.sequence_id
            last[sequence_id] = max(last.get(sequence_id, 0), moved.job.position)
        documents = (
            moved_document(moved, is_last=moved.job.position == last[moved.job.sequence_id])
            for moved in jobs
        )
        for part in in_parts(documents, lambda document: len(document["input"])):
            yield Command({"insert": self._names.job, "documents": part})

    def stage(self, batch: str, jobs: Sequence[MovedJob]) -> Operation[None]:
        staged = [
            {
                "_id": {"batch": batch, "job": moved.job.id},
                "batch": batch,
                "content": _encoder.encode(moved).decode(),
            }
            for moved in jobs
        ]
        earlier = yield self._commands.find(
            {"batch": batch}, {"_id": 1}, collection=self._names.staged_job, alone=False
        )
        if not earlier:  # else an earlier try staged it, and its answer was lost
            for part in in_parts(staged, lambda document: len(document["content"])):
                yield Command({"insert": self._names.staged_job, "documents": part})

    def take_staged(self, batch: str) -> Operation[list[MovedJob]]:
        documents = yield self._commands.find(
            {"batch": batch}, {"content": 1}, collection=self._names.staged_job, alone=False
        )
        if documents:
            yield Command(
                {
                    "delete": self._names.staged_job,
                    "deletes": [{"q": {"batch": batch}, "limit": 0}],
                }
            )
        return [_decoder.decode(document["content"]) for document in documents]

    def staged_batches(self, limit: int) -> Operation[list[str]]:
        batches: list[str] = []
        while len(batches) < limit:  # one index lookup per batch
            documents = yield self._commands.find(
                {"batch": {"$gt": batches[-1] if batches else ""}},
                {"batch": 1},
                sort={"batch": 1},
                limit=1,
                collection=self._names.staged_job,
            )
            if not documents:
                break
            batches.append(documents[0]["batch"])
        return batches

    def set_outcome(
        self, batch: str, outcome: BatchOutcome, *, now: datetime | None = None
    ) -> Operation[BatchOutcome]:
        fields = {
            "outcome": {"$ifNull": ["$outcome", literal(str(outcome))]},
            "at": {"$ifNull": ["$at", present(now)]},
        }
        yield self._commands.upsert(self._names.batch_outcome, batch, {"$set": fields})
        documents = yield self._commands.find({"_id": batch}, collection=self._names.batch_outcome)
        return BatchOutcome(documents[0]["outcome"])

    def delete_outcome(self, batch: str) -> Operation[None]:
        gone = [{"q": {"_id": batch}, "limit": 1}]
        yield Command({"delete": self._names.batch_outcome, "deletes": gone}, alone=True)
