"""The rows of new jobs: their `run_at` is computed here, because SQLite's answer lacks it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headway.domain.due_time import After, At
from headway.domain.job import NewJob
from headway.ports.statement import Row
from headway.stores.sql.insert import JobRows


class SqliteJobRows(JobRows):
    def _insert_answer(self, row: Row, present: Any, job: NewJob) -> tuple[int, datetime]:
        match job.schedule:
            case At(moment):
                due = max(self._dialect.stamp(moment) or present, present)
            case After():
                due = present + round(job.schedule.seconds * 1_000_000)
        return row[0], self._dialect.time(due)
