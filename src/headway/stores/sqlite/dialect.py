"""Parameters and rows of SQLite."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from headway.stores.sql.sql_files import load_statements

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class SqliteDialect:
    """Times are microseconds since 1970, lists are JSON; the clock is this machine's."""

    sample_size = 3_000
    """Rows."""

    def __init__(self, prefix: str) -> None:
        self.sql = load_statements("headway.stores.sqlite", prefix)

    def now(self, now: datetime | None) -> int:
        return time.time_ns() // 1_000 if now is None else (now - _EPOCH) // _MICROSECOND

    def stamp(self, moment: datetime | None) -> int | None:
        return None if moment is None else (moment - _EPOCH) // _MICROSECOND

    def time(self, value: int) -> datetime:
        return _EPOCH + timedelta(microseconds=value)

    def ids(self, value: str) -> tuple[str, ...]:
        return tuple(json.loads(value))
