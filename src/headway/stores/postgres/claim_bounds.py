"""What a process remembers of the lanes it claims from: their priorities, how far it looked.

A lane is (queue, priority). Jobs below a lane's bound have been claimed, so a claim that starts
there does not read their dead index entries again; they pile up while some long transaction holds
back vacuum. What lands below a bound (retries, late commits, lost leases) is found by hints, and by
looking everywhere about once a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from headway.domain.job import ClaimedJob
from headway.domain.orders import QueueShare

EVERYWHERE = datetime(1, 1, 2, tzinfo=UTC)
LOOK_AROUND_EVERY = 1.0
"""Seconds between two looks everywhere, or twenty times what the last one took."""

Lane = tuple[str, int, datetime, int]
"""Queue, priority, bound, and at most how many."""


class Lanes:
    """The memory of one set of job types. Used by one process; a lost update costs a second."""

    def __init__(self) -> None:
        self._bounds: dict[str, dict[int, datetime]] = {}
        self._look_around_at = 0.0
        self._hinted = False

    def should_look_around(self, queues: Sequence[QueueShare]) -> bool:
        return time.monotonic() >= self._look_around_at or not any(
            self._bounds.get(queue.name) for queue in queues
        )

    def was_hinted(self) -> bool:
        """Whether notifications came since the last look; asking forgets them."""
        hinted, self._hinted = self._hinted, False
        return hinted

    def learn(self, queues: Iterable[QueueShare], found: Iterable[tuple[str, int]]) -> None:
        """These are all the priorities there are; look everywhere in them."""
        for queue in queues:
            self._bounds[queue.name] = {}
        for queue_name, priority in found:
            self._bounds[queue_name][priority] = EVERYWHERE
        self._hinted = False

    def looked_around(self, seconds: float) -> None:
        self._look_around_at = time.monotonic() + max(LOOK_AROUND_EVERY, 20 * seconds)

    def groups(self, queues: Sequence[QueueShare], limit: int) -> list[tuple[list[Lane], int]]:
        """Lanes to claim from in one statement each, with at most how many jobs from all of them.

        Only a queue that has several lanes and a limit of its own needs a statement to itself.
        """
        together: list[Lane] = []
        groups: list[tuple[list[Lane], int]] = []
        for queue in queues:
            bounds = self._bounds.get(queue.name, {})
            most = min(queue.limit, limit)
            lanes = [
                (queue.name, priority, bounds[priority], most)
                for priority in sorted(bounds, reverse=True)
            ]
            if most <= 0 or not lanes:
                continue
            if len(lanes) == 1 or most == limit:
                together += lanes
            else:
                if together:
                    groups.append((together, limit))
                    together = []
                groups.append((lanes, most))
        if together:
            groups.append((together, limit))
        return groups

    def advance(self, claimed: Iterable[ClaimedJob]) -> None:
        """Remember how far these reach; they come in the order of their lanes."""
        for job in claimed:
            bounds = self._bounds.get(job.queue)
            if bounds is not None:
                bounds[job.priority] = job.run_at

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """A job may have appeared that is due at `run_at`: look there again."""
        self._hinted = True
        bounds = self._bounds.get(queue)
        if bounds:
            back_to = EVERYWHERE if run_at is None else run_at
            for priority, bound in bounds.items():
                if back_to < bound:
                    bounds[priority] = back_to
