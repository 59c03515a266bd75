"""How far back a process looks for leases that have expired.

Every job that ran has left entries in the index of leases, dead until vacuum comes. While some long
transaction holds vacuum back they pile up, and a look for expired leases reads all of them: at
30,000 jobs a second it takes a second after two minutes. So once a look is slow, the next ones are
for what has expired since, and one at everything comes now and then, for what was locked or late.
"""

from __future__ import annotations

import time

EVERYTHING = 1e9
"""Seconds."""
SLOW = 0.05
"""Seconds that a look at everything may take to be the only kind of look."""
SLACK = 5.0
"""Seconds that a look goes back behind the last one: commits take time."""


class Reaped:
    """Used by one process; a lost update costs a look."""

    def __init__(self) -> None:
        self._look_at_all_at = 0.0
        self._looked_at = 0.0

    def window(self) -> float:
        """Leases that expired longer ago than so many seconds need not be looked for."""
        now = time.monotonic()
        return EVERYTHING if now >= self._look_at_all_at else now - self._looked_at + SLACK

    def looked(self, window: float, began: float, *, found_all: bool) -> None:
        """A look that far back is over."""
        seconds = time.monotonic() - began
        if window == EVERYTHING:
            self._look_at_all_at = began + 20 * seconds if seconds > SLOW else 0.0
        if found_all:
            self._looked_at = began
