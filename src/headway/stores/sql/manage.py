"""cancel, retry, trigger, pause. How jobs are deleted differs from store to store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.orders import PruneRule
from headway.ports.statement import Operation, Statement
from headway.stores.sql.dialect import SqlPart


class SqlManage(SqlPart):
    def cancel(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        rows = yield Statement(self._sql["cancel"], (list(ids), self._dialect.now(now)))
        return (yield from self._verdicts(ids, {str(row[0]) for row in rows}, JobState.CANCELLED))

    def retry(
        self, ids: Sequence[str], *, input: str | None = None, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        rows = yield Statement(self._sql["retry"], (list(ids), input, self._dialect.now(now)))
        return (yield from self._verdicts(ids, {str(row[0]) for row in rows}, None))

    def trigger(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        rows = yield Statement(self._sql["trigger"], (list(ids), self._dialect.now(now)))
        return (yield from self._verdicts(ids, {str(row[0]) for row in rows}, None))

    def _prunable(self, rule: PruneRule, limit: int, now: datetime | None) -> tuple[Any, ...]:
        """The parameters of `prunable`."""
        return (
            str(rule.state),
            self._dialect.now(now),
            rule.older_than,
            None if rule.types is None else list(rule.types),
            list(rule.except_types),
            None if rule.queues is None else list(rule.queues),
            list(rule.except_queues),
            limit,
        )

    def _verdicts(
        self, ids: Sequence[str], applied: set[str], already: JobState | None
    ) -> Operation[list[Verdict]]:
        if applied.issuperset(ids):
            return [Verdict.APPLIED] * len(ids)
        rows = yield Statement(self._sql["states"], (list(ids),))
        states = {str(row[0]): row[1] for row in rows}
        return [
            Verdict.APPLIED
            if id in applied
            else Verdict.NOT_FOUND
            if id not in states
            else Verdict.ALREADY
            if states[id] == already
            else Verdict.WRONG_STATE
            for id in ids
        ]

    def pause(self, queue: str, paused: bool, *, now: datetime | None = None) -> Operation[None]:
        yield Statement(self._sql["pause"], (queue, paused, self._dialect.now(now)), alone=True)
