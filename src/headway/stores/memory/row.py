"""A job as the memory store keeps it: the request as it came, and what changes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from headway.domain.job import AttemptRecord, JobRecord, JobState, NewJob
from headway.domain.lease import Lease
from headway.domain.views import Progress

if TYPE_CHECKING:
    from headway.stores.memory.pending import Entry
    from headway.stores.memory.transaction import MemoryTransaction


class Row(msgspec.Struct, eq=False):
    """One job. `JobRecord`s are made of it only when someone asks to read."""

    # What stays as it was inserted.
    id: str
    spec: NewJob
    created_at: datetime

    # What changes; a journal keeps and restores exactly this.
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
    """Of the lease, like `token`; both None unless the job is running."""
    version: int = 0
    worker: str | None = None
    awaited: bool = False
    unmet: int = 0
    """How many of its blockers have not completed, whatever state it is in itself."""
    history: tuple[AttemptRecord, ...] = ()
    blockers: tuple[str, ...] = ()
    successor: Row | None = None
    last: Row | None = None
    """The sequence's last job, in its first one; None while that is the first itself."""
    dead: bool = False
    """Deleted; the row goes for good when the transaction that deleted it commits."""

    # Where it stands; not part of its content.
    first: Row | None = None
    """The sequence's first job; None if that is the job itself."""
    waiters: dict[Row, None] | None = None
    """In a sequence's first job: the jobs that were given the sequence as blocker."""
    entry: Entry | None = None
    """The place in its lane, while it is pending; any other entry for it there is void."""
    owner: MemoryTransaction | None = None
    """The open transaction that has changed it."""
    progress: Progress | None = None
    """What its holder last said; no transaction keeps it from saying so."""


CONTENT = tuple(Row.__struct_fields__[3 : Row.__struct_fields__.index("first")])


def restore(row: Row, image: Row) -> None:
    """Make the row's content what it was when `image` was taken."""
    for name in CONTENT:
        setattr(row, name, getattr(image, name))


def record(row: Row) -> JobRecord:
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
        root_id=root_id(row),
        origin_id=spec.origin_id,
        position=spec.position,
        awaited=row.awaited,
        blockers=row.blockers,
        dedup_key=spec.dedup_key,
        trace=spec.trace,
        fingerprint=row.fingerprint,
    )


def root_id(row: Row) -> str:
    if row.spec.root_id is not None:
        return row.spec.root_id
    return row.id if row.first is None else root_id(row.first)
