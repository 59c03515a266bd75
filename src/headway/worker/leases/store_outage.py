"""Outages of a worker's store, and the leases of the worker that ran out because of them.

The heartbeat notices an outage: it writes to the store at least every third of a lease. A lease
that ran out meanwhile is no fault of its job. So its worker gives the job back uncharged as soon as
the store answers again, and every reaper waits for that before it charges a job with a loss.
"""

from __future__ import annotations

import math

from headway.worker.attempt import Attempt
from headway.worker.environment import WorkerEnvironment

SLOW = 0.25
"""The part of a lease after which a store that has not answered counts as away."""
GRACE = 10.0
"""Seconds after an outage in which workers give back their own jobs before reapers charge any; a
third of a lease if that is less."""


class Outage:
    """Written by the heartbeat's thread, which asks one thing at a time; read by the loop."""

    def __init__(self, environment: WorkerEnvironment) -> None:
        self._clock = environment.clock
        self._lease_for = environment.settings.lease_for
        self._held = environment.held
        self.grace = min(GRACE, self._lease_for / 3)
        self._asked: float | None = None
        self._since: float | None = None
        self._ended = -math.inf
        self._excused: dict[Attempt, None] = {}

    def asks(self) -> None:
        self._asked = self._clock.monotonic()

    def failed(self) -> None:
        self._since = self._since or self._asked
        self._asked = None

    def answered(self) -> None:
        if self.lasts:
            self._ended = self._clock.monotonic()
        self._asked = self._since = None

    @property
    def lasts(self) -> bool:
        """Whether the store is away now."""
        asked = self._asked
        return self._since is not None or (
            asked is not None and self._clock.monotonic() - asked > self._lease_for * SLOW
        )

    @property
    def recent(self) -> bool:
        """Whether the store is away, or has just returned: workers give back their own jobs."""
        return self.lasts or self._clock.monotonic() < self._ended + self.grace

    def excuse(self, attempt: Attempt) -> None:
        """A lease may have run out. If the store was away since its last renewal, the job is not
        charged for it."""
        if self.lasts or self._ended >= attempt.deadline - self._lease_for:
            self._excused[attempt] = None

    @property
    def excused(self) -> list[Attempt]:
        """Attempts that are not charged and whose jobs are not given back yet."""
        return list(self._excused)

    def settled(self, attempt: Attempt) -> None:
        del self._excused[attempt]

    def completing(self) -> set[str]:
        """Jobs that this worker's handlers have locked: their leases cannot be lost."""
        return {each.claimed.id for each in self._held if each.in_transaction}

    def is_over(self, attempt: Attempt) -> bool:
        """Whether nothing of it runs here any more."""
        return attempt not in self._held
