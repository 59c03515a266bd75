"""Jobs by id or by sequence, their attempts and outputs; queues."""

from __future__ import annotations

from collections.abc import Sequence

from headway.domain.job import AttemptRecord, JobRecord
from headway.domain.queries import QueueRecord
from headway.domain.validation import is_id
from headway.ports.statement import Operation, Statement, reading
from headway.stores.sql.dialect import SqlPart, maybe_time, to_attempt


class SqlRead(SqlPart):
    @reading
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        known = [id for id in ids if is_id(id)]
        rows = yield Statement(self._sql["get"], (known,), alone=True)
        found = {record.id: record for record in self._records(rows)}
        return [found.get(id) for id in ids]

    @reading
    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        if not is_id(job_id):
            return []
        rows = yield Statement(self._sql["attempts"], (job_id,), alone=True)
        return [to_attempt(self._dialect, row) for row in rows]

    @reading
    def queues(self) -> Operation[list[QueueRecord]]:
        rows = yield Statement(self._sql["queues"], alone=True)
        return [QueueRecord(row[0], maybe_time(self._dialect, row[1])) for row in rows]

    @reading
    def managed_queues(self) -> Operation[list[QueueRecord]]:
        rows = yield Statement(self._sql["managed_queues"], alone=True)
        return [QueueRecord(row[0], maybe_time(self._dialect, row[1])) for row in rows]

    @reading
    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False, wait: bool = True
    ) -> Operation[list[JobRecord | None]]:
        known = [id for id in sequence_ids if is_id(id)]
        locked = "current_locked" if wait else "current_free"
        statement = self._sql[locked if lock else "current"]
        while True:
            rows = yield Statement(statement, (known,), alone=not lock)
            found = {record.sequence_id: record for record in self._records(rows)}
            if not lock:
                break
            # While we waited for the lock, the job may have been continued: look again.
            rows = yield Statement(self._sql["current"], (known,))
            latest = {record.sequence_id: record.id for record in self._records(rows)}
            if all(latest.get(id) == record.id for id, record in found.items()) and (
                not wait or len(latest) == len(found)
            ):
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
