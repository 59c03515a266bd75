"""settle with row locks, and completions with their successors in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.ports.statement import Operation, Statement
from headway.stores.sql.columns import own_values
from headway.stores.sql.settle import SqlSettle, SuccessorPairs


class PostgresSettle(SqlSettle):
    def _lock_jobs(self, ids: Sequence[str]) -> Operation[None]:
        yield Statement(self._sql["lock_jobs"], (list(ids),))

    def _complete_continued(
        self, kind: tuple[Any, ...], completions: SuccessorPairs, present: Any, *, alone: bool
    ) -> Operation[set[str]]:
        rows = yield Statement(
            self._sql["complete_continued"],
            (present, *kind),
            [
                (done.job_id, done.token, done.output, *own_values(successor))
                for done, successor in sorted(completions, key=lambda pair: pair[0].job_id)
            ],
            alone=alone,
        )
        return {str(row[0]) for row in rows}
