"""The clock that client and worker use."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The time for stores, and a monotonic time. Thread-safe."""

    def now(self) -> datetime | None:
        """The `now` of store operations; None (production): the store's own clock."""
        ...

    def monotonic(self) -> float:
        """Seconds since a fixed moment, for deadlines and durations."""
        ...
