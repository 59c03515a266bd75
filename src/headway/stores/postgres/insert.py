"""insert with locks on deduplication keys, and with COPY for many jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.domain.job import NewJob
from headway.ports.statement import Operation, Row, Statement
from headway.stores.postgres.bulk_copy import COPY_FROM, CopyStatement
from headway.stores.sql.insert import JobRows, SqlInsert


class PostgresInsert(SqlInsert):
    def _lock_keys(self, keys: Sequence[tuple[str, str]], now: datetime | None) -> Operation[None]:
        yield Statement(self._sql["lock_keys"], (now,), keys)


class PostgresJobRows(JobRows):
    def _insertion(
        self, template: tuple[Any, ...], jobs: Sequence[NewJob], present: Any, *, alone: bool
    ) -> Statement:
        plain = super()._insertion(template, jobs, present, alone=alone)
        at, delay, sequence_id, root_id, *rest = template
        if (
            len(jobs) < COPY_FROM
            or not alone
            or any(each is not None for each in (present, at, sequence_id, root_id))
            or delay
        ):
            return plain
        return CopyStatement(
            *(plain.sql, plain.params, plain.rows, plain.alone),
            into=self._sql["copy"],
            jobs=jobs,
            rest=tuple(rest),
        )

    def _insert_answer(self, row: Row, present: Any, job: NewJob) -> tuple[int, datetime]:
        return row[0], self._dialect.time(row[1])
