"""A rate limit: so many per second, and up to one second's worth at once."""

from __future__ import annotations

from time import monotonic


class RateLimit:
    """A steady stream is sampled evenly. Two threads may take one too many."""

    __slots__ = ("_left", "_rate", "_since")

    def __init__(self, per_second: float | None) -> None:
        self._rate = per_second
        """None: no limit."""
        self._left = per_second or 0.0
        self._since = monotonic()

    def take(self) -> bool:
        rate = self._rate
        if rate is None:
            return True
        now = monotonic()
        left = self._left + (now - self._since) * rate
        self._since = now
        left = min(left, rate)
        if left < 1.0:
            self._left = left
            return False
        self._left = left - 1.0
        return True
