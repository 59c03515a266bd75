"""Questions: what is stored, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.queries import MAX_PAGE, JobCount, QueueRecord, WorkerRecord
from headway.domain.views import AuditPage, Progress
from headway.errors import InvalidOption
from headway.ports.statement import Operation, Statement, reading
from headway.stores.sql.dialect import maybe_time, to_attempt, to_audit, to_worker
from headway.stores.sql.find import NEWEST, is_id
from headway.stores.sql.statistics import Surveying


class Reading(Surveying):
    """The verbs that change nothing (except that `current` may lock)."""

    @reading
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        known = [id for id in ids if is_id(id)]
        rows = yield Statement(self._sql["get"], (known,), alone=True)
        found = {record.id: record for record in self._records(rows)}
        return [found.get(id) for id in ids]

    @reading
    def counts(self) -> Operation[list[JobCount]]:
        rows = yield Statement(self._sql["counts"], alone=True)
        return [
            JobCount(queue, type, JobState(state), count, self._dialect.time(oldest))
            for queue, type, state, count, oldest in rows
        ]

    @reading
    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        if not is_id(job_id):
            return []
        rows = yield Statement(self._sql["attempts"], (job_id,), alone=True)
        return [to_attempt(self._dialect, row) for row in rows]

    @reading
    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        rows = yield Statement(self._sql["expired"], (self._dialect.now(now), limit), alone=True)
        return self._records(rows)

    @reading
    def queues(self) -> Operation[list[QueueRecord]]:
        rows = yield Statement(self._sql["queues"], alone=True)
        return [QueueRecord(row[0], maybe_time(self._dialect, row[1])) for row in rows]

    @reading
    def managed_queues(self) -> Operation[list[QueueRecord]]:
        rows = yield Statement(self._sql["managed_queues"], alone=True)
        return [QueueRecord(row[0], maybe_time(self._dialect, row[1])) for row in rows]

    @reading
    def progress(self, job_ids: Sequence[str]) -> Operation[list[Progress | None]]:
        known = [id for id in job_ids if is_id(id)]
        rows = yield Statement(self._sql["progress"], (known,), alone=True)
        found = {
            str(id): Progress(fraction=fraction, note=note, at=self._dialect.time(at))
            for id, fraction, note, at in rows
        }
        return [found.get(id) for id in job_ids]

    @reading
    def audit_page(self, *, cursor: str | None = None, limit: int = 50) -> Operation[AuditPage]:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidOption(f"a page holds between 1 and {MAX_PAGE} notes, not {limit}")
        if cursor is not None and not is_id(cursor):
            raise InvalidOption(f"{cursor!r} is not a cursor that a page came with")
        rows = yield Statement(self._sql["audit_page"], (cursor or NEWEST, limit + 1), alone=True)
        records = [to_audit(self._dialect, row) for row in rows]
        return AuditPage(records[:limit], records[limit - 1].id if len(records) > limit else None)

    @reading
    def workers(self) -> Operation[list[WorkerRecord]]:
        rows = yield Statement(self._sql["workers"], alone=True)
        return [to_worker(self._dialect, row) for row in rows]

    @reading
    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False
    ) -> Operation[list[JobRecord | None]]:
        known = [id for id in sequence_ids if is_id(id)]
        statement = self._sql["current_locked" if lock else "current"]
        while True:
            rows = yield Statement(statement, (known,), alone=not lock)
            found = {record.sequence_id: record for record in self._records(rows)}
            if not lock:
                break
            # While we waited for the lock, the job may have been continued: look again.
            rows = yield Statement(self._sql["current"], (known,))
            latest = {record.sequence_id: record.id for record in self._records(rows)}
            if latest == {id: record.id for id, record in found.items()}:
                break
        return [found.get(id) for id in sequence_ids]

    @reading
    def blocker_outputs(self, job_ids: Sequence[str]) -> Operation[dict[str, list[str | None]]]:
        rows = yield Statement(self._sql["blocker_outputs"], (list(job_ids),), alone=True)
        outputs: dict[str, list[str | None]] = {id: [] for id in job_ids}
        for job_id, output in rows:
            outputs[str(job_id)].append(output)
        return outputs

    @reading
    def dependents(
        self, sequence_ids: Sequence[str], *, limit: int | None = None
    ) -> Operation[list[JobRecord]]:
        known = [id for id in sequence_ids if is_id(id)]
        rows = yield Statement(self._sql["dependents"], (known, limit), alone=True)
        return self._records(rows)
