"""No answer is waited for longer than a lease allows.

A network may swallow everything without a word, a write may wait for somebody's open transaction,
and an election takes its time; pymongo gives up after the time that an operation is given here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LONGEST = 60.0
"""Seconds for what no lease depends on, and what may rightly take long; a transaction lives no
longer, either."""
SHORTEST = 1.0

_HURRIED = frozenset({"claim", "extend", "expired", "save_worker", "get", "blocker_outputs"})


class Limits:
    def __init__(self) -> None:
        self._lease = LONGEST

    def of(self, operation: Callable[..., Any], args: tuple[Any, ...]) -> float | None:
        """Seconds that one try may take; None: as long as the client lets it. The shortest lease
        that was asked for counts: a sixth of it leaves room for further tries before it runs out.
        """
        name = operation.__name__
        if name == "claim":
            self._lease = min(self._lease, args[0].lease_for)
        if name in _HURRIED:
            return max(self._lease / 6, SHORTEST)
        if name == "settle":
            return max(self._lease / 2, 5 * SHORTEST)
        return None
