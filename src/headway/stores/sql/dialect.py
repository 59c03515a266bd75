"""The base class of a SQL store's parts, and what differs between databases: values in rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from headway.domain.job import AttemptRecord, JobRecord
from headway.ports.statement import Row
from headway.stores.sql.columns import read_record


class Dialect(Protocol):
    sample_size: int
    """Size of a sample of the table: pages on PostgreSQL, rows on SQLite."""

    @property
    def sql(self) -> Mapping[str, str]:
        """The statements by name."""
        ...

    def now(self, now: datetime | None) -> Any:
        """The parameter for the present; None asks for the store's clock."""
        ...

    def stamp(self, moment: datetime | None) -> Any:
        """The parameter for a moment, or for none."""
        ...

    def time(self, value: Any) -> datetime:
        """The value of a time column as a moment in UTC."""
        ...

    def ids(self, value: Any) -> tuple[str, ...]:
        """The value of a list column as ids."""
        ...


class SqlPart:
    """The base class of the parts of a SQL store. The store lists its parts as base classes; parts
    do not inherit from one another."""

    _dialect: Dialect
    _sql: Mapping[str, str]

    def _records(self, rows: Iterable[Row]) -> list[JobRecord]:
        return [to_record(self._dialect, row) for row in rows]


def maybe_time(dialect: Dialect, value: Any) -> datetime | None:
    return None if value is None else dialect.time(value)


def maybe_id(value: Any) -> str | None:
    return None if value is None else str(value)


def to_record(dialect: Dialect, row: Row) -> JobRecord:
    """A row of the `record` columns as a JobRecord."""
    return read_record(row, dialect.time, dialect.ids)


def to_attempt(dialect: Dialect, row: Row) -> AttemptRecord:
    job_id, version, outcome, worker, started_at, finished_at, error = row
    return AttemptRecord(
        job_id=str(job_id),
        version=version,
        outcome=outcome,
        worker=worker,
        started_at=maybe_time(dialect, started_at),
        finished_at=dialect.time(finished_at),
        error=error,
    )
