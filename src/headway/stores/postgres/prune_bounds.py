"""How far a process has pruned, rule by rule.

What was pruned leaves dead entries in the index until vacuum comes, and while some long transaction
holds it back, they pile up: a look for more that begins at the oldest reads all of them again. So
it begins where the last one ended. What was left behind there, because somebody waited for it or
had it locked, is found by a look at everything now and then.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from headway.domain.orders import PruneRule

EVERYTHING = datetime(1, 1, 2, tzinfo=UTC)
LOOK_AT_ALL_EVERY = 60.0
"""Seconds between two looks at everything, or twenty times what the last one took."""


class Pruned:
    """Used by one process; a lost update costs a minute."""

    def __init__(self) -> None:
        self._bounds: dict[PruneRule, datetime] = {}
        self._look_at_all_at: dict[PruneRule, float] = {}

    def bound(self, rule: PruneRule) -> datetime:
        """Nothing that ended before it need be looked at."""
        if time.monotonic() >= self._look_at_all_at.get(rule, 0.0):
            return EVERYTHING
        return self._bounds.get(rule, EVERYTHING)

    def advance(self, rule: PruneRule, last: datetime | None, seconds: float) -> None:
        """A look took so long, and the last that it pruned had ended then."""
        if time.monotonic() >= self._look_at_all_at.get(rule, 0.0):
            self._look_at_all_at[rule] = time.monotonic() + max(LOOK_AT_ALL_EVERY, 20 * seconds)
        if last is not None:
            self._bounds[rule] = last
