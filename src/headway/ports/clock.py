"""Time, as the engine sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Two times: the one handed to stores, and one that only ever goes forward.

    Safe to call from any thread.
    """

    def now(self) -> datetime | None:
        """What store operations are given as `now`; None (production) is the store's own clock."""
        ...

    def monotonic(self) -> float:
        """Seconds from some fixed moment; used for deadlines and durations."""
        ...
