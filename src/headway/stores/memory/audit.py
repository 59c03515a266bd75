"""Audit records of operators' actions, and progress reports of running jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from headway.domain.lease import Verdict
from headway.domain.lifecycle import judge_lease
from headway.domain.orders import ProgressReport
from headway.domain.queries import check_page
from headway.domain.views import AuditPage, AuditRecord, Progress
from headway.ports.statement import Operation
from headway.stores.memory.table import JobTable, moment


class MemoryAudit(JobTable):
    def save_progress(
        self, reports: Sequence[ProgressReport], *, now: datetime | None = None
    ) -> Operation[None]:
        yield from ()
        now = moment(now)
        for report in reports:
            row = self._rows.get(report.job_id)
            seen = None if row is None else self._seen(row)
            if row is None or seen is None:
                continue
            verdict = judge_lease(report.token, seen.state, seen.token, seen.until, now)
            # Like a renewal, a report does not wait for a transaction that owns the row.
            if verdict is Verdict.APPLIED and (row.progress is None or row.progress.at <= now):
                row.progress = Progress(fraction=report.fraction, note=report.note, at=now)

    def progress(self, job_ids: Sequence[str]) -> Operation[list[Progress | None]]:
        yield from ()
        rows = [self._rows.get(job_id) for job_id in job_ids]
        return [None if row is None or self._seen(row) is None else row.progress for row in rows]

    def add_audit(self, record: AuditRecord, *, now: datetime | None = None) -> Operation[None]:
        yield from ()
        self._set(self._audit, record.id, msgspec.structs.replace(record, at=moment(now)))

    def prune_audit(self, older_than: float, *, now: datetime | None = None) -> Operation[int]:
        yield from ()
        since = moment(now) - timedelta(seconds=older_than)
        gone = [id for id, record in self._audit.items() if record.at < since]
        for id in gone:
            self._unset(self._audit, id)
        return len(gone)

    def audit_page(self, *, cursor: str | None = None, limit: int = 50) -> Operation[AuditPage]:
        yield from ()
        check_page(cursor, limit, "audit records")
        ids = sorted((id for id in self._audit if cursor is None or id < cursor), reverse=True)
        more = ids[limit - 1] if len(ids) > limit else None
        return AuditPage([self._audit[id] for id in ids[:limit]], more)
