"""Jobs that leave for another store, or come from one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from headway.domain.job import AttemptRecord, JobState
from headway.drivers.mongodb import Command, Document
from headway.errors import DuplicateJob
from headway.ports.statement import Operation
from headway.ports.transfer import BatchOutcome, MovedJob
from headway.stores.mongodb.commands import MongoPart
from headway.stores.mongodb.documents import (
    in_parts,
    literal,
    present,
    stamp,
    to_attempt,
    to_record,
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MovedJob)


class MongoTransfer(MongoPart):
    def movable(
        self, states: Sequence[JobState], after: str | None, limit: int
    ) -> Operation[list[tuple[str, str]]]:
        # Along the ids: whatever is passed over is passed over once in all.
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
        last = _last_steps(jobs)
        for part in in_parts(_document(moved, last) for moved in jobs):
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
        if not earlier:  # else: by an earlier try whose answer was lost
            for part in in_parts(staged, "content"):
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
        while len(batches) < limit:  # hopping through the index
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
        said = {
            "outcome": {"$ifNull": ["$outcome", literal(str(outcome))]},
            "at": {"$ifNull": ["$at", present(now)]},
        }
        yield self._commands.upsert(self._names.batch_outcome, batch, {"$set": said})
        documents = yield self._commands.find({"_id": batch}, collection=self._names.batch_outcome)
        return BatchOutcome(documents[0]["outcome"])

    def delete_outcome(self, batch: str) -> Operation[None]:
        gone = [{"q": {"_id": batch}, "limit": 1}]
        yield Command({"delete": self._names.batch_outcome, "deletes": gone}, alone=True)


def _last_steps(jobs: Iterable[MovedJob]) -> dict[str, int]:
    """How far each sequence has come; they travel whole."""
    last: dict[str, int] = {}
    for moved in jobs:
        sequence_id = moved.job.sequence_id
        last[sequence_id] = max(last.get(sequence_id, 0), moved.job.position)
    return last


def _document(moved: MovedJob, last: dict[str, int]) -> Document:
    job = moved.job
    document: Document = {
        "_id": job.id,
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "state": str(job.state),
        "run_at": stamp(job.run_at),
        "created_at": stamp(job.created_at),
        "attempts": job.attempts,
        "losses": job.losses,
        "max_losses": job.max_losses,
        "version": job.lease_version,
        "position": job.position,
        "input": job.input,
    }
    maybe: Document = {
        "output": job.output,
        "started_at": None if job.started_at is None else stamp(job.started_at),
        "finished_at": None if job.finished_at is None else stamp(job.finished_at),
        "max_attempts": job.max_attempts,
        "timeout": job.timeout,
        "last_error": job.last_error,
        "fingerprint": job.fingerprint,
        "worker": job.worker,
        "sequence_id": job.sequence_id if job.sequence_id != job.id else None,
        "sequence_type": job.sequence_type if job.sequence_type != job.type else None,
        "root_id": job.root_id if job.root_id != job.id else None,
        "origin_id": job.origin_id,
        "awaited": job.awaited or None,
        "dedup_key": job.dedup_key,
        "trace": job.trace,
        "blockers": list(job.blockers) or None,
        "waiting": moved.waiting if job.blockers else None,
        "history": [_entry(attempt) for attempt in moved.attempts] or None,
    }
    is_last = job.position == last[job.sequence_id]
    maybe["continued"] = None if is_last else True
    maybe["tail"] = job.sequence_id if is_last and job.position else None
    return document | {field: value for field, value in maybe.items() if value is not None}


def _entry(attempt: AttemptRecord) -> Document:
    entry: Document = {
        "version": attempt.version,
        "outcome": attempt.outcome,
        "finished_at": stamp(attempt.finished_at),
        "error": attempt.error,
    }
    if attempt.worker is not None:
        entry["worker"] = attempt.worker
    if attempt.started_at is not None:
        entry["started_at"] = stamp(attempt.started_at)
    return entry
