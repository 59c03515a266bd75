"""prune, delete_jobs and delete_ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.domain.orders import PruneRule
from headway.ports.statement import Operation, Statement
from headway.stores.postgres.prune_bounds import EVERYTHING, PruneBounds
from headway.stores.sql.manage import SqlManage


class PostgresManage(SqlManage):
    _prune_bounds: PruneBounds

    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        started = time.monotonic()
        # A given `now` may lie before what was pruned already: trust no bound.
        bound = self._prune_bounds.bound(rule) if now is None else EVERYTHING
        ended = yield Statement(
            self._sql["prunable"], (*self._prunable(rule, limit, now), bound), varied=True
        )
        gone = yield from self._delete_sequences([(row[0], row[1]) for row in ended])
        self._prune_bounds.advance(
            rule, ended[-1][2] if ended else None, time.monotonic() - started
        )
        if gone:
            yield Statement(self._sql["delete_keys"])
        return len(gone)

    def delete_jobs(self, ids: Sequence[str]) -> Operation[list[str]]:
        rows = yield Statement(self._sql["delete_jobs"], (list(ids),), alone=True)
        return [str(row[0]) for row in rows]

    def delete_ended(self, ids: Sequence[str]) -> Operation[list[str]]:
        ended = yield Statement(self._sql["deletable"], (list(ids),))
        return (yield from self._delete_sequences(ended))

    def _delete_sequences(self, ended: Sequence[tuple[Any, Any]]) -> Operation[list[str]]:
        """Delete sequences whose last jobs are locked, by the ids of both, unless somebody waits
        for them."""
        if not ended:
            return []
        rows = yield Statement(self._sql["delete_sequences"], rows=ended)
        return [str(row[0]) for row in rows]
