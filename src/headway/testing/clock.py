"""A clock that stands still until it is moved."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class ManualClock:
    """Gives stores the same time until `advance` moves it; safe to use from any thread."""

    def __init__(self, start: datetime | None = None) -> None:
        start = datetime(2030, 1, 1, tzinfo=UTC) if start is None else start
        if start.tzinfo is None:
            raise ValueError("a clock needs a time zone; use datetime(..., tzinfo=UTC)")
        self._start = start.astimezone(UTC)
        self._passed = timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            return self._start + self._passed

    def monotonic(self) -> float:
        with self._lock:
            return self._passed.total_seconds()

    def advance(self, seconds: float = 0, *, by: timedelta | None = None) -> datetime:
        """Move forward by seconds, or `by` a timedelta; the new time."""
        step = timedelta(seconds=seconds) + (by or timedelta())
        if step < timedelta():
            raise ValueError("time goes forward only")
        with self._lock:
            self._passed += step
            return self._start + self._passed
