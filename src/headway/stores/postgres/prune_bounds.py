"""Where in the index of finished jobs the next pruning of this process starts, for each rule.

Pruned jobs leave dead index entries until vacuum removes them, and these pile up while a long
transaction holds back vacuum. So a pruning starts where the last one ended. Jobs that were passed
over, because another job needed them or a transaction had locked them, are found by a look at
everything now and then.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from headway.domain.orders import PruneRule

EVERYTHING = datetime(1, 1, 2, tzinfo=UTC)
LOOK_AT_ALL_EVERY = 60.0
"""Seconds between two looks at everything; at least twenty times as long as a look takes."""


class PruneBounds:
    """A lost update costs a minute."""

    def __init__(self) -> None:
        self._bounds: dict[PruneRule, datetime] = {}
        self._look_at_all_at: dict[PruneRule, float] = {}

    def bound(self, rule: PruneRule) -> datetime:
        """The earliest `finished_at` to look at."""
        if time.monotonic() >= self._look_at_all_at.get(rule, 0.0):
            return EVERYTHING
        return self._bounds.get(rule, EVERYTHING)

    def advance(self, rule: PruneRule, last: datetime | None, seconds: float) -> None:
        """A pruning took so many seconds, and its last job had finished at `last`."""
        if time.monotonic() >= self._look_at_all_at.get(rule, 0.0):
            self._look_at_all_at[rule] = time.monotonic() + max(LOOK_AT_ALL_EVERY, 20 * seconds)
        if last is not None:
            self._bounds[rule] = last
