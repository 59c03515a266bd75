"""Where in the index of pending jobs the next claim of this process starts.

For each queue and priority a bound is kept: jobs with an earlier `run_at` have been claimed. A
claim that starts at the bound does not read the dead index entries below it, which pile up while a
long transaction holds back vacuum. Jobs that land below a bound (retries, late commits, lost
leases) are found by hints, and by a look at everything about once a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from headway.domain.job import ClaimedJob
from headway.domain.orders import QueueShare

EVERYWHERE = datetime(1, 1, 2, tzinfo=UTC)
LOOK_AROUND_EVERY = 1.0
"""Seconds between two looks at everything; at least twenty times as long as a look takes."""

ClaimRange = tuple[str, int, datetime, int]
"""Queue, priority, bound, and the most jobs to claim."""


class ClaimBounds:
    """The bounds for one set of job types. A lost update costs a second."""

    def __init__(self) -> None:
        self._bounds: dict[str, dict[int, datetime]] = {}
        self.limited: set[str] = set()
        """Queues that had limits at the last look at everything."""
        self._look_around_at: dict[str, float] = {}
        self._hinted: set[str] = set()
        """Queues of which a notification came. Kept by queue: claims ask different ones."""

    def should_look_around(self, queues: Sequence[QueueShare]) -> bool:
        now, at = time.monotonic(), self._look_around_at
        return any(now >= at.get(queue.name, 0.0) for queue in queues) or not any(
            self._bounds.get(queue.name) for queue in queues
        )

    def was_hinted(self, queues: Iterable[QueueShare]) -> bool:
        """Whether a notification of one of these queues came since the last call."""
        hinted = self._hinted.intersection(queue.name for queue in queues)
        self._hinted -= hinted
        return bool(hinted)

    def learn(self, queues: Iterable[QueueShare], found: Iterable[tuple[str, int | None]]) -> None:
        """Set the priorities that the queues have, all without a bound; None: it has limits."""
        for queue in queues:
            self._bounds[queue.name] = {}
            self.limited.discard(queue.name)
            self._hinted.discard(queue.name)
        for queue_name, priority in found:
            if priority is None:
                self.limited.add(queue_name)
            else:
                self._bounds[queue_name][priority] = EVERYWHERE

    def looked_around(self, queues: Iterable[QueueShare], seconds: float) -> None:
        at = time.monotonic() + max(LOOK_AROUND_EVERY, 20 * seconds)
        for queue in queues:
            self._look_around_at[queue.name] = at

    def groups(
        self, queues: Sequence[QueueShare], limit: int
    ) -> list[tuple[list[ClaimRange], int]]:
        """Ranges to claim from, grouped by statement, and the most jobs for each statement.

        Only a queue with several priorities and a limit of its own needs its own statement.
        """
        together: list[ClaimRange] = []
        groups: list[tuple[list[ClaimRange], int]] = []
        for queue in queues:
            bounds = self._bounds.get(queue.name, {})
            most = min(queue.limit, limit)
            ranges = [
                (queue.name, priority, bounds[priority], most)
                for priority in sorted(bounds, reverse=True)
            ]
            if most <= 0 or not ranges:
                continue
            if len(ranges) == 1 or most == limit:
                together += ranges
            else:
                if together:
                    groups.append((together, limit))
                    together = []
                groups.append((ranges, most))
        if together:
            groups.append((together, limit))
        return groups

    def advance(self, claimed: Iterable[ClaimedJob]) -> None:
        """Raise the bounds to these jobs, which come in the order in which they are run."""
        for job in claimed:
            bounds = self._bounds.get(job.queue)
            if bounds is not None:
                bounds[job.priority] = job.run_at

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """Lower the bounds to `run_at`: a job may have appeared there."""
        self._hinted.add(queue)
        bounds = self._bounds.get(queue)
        if bounds:
            back_to = EVERYWHERE if run_at is None else run_at
            for priority, bound in bounds.items():
                if back_to < bound:
                    bounds[priority] = back_to
