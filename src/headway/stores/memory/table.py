"""The jobs in memory, their indexes, and the journal that undoes changes to them.

Everything here happens while the store holds its mutex. Verbs check before they change, so a verb
that runs by itself needs no journal; there is one as soon as a transaction is open, an operation
consists of several verbs, or a verb asks for one with `_journaled`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from headway.domain.due_time import due
from headway.domain.job import JobState, NewJob
from headway.domain.lease import Held, Verdict
from headway.domain.lifecycle import judge_lease
from headway.domain.limits.queue_limits import QueueState
from headway.domain.queries import WorkerRecord
from headway.domain.views import AuditRecord
from headway.errors import DuplicateJob, InvalidOption, JobNotFound
from headway.stores.memory.pending_jobs import PendingJobs
from headway.stores.memory.row import JobRow, restore
from headway.stores.memory.transaction import Journal, Locked, MemoryTransaction, Record

T = TypeVar("T")


class JobTable:
    """The base of the memory store's parts."""

    def __init__(self) -> None:
        self._tx: MemoryTransaction | None = None
        """The transaction of the current operation."""
        self._journal: Journal | None = None
        """The changes of the current operation."""
        self._rows: dict[str, JobRow] = {}
        self._running: dict[str, JobRow] = {}
        self._pending = PendingJobs()
        self._keys: dict[tuple[str, str], dict[JobRow, None]] = {}
        """First jobs of sequences by type and deduplication key, oldest first."""
        self._limits: dict[str, Record[QueueState | None]] = {}
        """By queue; `paused_at` is not kept here."""
        # These are no rows: others see a change at once, though a rollback undoes it.
        self._paused: dict[str, datetime | None] = {}
        """When queues were paused; None for queues that were resumed since."""
        self._workers: dict[str, WorkerRecord] = {}
        self._audit: dict[str, AuditRecord] = {}

    @contextmanager
    def _journaled(self) -> Generator[Journal]:
        """Changes made inside are undone if an exception leaves the block."""
        if self._journal is not None:
            yield self._journal
            return
        self._journal = journal = Journal()
        try:
            yield journal
        except BaseException:
            self._journal = None
            self._roll_back(journal)
            raise
        self._journal = None
        if self._tx is not None:
            self._tx.journal.absorb(journal)
        else:
            self._commit(journal)

    def _commit(self, journal: Journal) -> None:
        for release in journal.release:
            release()
        for row in journal.images:
            row.owner = None
            if row.deleted:
                self._erase(row)
            else:
                self._index(row)

    def _roll_back(self, journal: Journal) -> None:
        """Undo the changes in the journal; rows that the current transaction had changed before
        stay its own."""
        for undo in reversed(journal.undo):
            undo()
        earlier = self._tx.journal.images if self._tx is not None else {}
        for row, image in journal.images.items():
            row.owner = self._tx if row in earlier else None
            if image is None:
                self._erase(row)
            else:
                restore(row, image)
                self._index(row)

    def _set(self, records: dict[str, T], key: str, value: T) -> None:
        """Set a record that is not a row."""
        self._journal_record(records, key)
        records[key] = value

    def _unset(self, records: dict[str, T], key: str) -> None:
        self._journal_record(records, key)
        del records[key]

    def _journal_record(self, records: dict[str, T], key: str) -> None:
        if self._journal is None:
            return
        if key in records:
            before = records[key]
            self._journal.undo.append(lambda: records.update({key: before}))
        else:
            self._journal.undo.append(lambda: _discard(records, key))

    def _seen_record(self, record: Record[T]) -> T:
        """The content without uncommitted changes of others."""
        return record.content if record.owner in (None, self._tx) else record.before

    def _lock_record(self, record: Record[T]) -> Record[T]:
        """The record for changing: the current transaction owns it from now on."""
        if record.owner is not None and record.owner is not self._tx:
            raise Locked(record.owner)
        journal = self._journal
        if journal is None:
            return record
        content, owner, before = record.content, record.owner, record.before

        def undo() -> None:
            record.content, record.owner, record.before = content, owner, before

        journal.undo.append(undo)
        if owner is None and self._tx is not None:
            record.owner, record.before = self._tx, content

            def release() -> None:
                record.owner = None

            journal.release.append(release)
        return record

    def _limits_of(self, queue: str) -> QueueState | None:
        record = self._limits.get(queue)
        return None if record is None else self._seen_record(record)

    def _managed(self) -> list[str]:
        """Queues of which anything is kept, by name."""
        limited = (name for name in self._limits if self._limits_of(name) is not None)
        return sorted({*self._paused, *limited})

    def _visible(self) -> Iterator[JobRow]:
        return (seen for row in self._rows.values() if (seen := self._seen(row)) is not None)

    def _seen(self, row: JobRow) -> JobRow | None:
        """The row as the current operation may see it: without uncommitted changes of others."""
        owner = row.owner
        if owner is None or owner is self._tx:
            return None if row.deleted else row
        return owner.journal.images[row]

    def _read(self, job_id: str) -> JobRow | None:
        """The row with this id, for reading only."""
        row = self._rows.get(job_id)
        return None if row is None else self._seen(row)

    def _read_last(self, sequence_id: str) -> JobRow | None:
        """The last job of a sequence, for reading only."""
        first = self._read(sequence_id)
        if first is None or first.first is not None:
            return None
        return first if first.last is None else self._seen(first.last)

    def _lock(self, job_id: str) -> JobRow | None:
        """The row with this id, for changing: the current transaction owns it from now on."""
        row = self._rows.get(job_id)
        if row is None or self._journal is None:
            return row
        if row.owner is not None and row.owner is not self._tx:
            if row.owner.journal.images[row] is None:
                return None
            raise Locked(row.owner)
        if row.deleted:
            return None
        self._journal.save(row)
        row.owner = self._tx
        return row

    def _lock_last(self, sequence_id: str) -> JobRow | None:
        """The last job of a sequence, for changing."""
        last = self._read_last(sequence_id)
        if last is None or self._lock(last.id) is None:
            return None
        # Had an open transaction continued the sequence, it would own the last job we know of.
        return self._rows[last.id]

    def _index(self, row: JobRow) -> None:
        """Bring the indexes of pending and running jobs in line with the row's state."""
        if row.state is JobState.PENDING:
            if row.entry is None or row.entry[1] != row.run_at:
                self._pending.push(row)
        else:
            row.entry = None
        if row.state is JobState.RUNNING:
            self._running[row.id] = row
        else:
            self._running.pop(row.id, None)

    def _add(self, row: JobRow) -> None:
        """Keep a new row; the caller adds it to the pending jobs."""
        spec = row.spec
        self._rows[row.id] = row
        if row.first is None and spec.dedup_key is not None:
            self._keys.setdefault((spec.type, spec.dedup_key), {})[row] = None
        for blocker in row.blockers:
            first = self._rows[blocker]
            if first.waiters is None:
                first.waiters = {}
            first.waiters[row] = None
        if self._journal is not None:
            self._journal.images[row] = None
            row.owner = self._tx

    def _erase(self, row: JobRow) -> None:
        """Leave nothing of a row: it was deleted, or its insertion is undone."""
        spec = row.spec
        row.deleted = True
        row.entry = None
        self._rows.pop(row.id, None)
        self._running.pop(row.id, None)
        if row.first is None and spec.dedup_key is not None:
            key = spec.type, spec.dedup_key
            rows = self._keys.get(key)
            if rows is not None:
                rows.pop(row, None)
                if not rows:
                    del self._keys[key]
        for blocker in row.blockers:
            first = self._rows.get(blocker)
            if first is not None and first.waiters is not None:
                first.waiters.pop(row, None)

    def _insert_job(self, job: NewJob, now: datetime, twins: dict[str, str]) -> None:
        """Insert a job that may have blockers or continue a sequence; journaled. Blockers that were
        deduplicated are replaced by their twins."""
        if job.id in self._rows:
            raise DuplicateJob(job.id)
        first = previous = None
        if continues(job) and job.sequence_id is not None:
            previous = self._lock_last(job.sequence_id)
            first = self._lock(job.sequence_id)
            if first is None or previous is None:
                raise JobNotFound(job.sequence_id)
        row = JobRow(job.id, job, now, JobState.PENDING, job.input, due(job.schedule, now))
        row.first = first
        row.blockers = tuple(twins.get(blocker, blocker) for blocker in job.blockers)
        row.unmet = self._await_blockers(row)
        if row.unmet:
            row.state = JobState.BLOCKED
        self._add(row)
        if first is not None and previous is not None:
            row.awaited = previous.awaited
            previous.successor = first.last = row
        if row.state is JobState.PENDING:
            self._pending.push(row, now)

    def _await_blockers(self, row: JobRow) -> int:
        """Mark the incomplete sequences among a job's blockers as awaited; their number."""
        sequence_id = row.id if row.first is None else row.first.id
        unmet = 0
        for blocker in dict.fromkeys(row.blockers):
            if self._waits_for(blocker, sequence_id):
                raise InvalidOption(
                    f"job {row.id} would wait for itself: its blocker {blocker} is its own "
                    f"sequence or waits for it; leave that blocker out"
                )
            # Owning the blocker's last job keeps others from completing it before we commit.
            last = self._lock_last(blocker)
            if last is None:
                raise JobNotFound(blocker)
            if last.state is not JobState.COMPLETED:
                last.awaited = True
                unmet += 1
        return unmet

    def _waits_for(self, sequence_id: str, goal: str) -> bool:
        """Whether a sequence is `goal` or waits for it, directly or through others."""
        seen: set[str] = set()
        ahead = [sequence_id]
        while ahead:
            waiting = ahead.pop()
            if waiting == goal:
                return True
            if waiting in seen:
                continue
            seen.add(waiting)
            last = self._read_last(waiting)
            if last is not None and last.unmet and last.state is not JobState.COMPLETED:
                ahead += last.blockers
        return False

    def _extend_one(
        self, lease: Held, until: datetime, now: datetime, *, late: bool = False
    ) -> Verdict:
        row = self._rows.get(lease.job_id)
        seen = None if row is None else self._seen(row)
        if row is None or seen is None:
            return Verdict.NOT_FOUND
        verdict = judge_lease(lease.token, seen.state, seen.token, seen.until, now)
        if late and verdict is Verdict.EXPIRED and seen.token == lease.token:
            verdict = Verdict.APPLIED
        if verdict is not Verdict.APPLIED:
            return verdict
        # A transaction that owns the row must not keep its holder from extending this lease and
        # the others of the same call; the transaction goes on with the longer lease, too.
        for place in (seen, row) if seen is not row else (self._lock(row.id) or row,):
            if place.token == lease.token:
                place.until = until
        return verdict


def moment(now: datetime | None) -> datetime:
    """The time of an operation: the given time, or the time of this process."""
    if now is None:
        return datetime.now(UTC)
    return now if now.tzinfo is UTC else now.astimezone(UTC)


def continues(job: NewJob) -> bool:
    """Whether a job continues an existing sequence."""
    return job.sequence_id is not None and job.sequence_id != job.id


def _discard(records: dict[str, T], key: str) -> None:
    records.pop(key, None)
