"""How far back this process looks for expired leases.

Every job that ran leaves dead entries in the index of leases until vacuum removes them. While a
long transaction holds back vacuum they pile up, and a search for expired leases reads all of them:
at 30,000 jobs a second it takes a second after two minutes. So after a slow search the next ones
look only for leases that have expired since, and a full search comes now and then, for leases that
were locked or committed late.
"""

from __future__ import annotations

import time

EVERYTHING = 1e9
"""Seconds."""
SLOW = 0.05
"""Seconds: a full search that takes longer is slow."""
SLACK = 5.0
"""Seconds by which a search overlaps the last one, for late commits."""


class ReapBounds:
    """A lost update costs a full search."""

    def __init__(self) -> None:
        self._look_at_all_at = 0.0
        self._looked_at = 0.0

    def window(self) -> float:
        """Seconds: leases that expired longer ago need not be looked for."""
        now = time.monotonic()
        return EVERYTHING if now >= self._look_at_all_at else now - self._looked_at + SLACK

    def looked(self, window: float, began: float, *, found_all: bool) -> None:
        """A search that looked `window` seconds back has ended."""
        seconds = time.monotonic() - began
        if window == EVERYTHING:
            self._look_at_all_at = began + 20 * seconds if seconds > SLOW else 0.0
        if found_all:
            self._looked_at = began
