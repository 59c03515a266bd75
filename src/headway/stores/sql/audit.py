"""Audit records of operators, and progress reports of handlers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.orders import ProgressReport
from headway.domain.queries import check_page
from headway.domain.validation import is_id
from headway.domain.views import AuditPage, AuditRecord, Progress
from headway.ports.statement import Operation, Statement, reading
from headway.stores.sql.dialect import SqlPart
from headway.stores.sql.find import NEWEST


class SqlAudit(SqlPart):
    def add_audit(self, record: AuditRecord, *, now: datetime | None = None) -> Operation[None]:
        yield Statement(
            self._sql["add_audit"],
            (
                record.id,
                self._dialect.now(now),
                record.actor,
                record.action,
                record.target,
                record.count,
                record.before,
                record.after,
            ),
            alone=True,
        )

    @reading
    def audit_page(self, *, cursor: str | None = None, limit: int = 50) -> Operation[AuditPage]:
        check_page(cursor, limit, "audit records")
        rows = yield Statement(self._sql["audit_page"], (cursor or NEWEST, limit + 1), alone=True)
        records = [
            AuditRecord(
                id=str(id),
                at=self._dialect.time(at),
                actor=actor,
                action=action,
                target=target,
                count=count,
                before=before,
                after=after,
            )
            for id, at, actor, action, target, count, before, after in rows
        ]
        return AuditPage(records[:limit], records[limit - 1].id if len(records) > limit else None)

    def prune_audit(self, older_than: float, *, now: datetime | None = None) -> Operation[int]:
        rows = yield Statement(
            self._sql["prune_audit"], (older_than, self._dialect.now(now)), alone=True
        )
        return len(rows)

    def save_progress(
        self, reports: Sequence[ProgressReport], *, now: datetime | None = None
    ) -> Operation[None]:
        newest = {said.job_id: said for said in reports}
        if newest:
            yield Statement(
                self._sql["save_progress"],
                (self._dialect.now(now),),
                [(said.job_id, said.token, said.fraction, said.note) for said in newest.values()],
                alone=True,
            )

    @reading
    def progress(self, job_ids: Sequence[str]) -> Operation[list[Progress | None]]:
        known = [id for id in job_ids if is_id(id)]
        rows = yield Statement(self._sql["progress"], (known,), alone=True)
        found = {
            str(id): Progress(fraction=fraction, note=note, at=self._dialect.time(at))
            for id, fraction, note, at in rows
        }
        return [found.get(id) for id in job_ids]
