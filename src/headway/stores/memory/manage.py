"""Actions of operators and of maintenance: cancel, retry, trigger, pause, prune, delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from headway.domain.job import TERMINAL, JobState
from headway.domain.lease import Verdict
from headway.domain.lifecycle import ALLOWED
from headway.domain.orders import PruneRule
from headway.domain.views import JobAction
from headway.ports.statement import Operation
from headway.stores.memory.row import JobRow
from headway.stores.memory.table import JobTable, moment


class MemoryManage(JobTable):
    def cancel(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        yield from ()
        now = moment(now)
        return [self._cancel_one(job_id, now) for job_id in ids]

    def _cancel_one(self, job_id: str, now: datetime) -> Verdict:
        row = self._lock(job_id)
        if row is None:
            return Verdict.NOT_FOUND
        if row.state is JobState.CANCELLED:
            return Verdict.ALREADY
        if row.state not in ALLOWED[JobAction.CANCEL]:
            return Verdict.WRONG_STATE
        row.state = JobState.CANCELLED
        row.finished_at = now
        row.token = row.until = None
        self._index(row)
        return Verdict.APPLIED

    def retry(
        self, ids: Sequence[str], *, input: str | None = None, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        yield from ()
        now = moment(now)
        return [self._retry_one(job_id, input, now) for job_id in ids]

    def _retry_one(self, job_id: str, input: str | None, now: datetime) -> Verdict:
        row = self._lock(job_id)
        if row is None:
            return Verdict.NOT_FOUND
        if row.state not in ALLOWED[JobAction.RETRY]:
            return Verdict.WRONG_STATE
        row.state = JobState.BLOCKED if row.unmet else JobState.PENDING
        row.run_at = now
        row.finished_at = row.fingerprint = None
        row.attempts = row.losses = 0
        if input is not None:
            row.input = input
        self._index(row)
        return Verdict.APPLIED

    def trigger(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        yield from ()
        now = moment(now)
        return [self._trigger_one(job_id, now) for job_id in ids]

    def _trigger_one(self, job_id: str, now: datetime) -> Verdict:
        row = self._lock(job_id)
        if row is None:
            return Verdict.NOT_FOUND
        if row.state not in ALLOWED[JobAction.TRIGGER]:
            return Verdict.WRONG_STATE
        row.run_at = min(row.run_at, now)  # a job that is due already keeps its place
        self._index(row)
        return Verdict.APPLIED

    def pause(self, queue: str, paused: bool, *, now: datetime | None = None) -> Operation[None]:
        yield from ()
        if not paused:
            self._set(self._paused, queue, None)
        elif self._paused.get(queue) is None:
            self._set(self._paused, queue, moment(now))

    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        yield from ()
        before = moment(now) - timedelta(seconds=rule.older_than)
        prunable = [
            (row.finished_at, row.id, row)
            for row in self._rows.values()
            if row.finished_at is not None
            and row.finished_at < before
            and (row.owner is None or row.owner is self._tx)
            and self._is_prunable(row, rule)
        ]
        prunable.sort()
        return sum(len(self._delete_sequence(last)) for _, _, last in prunable[: max(limit, 0)])

    def delete_ended(self, ids: Sequence[str]) -> Operation[list[str]]:
        yield from ()
        gone: list[str] = []
        for job_id in ids:
            row = self._read(job_id)
            last = None if row is None else self._lock_last((row.first or row).id)
            if last is not None and last.state in TERMINAL and self._is_free(last):
                gone += self._delete_sequence(last)
        return gone

    def _delete_sequence(self, last: JobRow) -> list[str]:
        """Delete a sequence, given its last job; the ids of the deleted jobs."""
        gone: list[str] = []
        row: JobRow | None = last.first or last
        while row is not None:
            following = row.successor
            if self._lock(row.id) is not None:
                self._delete_row(row)
                gone.append(row.id)
            row = following
        return gone

    def _is_free(self, last: JobRow) -> bool:
        """Whether every job that has the sequence as blocker has completed."""
        waiters = self._waiters(last.first or last)
        return all(waiter.state is JobState.COMPLETED for waiter in waiters)

    def _is_prunable(self, row: JobRow, rule: PruneRule) -> bool:
        spec = row.spec
        began_with = (row.first or row).spec.type
        return (
            row.state is rule.state
            and row.successor is None
            and not row.deleted
            and (rule.types is None or began_with in rule.types)
            and (rule.queues is None or spec.queue in rule.queues)
            and began_with not in rule.except_types
            and spec.queue not in rule.except_queues
            and self._is_free(row)
        )

    def _waiters(self, first: JobRow) -> Iterator[JobRow]:
        """The jobs that have a sequence as blocker; for uncommitted changes of them both the row
        before and the row after the change."""
        for waiter in first.waiters or ():
            yield waiter
            if waiter.owner is not None:
                image = waiter.owner.journal.images[waiter]
                if image is not None:
                    yield image

    def delete_jobs(self, ids: Sequence[str]) -> Operation[list[str]]:
        yield from ()
        gone: list[str] = []
        for job_id in dict.fromkeys(ids):
            row = self._lock(job_id)
            if row is not None:
                self._delete_row(row)
                gone.append(job_id)
        return gone

    def _delete_row(self, row: JobRow) -> None:
        """Delete a row that is locked."""
        row.deleted = True
        if self._journal is None:
            self._erase(row)
