"""A job as the memory store keeps it: the request, and the fields that change.

All fields of a job are listed here, and nowhere else in the memory store.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from headway.domain.job import AttemptRecord, ClaimedJob, JobRecord, JobState, NewJob
from headway.domain.lease import Lease
from headway.domain.views import Progress

if TYPE_CHECKING:
    from headway.stores.memory.pending_jobs import Entry
    from headway.stores.memory.transaction import MemoryTransaction


class JobRow(msgspec.Struct, eq=False):
    """One job. A `JobRecord` is made of it only when it is read."""

    # The job as it was inserted.
    id: str
    spec: NewJob
    created_at: datetime

    # Its content, which a journal saves and restores.
    state: JobState
    input: str
    run_at: datetime
    output: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: int = 0
    losses: int = 0
    last_error: str | None = None
    fingerprint: str | None = None
    token: str | None = None
    until: datetime | None = None
    """Expiry of the lease; like `token` None unless the job is running."""
    version: int = 0
    worker: str | None = None
    awaited: bool = False
    unmet: int = 0
    """Number of its blockers that have not completed, in every state of the job."""
    history: tuple[AttemptRecord, ...] = ()
    blockers: tuple[str, ...] = ()
    successor: JobRow | None = None
    last: JobRow | None = None
    """In a sequence's first job: the last one; None while that is the first itself."""
    deleted: bool = False
    """Until the transaction that deleted the row commits and erases it."""

    # Its links to other objects, which are not part of its content.
    first: JobRow | None = None
    """The sequence's first job; None if that is the job itself."""
    waiters: dict[JobRow, None] | None = None
    """In a sequence's first job: the jobs that have the sequence as blocker."""
    entry: Entry | None = None
    """Its valid entry among the pending jobs, while it is pending."""
    owner: MemoryTransaction | None = None
    """The open transaction that has changed it."""
    progress: Progress | None = None
    """The last report of its holder, which does not wait for the owner."""


CONTENT = tuple(JobRow.__struct_fields__[3 : JobRow.__struct_fields__.index("first")])


def restore(row: JobRow, image: JobRow) -> None:
    """Give the row the content that it had when `image` was saved."""
    for name in CONTENT:
        setattr(row, name, getattr(image, name))


def to_record(row: JobRow) -> JobRecord:
    spec = row.spec
    first = row.first or row
    return JobRecord(
        id=row.id,
        type=spec.type,
        queue=spec.queue,
        priority=spec.priority,
        state=row.state,
        input=row.input,
        output=row.output,
        run_at=row.run_at,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        attempts=row.attempts,
        losses=row.losses,
        max_attempts=spec.max_attempts,
        max_losses=spec.max_losses,
        timeout=spec.timeout,
        last_error=row.last_error,
        lease=(
            Lease(row.token, row.version, row.until)
            if row.token is not None and row.until is not None
            else None
        ),
        lease_version=row.version,
        worker=row.worker,
        sequence_id=first.id,
        sequence_type=first.spec.sequence_type or first.spec.type,
        root_id=_root_id(row),
        origin_id=spec.origin_id,
        position=spec.position,
        awaited=row.awaited,
        blockers=row.blockers,
        dedup_key=spec.dedup_key,
        trace=spec.trace,
        fingerprint=row.fingerprint,
        schedule=spec.schedule_name,
        scheduled_for=spec.scheduled_for,
        key=spec.key,
    )


def to_claimed(row: JobRow, token: str, until: datetime) -> ClaimedJob:
    spec = row.spec
    first = row.first or row
    return ClaimedJob(
        id=row.id,
        type=spec.type,
        queue=spec.queue,
        priority=spec.priority,
        input=row.input,
        run_at=row.run_at,
        created_at=row.created_at,
        attempts=row.attempts,
        losses=row.losses,
        max_attempts=spec.max_attempts,
        max_losses=spec.max_losses,
        timeout=spec.timeout,
        lease=Lease(token, row.version, until),
        sequence_id=first.id,
        sequence_type=first.spec.sequence_type or first.spec.type,
        root_id=_root_id(row),
        origin_id=spec.origin_id,
        position=spec.position,
        has_blockers=bool(row.blockers),
        trace=spec.trace,
        schedule=spec.schedule_name,
        scheduled_for=spec.scheduled_for,
        key=spec.key,
    )


def _root_id(row: JobRow) -> str:
    if row.spec.root_id is not None:
        return row.spec.root_id
    return row.id if row.first is None else _root_id(row.first)
