"""settle: completions with their successors, in two statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.ports.statement import Operation, Row, Statement
from headway.stores.sql.columns import own_values
from headway.stores.sql.settle import SqlSettle, SuccessorPairs


class SqliteSettle(SqlSettle):
    def _complete_continued(
        self, kind: tuple[Any, ...], completions: SuccessorPairs, present: Any, *, alone: bool
    ) -> Operation[set[str]]:
        rows: Sequence[Row] = yield Statement(
            self._sql["complete_awaited"],
            (present,),
            [(done.job_id, done.token, done.output) for done, _ in completions],
        )
        awaited: dict[str, bool] = {row[0]: bool(row[2]) for row in rows}
        if awaited:
            yield Statement(
                self._sql["insert_following"],
                (present, *kind),
                [
                    (awaited[done.job_id], *own_values(successor))
                    for done, successor in completions
                    if done.job_id in awaited
                ],
            )
            successors = {done.job_id: successor for done, successor in completions}
            yield from self._inherit_schedules(rows, successors)
        return set(awaited)
