"""The base class of a SQL store's parts, and what differs between databases: values in rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.lease import Lease
from headway.ports.statement import Row


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
    """A row of the `record` columns to a JobRecord."""
    lease = None
    if row[17] is not None:
        lease = Lease(str(row[17]), row[19], dialect.time(row[18]))
    return JobRecord(
        id=str(row[0]),
        type=row[1],
        queue=row[2],
        priority=row[3],
        state=JobState(row[4]),
        input=row[5],
        output=row[6],
        run_at=dialect.time(row[7]),
        created_at=dialect.time(row[8]),
        started_at=maybe_time(dialect, row[9]),
        finished_at=maybe_time(dialect, row[10]),
        attempts=row[11],
        losses=row[12],
        max_attempts=row[13],
        max_losses=row[14],
        timeout=row[15],
        last_error=row[16],
        lease=lease,
        lease_version=row[19],
        worker=row[20],
        sequence_id=str(row[21]),
        sequence_type=row[22],
        root_id=str(row[23]),
        origin_id=maybe_id(row[24]),
        position=row[25],
        awaited=bool(row[26]),
        blockers=() if row[27] is None else dialect.ids(row[27]),
        dedup_key=row[28],
        trace=row[29],
        fingerprint=row[30] or None,
    )


def to_attempt(dialect: Dialect, row: Row) -> AttemptRecord:
    return AttemptRecord(
        job_id=str(row[0]),
        version=row[1],
        outcome=row[2],
        worker=row[3],
        started_at=maybe_time(dialect, row[4]),
        finished_at=dialect.time(row[5]),
        error=row[6],
    )
