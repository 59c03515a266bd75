"""Questions: what is stored, and how it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from headway.domain.errors import InvalidOption
from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.reading import (
    MAX_PAGE,
    JobCount,
    JobFilter,
    Page,
    QueueRecord,
    WorkerRecord,
)
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.sql.dialect import Dialect, maybe_time, to_attempt, to_record, to_worker


class Reading:
    """The verbs that change nothing (except that `current` may lock)."""

    _dialect: Dialect
    _sql: Mapping[str, str]

    @reading
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        known = [id for id in ids if _is_id(id)]
        rows = yield Statement(self._sql["get"], (known,), alone=True)
        found = {record.id: record for record in self._records(rows)}
        return [found.get(id) for id in ids]

    @reading
    def find(
        self, which: JobFilter, *, cursor: str | None = None, limit: int = 50
    ) -> Operation[Page]:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidOption(f"a page holds between 1 and {MAX_PAGE} jobs, not {limit}")
        if cursor is not None and not _is_id(cursor):
            raise InvalidOption(f"{cursor!r} is not a cursor that a page came with")
        rows = yield Statement(
            self._sql["find"],
            (
                cursor,
                [str(state) for state in which.states] or None,
                list(which.types) or None,
                list(which.queues) or None,
                which.sequence_id,
                which.root_id,
                limit + 1,
            ),
            alone=True,
            varied=True,
        )
        jobs = self._records(rows)
        return Page(jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else None)

    @reading
    def counts(self) -> Operation[list[JobCount]]:
        rows = yield Statement(self._sql["counts"], alone=True)
        return [
            JobCount(queue, type, JobState(state), count, self._dialect.time(oldest))
            for queue, type, state, count, oldest in rows
        ]

    @reading
    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        if not _is_id(job_id):
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
    def workers(self) -> Operation[list[WorkerRecord]]:
        rows = yield Statement(self._sql["workers"], alone=True)
        return [to_worker(self._dialect, row) for row in rows]

    @reading
    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False
    ) -> Operation[list[JobRecord | None]]:
        known = [id for id in sequence_ids if _is_id(id)]
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
    def dependents(self, sequence_ids: Sequence[str]) -> Operation[list[JobRecord]]:
        known = [id for id in sequence_ids if _is_id(id)]
        rows = yield Statement(self._sql["dependents"], (known,), alone=True)
        return self._records(rows)

    def _records(self, rows: Iterable[Row]) -> list[JobRecord]:
        return [to_record(self._dialect, row) for row in rows]


def _is_id(text: str) -> bool:
    """Whether this can be an id at all; what cannot is simply not found."""
    try:
        return str(UUID(text)) == text
    except (ValueError, AttributeError, TypeError):
        return False
