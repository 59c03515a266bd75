"""Builders of jobs, claims and times, and shortcuts for reading, that keep the cases short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import msgspec

from headway.domain.due_time import After
from headway.domain.failure import encode_failure
from headway.domain.job import AttemptRecord, ClaimedJob, JobRecord, JobState, NewJob
from headway.domain.lease import Verdict
from headway.domain.lifecycle import after_expiry
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import JobFilter
from headway.domain.schedules.schedule import (
    ScheduleDefinition,
    ScheduledJob,
    ScheduleRecord,
    ScheduleRun,
)
from headway.domain.schedules.timetable import Every, Timetable
from headway.domain.settlement import (
    Complete,
    Fail,
    Release,
    Reschedule,
    Retry,
    Settled,
    Settlement,
)
from headway.errors import Failure
from headway.ports.store import Capabilities, Inserted, Store
from headway.testing.conformance.case import Cases

StoreCases = Cases[Store, [Capabilities]]

T0 = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
LEASE = 30.0
TYPE = "work"
ERROR = encode_failure(Failure("ValueError", "no such order", "Traceback …"))
OTHER_ERROR = encode_failure(Failure("TimeoutError", "took too long"))

_numbers = count(1)
_first_ms = time.time_ns() // 1_000_000


def has_transactions(capabilities: Capabilities) -> bool:
    return capabilities.transactions


def at(seconds: float) -> datetime:
    """T0 plus these seconds."""
    return T0 + timedelta(seconds=seconds)


def new_id() -> str:
    """A UUID of version 7, higher than all earlier ones."""
    number = next(_numbers)
    return str(UUID(int=(_first_ms + number) << 80 | 7 << 76 | 2 << 62 | number))


def new_token() -> str:
    return str(uuid4())


def new_queue() -> str:
    """A queue without jobs."""
    return f"queue-{next(_numbers)}"


def new_job(**fields: Any) -> NewJob:
    """A job with these fields, and defaults for all others."""
    given: dict[str, Any] = {"id": new_id(), "type": TYPE, "input": "[]"}
    return NewJob(**given | fields)


def successor_of(job: ClaimedJob | JobRecord, **fields: Any) -> NewJob:
    """A job that continues the sequence of `job`."""
    inherited = {
        "sequence_id": job.sequence_id,
        "sequence_type": job.sequence_type,
        "root_id": job.root_id,
        "origin_id": job.id,
        "position": job.position + 1,
    }
    return new_job(**inherited | fields)


async def insert(store: Store, *jobs: NewJob, now: datetime = T0) -> list[Inserted]:
    return await store.run(store.insert, jobs, now=now)


async def add(store: Store, *, now: datetime = T0, **fields: Any) -> str:
    """Insert one job; its id."""
    (inserted,) = await insert(store, new_job(**fields), now=now)
    return inserted.id


def order(
    *queues: str | QueueShare,
    limit: int = 1,
    types: Iterable[str] = (TYPE,),
    token: str | None = None,
    lease_for: float = LEASE,
    worker: str = "worker-1",
    most_losses: int | None = None,
    again: bool = False,
) -> ClaimOrder:
    """A claim's order; a queue given by name has no limit of its own."""
    shares = (
        queue if isinstance(queue, QueueShare) else QueueShare(queue, limit)
        for queue in queues or ("default",)
    )
    return ClaimOrder(
        worker=worker,
        token=token or new_token(),
        lease_for=lease_for,
        queues=tuple(shares),
        types=tuple(types),
        limit=limit,
        most_losses=most_losses,
        again=again,
    )


async def claim(
    store: Store, *queues: str | QueueShare, now: datetime = T0, limit: int = 100, **fields: Any
) -> list[ClaimedJob]:
    return await store.run(store.claim, order(*queues, limit=limit, **fields), now=now)


async def claim_one(
    store: Store, *queues: str | QueueShare, now: datetime = T0, **fields: Any
) -> ClaimedJob:
    (job,) = await claim(store, *queues, now=now, limit=1, **fields)
    return job


async def running(
    store: Store, *, now: datetime = T0, lease_for: float = LEASE, **fields: Any
) -> ClaimedJob:
    """A claimed job, in a queue of its own unless one is given."""
    job = new_job(**{"queue": new_queue()} | fields)
    await insert(store, job, now=now)
    claimed = await claim_one(store, job.queue, now=now, types=(job.type,), lease_for=lease_for)
    assert claimed.id == job.id
    return claimed


async def running_scheduled(
    store: Store, schedule: str, tick: datetime, **fields: Any
) -> ClaimedJob:
    """A claimed job that a schedule started, in a queue of its own."""
    job = new_job(queue=new_queue(), schedule_name=schedule, scheduled_for=tick, **fields)
    await store.run(store.insert_scheduled, [job], now=T0)
    return await claim_one(store, job.queue, types=(job.type,))


async def settle(store: Store, *settlements: Settlement, now: datetime | None = None) -> Settled:
    """Settle, by default one second after T0."""
    return await store.run(store.settle, settlements, now=now or at(1))


async def apply(store: Store, *settlements: Settlement, now: datetime | None = None) -> Settled:
    """Settle, and insist that every settlement is applied."""
    settled = await settle(store, *settlements, now=now)
    assert settled.verdicts == [Verdict.APPLIED] * len(settlements), settled
    return settled


async def complete(
    store: Store,
    job: ClaimedJob,
    output: str | None = '"done"',
    successor: NewJob | None = None,
    *,
    now: datetime | None = None,
) -> Settled:
    return await apply(store, Complete(job.id, job.lease.token, output, successor), now=now)


async def in_state(store: Store, state: JobState, **fields: Any) -> str:
    """A job in this state at T0 + 1 s; its id."""
    match state:
        case JobState.PENDING:
            return await add(store, queue=new_queue(), **fields)
        case JobState.BLOCKED:
            blocker = await add(store, queue=new_queue())
            return await add(store, queue=new_queue(), blockers=(blocker,), **fields)
        case JobState.RUNNING:
            return (await running(store, **fields)).id
        case JobState.COMPLETED:
            job = await running(store, **fields)
            await complete(store, job)
            return job.id
        case JobState.FAILED:
            job = await running(store, **fields)
            await apply(store, Fail(job.id, job.lease.token, ERROR))
            return job.id
        case JobState.CANCELLED:
            job = await running(store, **fields)
            await store.run(store.cancel, [job.id], now=at(1))
            return job.id


async def reap(store: Store, *, now: datetime, limit: int = 100) -> Settled:
    """Settle the jobs whose leases have expired, as a worker's reaper does."""
    late = await store.run(store.expired, limit, now=now)
    return await settle(store, *[after_expiry(job) for job in late], now=now)


async def read(store: Store, job_id: str) -> JobRecord:
    (job,) = await store.run(store.get, [job_id])
    assert job is not None, f"job {job_id} is not there"
    return job


async def state_of(store: Store, job_id: str) -> JobState:
    return (await read(store, job_id)).state


async def last_of(store: Store, sequence_id: str) -> JobRecord:
    """The last job of a sequence."""
    (job,) = await store.run(store.current, [sequence_id])
    assert job is not None, f"sequence {sequence_id} is not there"
    return job


async def attempts_of(store: Store, job_id: str) -> list[AttemptRecord]:
    return await store.run(store.attempts, job_id)


def definition(timetable: Timetable | None = None, **fields: Any) -> ScheduleDefinition:
    """What a schedule does: by default a job at each full hour. Fields of the job are given as
    those of the schedule are."""
    job: dict[str, Any] = {
        "type": TYPE,
        "input": "[]",
        "queue": "default",
        "priority": 0,
        "max_attempts": 20,
        "max_losses": 5,
        "timeout": None,
        "key": None,
    }
    job |= {name: fields.pop(name) for name in list(fields) if name in job}
    return ScheduleDefinition(
        timetable=timetable or Every(hours=1), job=ScheduledJob(**job), **fields
    )


def schedule(name: str = "nightly", **fields: Any) -> ScheduleRecord:
    """A schedule that is due at T0, with these fields."""
    given: dict[str, Any] = {
        "definition": definition(),
        "declaration": None,
        "next_at": T0,
        "created_at": at(-9),
        "changed_at": at(-8),
    }
    return ScheduleRecord(name=name, **given | fields)


async def put(store: Store, *schedules: ScheduleRecord) -> None:
    await store.run(store.put_schedules, schedules)


async def runs_of(store: Store, name: str) -> list[ScheduleRun]:
    (runs,) = await store.run(store.schedule_runs, [name])
    return runs


async def schedule_of(store: Store, name: str = "nightly") -> ScheduleRecord:
    (found,) = await store.run(store.schedules, [name])
    assert found is not None, f"schedule {name} is not there"
    return found


async def everything(store: Store) -> list[JobRecord]:
    """All jobs, newest first."""
    jobs: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = await store.run(store.find, JobFilter(), cursor=cursor, limit=500)
        jobs += page.jobs
        cursor = page.cursor
        if cursor is None:
            return jobs


async def snapshot(store: Store) -> bytes:
    """All jobs and their history, byte for byte."""
    jobs = await everything(store)
    history = [await attempts_of(store, job.id) for job in jobs]
    return msgspec.json.encode((jobs, history))


def _continuation(job_id: str, token: str) -> Complete:
    following = new_job(
        sequence_id=job_id, sequence_type=TYPE, root_id=job_id, origin_id=job_id, position=1
    )
    return Complete(job_id, token, '"on"', following)


SETTLEMENTS: dict[str, Callable[[str, str], Settlement]] = {
    "complete": lambda job_id, token: Complete(job_id, token, '"done"'),
    "continue": _continuation,
    "retry": lambda job_id, token: Retry(job_id, token, 5.0, OTHER_ERROR),
    "fail": lambda job_id, token: Fail(job_id, token, OTHER_ERROR),
    "release": Release,
    "reschedule": lambda job_id, token: Reschedule(job_id, token, After(seconds=60)),
}
"""Every settlement by the holder of a job, made from its id and a token."""
