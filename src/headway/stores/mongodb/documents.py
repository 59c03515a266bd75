"""Jobs as documents. What has no value has no field; times are microseconds since 1970."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.domain.job import AttemptRecord, ClaimedJob, JobRecord, JobState, NewJob
from headway.domain.lease import Lease
from headway.drivers.mongodb import Document

NOW: Document = {"$multiply": [{"$toLong": "$$NOW"}, 1_000]}
"""The server's clock, as an expression; it knows milliseconds."""
ORDER: Document = {"priority": -1, "run_at": 1, "_id": 1}
"""In which a queue's jobs are claimed."""
OPEN = [str(state) for state in JobState if not state.terminal]
NOT_COMPLETED = [str(state) for state in JobState if state is not JobState.COMPLETED]
MOST = 10_000
"""Documents that are stored by one command."""
LARGEST = 4_000_000
"""Characters of payload that go into one command; the server takes 48 megabytes."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Collections:
    """Their names: `headway.job` and so on, in whatever database."""

    def __init__(self, schema: str) -> None:
        self.job = f"{schema}.job"
        """One document per job: its blockers, its lease and its failed attempts are part of it."""
        self.dedup = f"{schema}.dedup"
        """Written by whoever is about to start a job under a key, so that only one does."""
        self.worker = f"{schema}.worker"
        self.queue = f"{schema}.queue"
        self.audit = f"{schema}.audit"
        self.staged_job = f"{schema}.staged_job"
        """Jobs that are on their way here from another store."""
        self.batch_outcome = f"{schema}.batch_outcome"
        """What became of batches that were to leave from here."""
        self.migration = f"{schema}.migration"


def stamp(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def present(now: datetime | None) -> Document:
    """The present as an expression; None asks for the server's clock."""
    return NOW if now is None else literal(stamp(now))


def moment(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def maybe_moment(value: int | None) -> datetime | None:
    return None if value is None else moment(value)


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def literal(value: Any) -> Document:
    """A value inside an expression, where text with a dollar would mean something else."""
    return {"$literal": value}


def of_sequence(ids: Iterable[str]) -> list[Document]:
    """The first and the last jobs of these sequences, as alternatives of a filter."""
    wanted = list(ids)
    return [{"_id": {"$in": wanted}, "sequence_id": {"$exists": False}}, {"tail": {"$in": wanted}}]


def of_members(field: str, id: str) -> Document:
    """All jobs of a sequence, or of a root: the first has no such field."""
    return {"$or": [{"_id": id, field: {"$exists": False}}, {field: id}]}


def new_document(
    job: NewJob, now: datetime, run_at: datetime, *, waiting: int, awaited: bool
) -> Document:
    document: Document = {
        "_id": job.id,
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "state": str(JobState.BLOCKED if waiting else JobState.PENDING),
        "run_at": stamp(run_at),
        "created_at": stamp(now),
        "attempts": 0,
        "losses": 0,
        "max_losses": job.max_losses,
        "version": 0,
        "position": job.position,
        "input": job.input,
    }
    if job.max_attempts is not None:
        document["max_attempts"] = job.max_attempts
    if job.timeout is not None:
        document["timeout"] = job.timeout
    if job.sequence_id is not None and job.sequence_id != job.id:
        document["sequence_id"] = document["tail"] = job.sequence_id
    if job.sequence_type is not None and job.sequence_type != job.type:
        document["sequence_type"] = job.sequence_type
    if job.root_id is not None and job.root_id != job.id:
        document["root_id"] = job.root_id
    if job.origin_id is not None:
        document["origin_id"] = job.origin_id
    if job.blockers:
        document["blockers"] = list(job.blockers)
        document["waiting"] = waiting
    if awaited:
        document["awaited"] = True
    if job.dedup_key is not None:
        document["dedup_key"] = job.dedup_key
    if job.trace is not None:
        document["trace"] = job.trace
    return document


def sequence_of(document: Document) -> str:
    sequence_id: str = document.get("sequence_id") or document["_id"]
    return sequence_id


def to_record(document: Document) -> JobRecord:
    get = document.get
    lease = None
    if (token := get("token")) is not None:
        lease = Lease(token, document["version"], moment(document["until"]))
    return JobRecord(
        id=document["_id"],
        type=document["type"],
        queue=document["queue"],
        priority=document["priority"],
        state=JobState(document["state"]),
        input=document["input"],
        output=get("output"),
        run_at=moment(document["run_at"]),
        created_at=moment(document["created_at"]),
        started_at=maybe_moment(get("started_at")),
        finished_at=maybe_moment(get("finished_at")),
        attempts=document["attempts"],
        losses=document["losses"],
        max_attempts=get("max_attempts"),
        max_losses=document["max_losses"],
        timeout=get("timeout"),
        last_error=get("last_error"),
        lease=lease,
        lease_version=document["version"],
        worker=get("worker"),
        sequence_id=sequence_of(document),
        sequence_type=get("sequence_type") or document["type"],
        root_id=get("root_id") or document["_id"],
        origin_id=get("origin_id"),
        position=document["position"],
        awaited=bool(get("awaited")),
        blockers=tuple(get("blockers", ())),
        dedup_key=get("dedup_key"),
        trace=get("trace"),
        fingerprint=get("fingerprint"),
    )


def to_claimed(document: Document) -> ClaimedJob:
    get = document.get
    return ClaimedJob(
        id=document["_id"],
        type=document["type"],
        queue=document["queue"],
        priority=document["priority"],
        input=document["input"],
        run_at=moment(document["run_at"]),
        created_at=moment(document["created_at"]),
        attempts=document["attempts"],
        losses=document["losses"],
        max_attempts=get("max_attempts"),
        max_losses=document["max_losses"],
        timeout=get("timeout"),
        lease=Lease(document["token"], document["version"], moment(document["until"])),
        sequence_id=sequence_of(document),
        sequence_type=get("sequence_type") or document["type"],
        root_id=get("root_id") or document["_id"],
        origin_id=get("origin_id"),
        position=document["position"],
        has_blockers="blockers" in document,
        trace=get("trace"),
    )


def to_attempt(job_id: str, entry: Document) -> AttemptRecord:
    return AttemptRecord(
        job_id=job_id,
        version=entry["version"],
        outcome=entry["outcome"],
        worker=entry.get("worker"),
        started_at=maybe_moment(entry.get("started_at")),
        finished_at=moment(entry["finished_at"]),
        error=entry["error"],
    )


def in_parts(documents: Iterable[Document], field: str = "input") -> Iterator[list[Document]]:
    """Documents to store, in parts that one command can carry; `field` holds most of each."""
    part: list[Document] = []
    size = 0
    for document in documents:
        weight = len(document[field])
        if part and (size + weight > LARGEST or len(part) == MOST):
            yield part
            part, size = [], 0
        part.append(document)
        size += weight
    if part:
        yield part
