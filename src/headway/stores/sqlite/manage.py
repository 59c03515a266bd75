"""prune, delete_jobs and delete_ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.orders import PruneRule
from headway.ports.statement import Operation, Statement
from headway.stores.sql.manage import SqlManage


class SqliteManage(SqlManage):
    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        rows = yield Statement(self._sql["prunable"], self._prunable(rule, limit, now))
        return len((yield from self._delete("delete_sequences", [row[0] for row in rows])))

    def delete_jobs(self, ids: Sequence[str]) -> Operation[list[str]]:
        return (yield from self._delete("delete_jobs", ids))

    def delete_ended(self, ids: Sequence[str]) -> Operation[list[str]]:
        rows = yield Statement(self._sql["deletable"], (list(ids),))
        return (yield from self._delete("delete_sequences", [row[0] for row in rows]))

    def _delete(self, statement: str, ids: Sequence[str]) -> Operation[list[str]]:
        if not ids:
            return []
        rows = yield Statement(self._sql[statement], (list(ids),))
        gone: list[str] = [row[0] for row in rows]
        yield Statement(self._sql["delete_attempts"], (gone,))
        yield Statement(self._sql["delete_blockers"], (gone,))
        yield Statement(self._sql["delete_progress"], (gone,))
        return gone
