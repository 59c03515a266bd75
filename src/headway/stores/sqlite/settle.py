"""settle: completions with their successors, in two statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.domain.job import NewJob
from headway.domain.settlement import Complete
from headway.ports.statement import Operation, Row, Statement
from headway.stores.sql.settle import SqlSettle


class SqliteSettle(SqlSettle):
    def _complete_continued(
        self,
        kind: tuple[Any, ...],
        completions: Sequence[tuple[Complete, NewJob]],
        present: Any,
        applied: set[str],
        *,
        alone: bool,
    ) -> Operation[None]:
        rows: Sequence[Row] = yield Statement(
            self._sql["complete_awaited"],
            (present,),
            [(done.job_id, done.token, done.output) for done, _ in completions],
        )
        awaited: dict[str, bool] = {row[0]: bool(row[2]) for row in rows}
        applied.update(awaited)
        if awaited:
            yield Statement(
                self._sql["insert_following"],
                (present, *kind),
                [
                    (*self._rows.own_part(successor), awaited[done.job_id])
                    for done, successor in completions
                    if done.job_id in awaited
                ],
            )
