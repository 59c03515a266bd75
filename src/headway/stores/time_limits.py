"""The time limit of one try of an operation, by the leases that depend on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.domain.orders import ClaimOrder

LONGEST = 60.0
"""Seconds for operations without a limit of their own: no lease depends on them, and some may take
long."""
SHORTEST = 1.0
"""Seconds."""

_URGENT = frozenset(
    {"claim", "claim_limited", "extend", "expired", "save_worker", "get", "blocker_outputs"}
)


class TimeLimits:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._shortest_lease = LONGEST

    def of(self, operation: Callable[..., Any], args: tuple[Any, ...]) -> float | None:
        """Seconds that one try may take; None: no limit of its own. The shortest lease that was
        ever claimed counts: a sixth of it leaves time for more tries before the lease expires."""
        name = operation.__name__
        for order in args:
            if isinstance(order, ClaimOrder):
                self._shortest_lease = min(self._shortest_lease, order.lease_for)
        if name in _URGENT:
            return max(self._shortest_lease / 6, SHORTEST)
        if name == "settle":
            return max(self._shortest_lease / 2, 5 * SHORTEST)
        return None
