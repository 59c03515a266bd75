"""Jobs as documents, and the commands on their collections. A field without a value is left out;
times are microseconds since 1970.

All fields of a job are listed here, and nowhere else in the MongoDB store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from headway.domain.job import AttemptRecord, ClaimedJob, JobRecord, JobState, NewJob
from headway.domain.lease import Lease
from headway.drivers.mongodb import Command, Document
from headway.ports.statement import Operation
from headway.ports.transfer import MovedJob

NOW: Document = {"$multiply": [{"$toLong": "$$NOW"}, 1_000]}
"""The server's time, as an expression; it has milliseconds."""
ORDER: Document = {"priority": -1, "run_at": 1, "_id": 1}
"""The order of claims."""
OPEN = [str(state) for state in JobState if not state.terminal]
NOT_COMPLETED = [str(state) for state in JobState if state is not JobState.COMPLETED]
T = TypeVar("T")

MOST = 10_000
"""Documents in one command."""
LARGEST = 4_000_000
"""Characters of payload in one command; the server takes 48 megabytes."""

ENOUGH = 1_000_000
"""Documents in the first batch of an answer, if they fit into 16 megabytes."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class CollectionNames:
    """Names of the collections: `headway.job` and so on."""

    def __init__(self, schema: str) -> None:
        self.job = f"{schema}.job"
        """One document per job, with its blockers, its lease and its history."""
        self.dedup = f"{schema}.dedup"
        """One document per deduplication key; an insert writes it to exclude others."""
        self.worker = f"{schema}.worker"
        self.queue = f"{schema}.queue"
        """One document per queue that was paused or has limits."""
        self.audit = f"{schema}.audit"
        self.schedule = f"{schema}.schedule"
        """One document per schedule, with its last runs."""
        self.staged_job = f"{schema}.staged_job"
        """Jobs that are moving here from another store."""
        self.batch_outcome = f"{schema}.batch_outcome"
        """Outcomes of batches that were to move from here."""
        self.migration = f"{schema}.migration"


def stamp(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def present(now: datetime | None) -> Document:
    """The time as an expression; None is the server's time."""
    return NOW if now is None else literal(stamp(now))


def maybe_stamp(value: datetime | None) -> int | None:
    return None if value is None else stamp(value)


def moment(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def maybe_moment(value: int | None) -> datetime | None:
    return None if value is None else moment(value)


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def literal(value: Any) -> Document:
    """A value inside an expression, where text with a dollar has another meaning."""
    return {"$literal": value}


def assignment(values: Document) -> Document:
    """An update that sets fields; one without a value is left out."""
    change: Document = {
        "$set": {field: value for field, value in values.items() if value is not None}
    }
    gone = {field: "" for field, value in values.items() if value is None}
    return change | {"$unset": gone} if gone else change


def of_sequence(ids: Iterable[str]) -> list[Document]:
    """Filters for the first and the last jobs of these sequences."""
    wanted = list(ids)
    return [{"_id": {"$in": wanted}, "sequence_id": {"$exists": False}}, {"tail": {"$in": wanted}}]


def of_members(field: str, id: str) -> Document:
    """A filter for all jobs of a sequence or a root; its first job has no such field."""
    return {"$or": [{"_id": id, field: {"$exists": False}}, {field: id}]}


def new_document(
    job: NewJob, now: datetime, run_at: datetime, *, waiting: int, awaited: bool
) -> Document:
    document = _document(job, JobState.BLOCKED if waiting else JobState.PENDING, run_at, now)
    if "sequence_id" in document:
        document["tail"] = document["sequence_id"]
    if job.blockers:
        document["waiting"] = waiting
    if awaited:
        document["awaited"] = True
    if job.schedule_name is not None:
        document["schedule"] = job.schedule_name
    if job.scheduled_for is not None:
        document["scheduled_for"] = stamp(job.scheduled_for)
    return document


def moved_document(moved: MovedJob, *, is_last: bool) -> Document:
    """A job that comes from another store; `is_last` in its sequence."""
    job = moved.job
    document = _document(job, job.state, job.run_at, job.created_at)
    document["attempts"] = job.attempts
    document["losses"] = job.losses
    document["version"] = job.lease_version
    optional: Document = {
        "output": job.output,
        "started_at": None if job.started_at is None else stamp(job.started_at),
        "finished_at": None if job.finished_at is None else stamp(job.finished_at),
        "last_error": job.last_error,
        "fingerprint": job.fingerprint,
        "worker": job.worker,
        "awaited": job.awaited or None,
        "waiting": moved.waiting if job.blockers else None,
        "history": [_from_attempt(attempt) for attempt in moved.attempts] or None,
        "continued": None if is_last else True,
        "tail": job.sequence_id if is_last and job.position else None,
        "schedule": job.schedule,
        "scheduled_for": None if job.scheduled_for is None else stamp(job.scheduled_for),
    }
    return document | {field: value for field, value in optional.items() if value is not None}


def _document(
    job: NewJob | JobRecord, state: JobState, run_at: datetime, created_at: datetime
) -> Document:
    """The fields that every job has, and those that the request gave it."""
    document: Document = {
        "_id": job.id,
        "type": job.type,
        "queue": job.queue,
        "priority": job.priority,
        "state": str(state),
        "run_at": stamp(run_at),
        "created_at": stamp(created_at),
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
        document["sequence_id"] = job.sequence_id
    if job.sequence_type is not None and job.sequence_type != job.type:
        document["sequence_type"] = job.sequence_type
    if job.root_id is not None and job.root_id != job.id:
        document["root_id"] = job.root_id
    if job.origin_id is not None:
        document["origin_id"] = job.origin_id
    if job.blockers:
        document["blockers"] = list(job.blockers)
    if job.dedup_key is not None:
        document["dedup_key"] = job.dedup_key
    if job.trace is not None:
        document["trace"] = job.trace
    if job.key is not None:
        document["key"] = job.key
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
        schedule=get("schedule"),
        scheduled_for=maybe_moment(get("scheduled_for")),
        key=get("key"),
    )


CLAIMED_FIELDS: Document = dict.fromkeys(
    [name for name in ClaimedJob.__struct_fields__ if name not in ("id", "lease", "has_blockers")]
    + ["token", "version", "until", "blockers"],
    1,
)
"""The fields that `to_claimed` reads."""


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
        schedule=get("schedule"),
        scheduled_for=maybe_moment(get("scheduled_for")),
        key=get("key"),
    )


def _from_attempt(attempt: AttemptRecord) -> Document:
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


def in_parts(
    items: Iterable[T], weigh: Callable[[T], int], *, most: int = MOST, largest: int = LARGEST
) -> Iterator[list[T]]:
    """Items in parts that fit into one command, by the length of the largest field of each."""
    part: list[T] = []
    size = 0
    for item in items:
        weight = weigh(item)
        if part and (size + weight > largest or len(part) == most):
            yield part
            part, size = [], 0
        part.append(item)
        size += weight
    if part:
        yield part


class JobCommands:
    """With `alone` a command may run outside of a transaction. A transaction must not rely on an
    answer from outside: only what it reads itself conflicts with changes of others."""

    def __init__(self, names: CollectionNames) -> None:
        self.names = names

    def find(
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
            "find": collection or self.names.job,
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

    def aggregate(
        self,
        *stages: Document,
        collection: str | None = None,
        hint: str | None = None,
        alone: bool = True,
        after: Any = None,
    ) -> Command:
        body: Document = {
            "aggregate": collection or self.names.job,
            "pipeline": list(stages),
            "cursor": {"batchSize": ENOUGH},
        }
        if hint is not None:
            body["hint"] = hint
        return Command(body, alone=alone, after=after)

    def lookups(
        self,
        now: datetime | None,
        pipelines: Mapping[str, Sequence[Document]],
        *,
        alone: bool = True,
    ) -> Command:
        """Ask for the time, as `now`, and for the answers of several pipelines, in one command."""
        stages: list[Document] = [{"$documents": [{}]}, {"$set": {"now": present(now)}}]
        stages += [
            {"$lookup": {"from": self.names.job, "pipeline": list(pipeline), "as": name}}
            for name, pipeline in pipelines.items()
        ]
        return Command({"aggregate": 1, "pipeline": stages, "cursor": {}}, alone=alone)

    def update(
        self,
        changes: list[Document],
        *,
        collection: str | None = None,
        alone: bool = False,
        no_wait: bool = False,
    ) -> Command:
        return Command(
            {"update": collection or self.names.job, "updates": changes, "ordered": False},
            alone=alone,
            no_wait=no_wait,
        )

    def upsert(self, collection: str, id: str, change: Document) -> Command:
        return Command(
            {"update": collection, "updates": [{"q": {"_id": id}, "u": [change], "upsert": True}]},
            alone=True,
        )

    def last_jobs(
        self, sequence_ids: Iterable[str], fields: Document | None, *, alone: bool = True
    ) -> Operation[dict[str, Document]]:
        """The last job of each sequence that exists; `fields` must name `sequence_id`."""
        wanted = list(sequence_ids)
        if not wanted:
            return {}
        documents: list[Document] = yield self.find(
            {"$or": of_sequence(wanted)}, fields, alone=alone
        )
        return by_sequence(documents)


class MongoPart:
    """The base of the store's parts."""

    def __init__(self, names: CollectionNames) -> None:
        self._names = names
        self._commands = JobCommands(names)


def by_sequence(documents: Iterable[Document]) -> dict[str, Document]:
    """The last of these jobs by sequence."""
    last: dict[str, Document] = {}
    for document in documents:
        sequence_id = sequence_of(document)
        if sequence_id not in last or "sequence_id" in document:
            last[sequence_id] = document
    return last
