"""Parameters and rows of PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime

from headway.stores.sql.sql_files import load_statements


class PostgresDialect:
    """Times are datetimes, lists are arrays; None as `now` is the server's clock."""

    sample_size = 400
    """Pages."""

    def __init__(self, schema: str) -> None:
        self.sql = load_statements("headway.stores.postgres", f'"{schema}".')

    def now(self, now: datetime | None) -> datetime | None:
        return now

    def stamp(self, moment: datetime | None) -> datetime | None:
        return moment

    def time(self, value: datetime) -> datetime:
        return value.astimezone(UTC)

    def ids(self, value: list[str]) -> tuple[str, ...]:
        return tuple(value)
