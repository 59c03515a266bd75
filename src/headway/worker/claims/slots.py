"""Slots of a worker and of each of its queues: running jobs, jobs claimed ahead, room for more."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import random
from typing import TYPE_CHECKING

from headway.domain.orders import QueueShare
from headway.worker.settings import WorkQueue

if TYPE_CHECKING:
    from headway.worker.attempt import Attempt

SUSPECT = 2
"""Losses in a row after which a job is suspected of killing its worker."""
MOST_AHEAD = 2_000
"""Jobs of one queue that are claimed ahead of free slots at most."""


class QueueSlots:
    """The slots of one queue."""

    __slots__ = (
        "again_at",
        "ahead",
        "freed",
        "limit",
        "limited",
        "more",
        "name",
        "needs_slot",
        "permits",
        "rate",
        "rated",
        "refused_at",
        "rests_until",
        "running",
        "started",
        "told",
        "waiting",
        "weight",
    )

    def __init__(self, queue: WorkQueue, concurrency: int) -> None:
        self.name = queue.name
        self.limit = concurrency if queue.limit is None else min(queue.limit, concurrency)
        self.weight = queue.weight
        self.running = 0
        self.waiting: deque[Attempt] = deque()
        """Claimed, and not started yet."""
        self.started = 0
        """Since the rate was last measured."""
        self.rate = 0.0
        """Jobs started per second, of late."""
        self.ahead = 0
        """How many may wait here, claimed, for a slot."""
        self.more = False
        """The last claim may have left jobs that are due."""
        self.needs_slot = False
        """Jobs are due, and cannot be claimed ahead of a free slot."""
        self.limited = False
        """The queue has limits that hold for all workers."""
        self.permits = False
        """Jobs wait for one of its running jobs to end."""
        self.rated = False
        """One of them is a rate."""
        self.freed = False
        """This worker keeps a free permit for itself: no other worker was woken for it."""
        self.refused_at: float | None = None
        """When claims were first refused by a limit, since one was not."""
        self.again_at = 0.0
        """When this worker looks again, because a limit allows the next start then."""
        self.rests_until = 0.0
        """Until then a claim would be refused again."""
        self.told = False
        """Permits are said to be free, or limits to have changed, since the last claim was sent."""

    @property
    def has_more(self) -> bool:
        return self.more or self.needs_slot


class Slots:
    """All queues of a worker, and the slots that they share. Not safe for threads."""

    def __init__(
        self,
        queues: Sequence[WorkQueue],
        concurrency: int,
        horizon: float,
        random: Callable[[], float] = random,
    ) -> None:
        self.concurrency = concurrency
        self.running = 0
        self.waiting = 0
        self.suspects: list[Attempt] = []
        """Claimed, and not started yet; they are not in the `waiting` of their queues."""
        self.suspected: Attempt | None = None
        """The suspect that runs; there is no second one."""
        self.reserved = False
        """A suspect has the worker for itself: no other job is started or claimed."""
        self.only_healthy = False
        """No suspect is claimed: one runs, or healthy jobs have their turn."""
        self.probing = False
        """Suspects may be claimed again, and there may be many: the next claim is for one job."""
        self.queues = [QueueSlots(queue, concurrency) for queue in queues]
        self._by_name = {queue.name: queue for queue in self.queues}
        self._weighted = any(queue.weight is not None for queue in self.queues)
        self._horizon = horizon
        self._random = random
        self._measured: float | None = None

    def __contains__(self, queue: str) -> bool:
        return queue in self._by_name

    def __getitem__(self, queue: str) -> QueueSlots:
        return self._by_name[queue]

    def put(self, attempt: Attempt) -> None:
        if attempt.claimed.losses >= SUSPECT:
            self.suspects.append(attempt)
            return
        attempt.queue_slots.waiting.append(attempt)
        self.waiting += 1

    def has_room_for(self, suspect: Attempt) -> bool:
        queue = suspect.queue_slots
        return self.running < self.concurrency and queue.running < queue.limit

    def take_alone(self, suspect: Attempt) -> None:
        """The suspect counts as running from now on."""
        suspect.queue_slots.running += 1
        suspect.queue_slots.started += 1
        self.running += 1

    def end_turn(self) -> None:
        """Healthy jobs have had their turn, or none of them waits: suspects may be claimed."""
        self.only_healthy = False
        self.probing = True

    def take(self) -> Attempt | None:
        """The next job to start, if a slot is free for it; it counts as running from now on."""
        if not self.waiting or self.running >= self.concurrency:
            return None
        for queue in self._oldest_first() if self._weighted else self.queues:
            if queue.waiting and queue.running < queue.limit:
                queue.running += 1
                queue.started += 1
                self.running += 1
                self.waiting -= 1
                return queue.waiting.popleft()
        return None

    def ended(self, attempt: Attempt) -> None:
        attempt.queue_slots.running -= 1
        self.running -= 1

    def oldest(self) -> float | None:
        """Claim time of the oldest waiting job."""
        claimed = [queue.waiting[0].claimed_at for queue in self.queues if queue.waiting]
        return min(claimed) if claimed else None

    def remove(self, which: Callable[[Attempt], bool]) -> list[Attempt]:
        """Take out the waiting jobs that `which` picks."""
        removed: list[Attempt] = []
        for queue in self.queues:
            kept: deque[Attempt] = deque()
            for attempt in queue.waiting:
                (removed if which(attempt) else kept).append(attempt)
            queue.waiting = kept
        self.waiting -= len(removed)
        return removed

    def measure(self, now: float) -> None:
        """Measure how fast jobs were started since the last call, and set how many may be claimed
        ahead: as many as start within the horizon. So short jobs never wait for a claim, and long
        ones are left to workers that have a slot for them."""
        if self._horizon <= 0:
            return
        if self._measured is None:
            self._measured = now
            return
        elapsed = now - self._measured
        if elapsed < 0.001:  # too short to tell
            return
        self._measured = now
        newer = 1.0 - math.exp(-elapsed / self._horizon)
        for queue in self.queues:
            queue.rate += (queue.started / elapsed - queue.rate) * newer
            queue.started = 0
            queue.ahead = min(int(queue.rate * self._horizon), MOST_AHEAD)

    def shares(self, most: int) -> tuple[tuple[QueueShare, ...], int]:
        """How many jobs of which queues to claim: for free slots and ahead of them, at most `most`
        in all, and of no queue more than its limit has room for. None of a queue whose stock is
        half full, and none at all while a suspect has the worker for itself."""
        if self.suspects or self.reserved:
            return (), 0
        if self.probing:
            most = 1
        wanted = self.concurrency - self.running
        stocks = self._stocks()
        for queue in self.queues:
            stock = stocks[queue] - len(queue.waiting)
            # What is beyond its stock will take slots, but only those that its limit leaves it.
            wanted += stock if stock >= 0 else max(stock, queue.running - queue.limit)
        wanted = min(most, wanted)
        if wanted <= 0:
            return (), 0
        shares: list[QueueShare] = []
        room = 0
        for queue in self._in_order():
            stock = stocks[queue]
            free = queue.limit - queue.running - len(queue.waiting) + stock
            if free > 0 and len(queue.waiting) <= stock // 2:
                shares.append(QueueShare(queue.name, min(free, wanted)))
                room += free
        return tuple(shares), min(wanted, room)

    def can_start(self, queue: str) -> int:
        """Jobs of the queue that could be started at once, if they were claimed now."""
        slots = self._by_name[queue]
        own = slots.limit - slots.running - len(slots.waiting)
        return max(min(own, self.concurrency - self.running - self.waiting), 0)

    def _stocks(self) -> dict[QueueSlots, int]:
        """How many jobs of each queue may wait here. None that would take every slot that becomes
        free, while jobs that cannot be claimed ahead wait for one."""
        needed = self._weighted and any(queue.needs_slot for queue in self.queues)
        stocks: dict[QueueSlots, int] = {}
        for queue in self.queues:
            needed = needed or queue.needs_slot
            stocks[queue] = 0 if needed else queue.ahead
        return stocks

    def _oldest_first(self) -> Iterable[QueueSlots]:
        """The queues with waiting jobs, the oldest claim first: so weights count for starts as they
        did for claims."""
        stocked = [queue for queue in self.queues if queue.waiting]
        stocked.sort(key=lambda queue: queue.waiting[0].claimed_at)
        return stocked

    def _in_order(self) -> Iterable[QueueSlots]:
        """The queues in the order to ask them: as given, or shuffled by weight."""
        if not self._weighted:
            return self.queues
        # Efraimidis and Spirakis: the highest of random ** (1 / weight) comes first.
        keyed = [(self._random() ** (1.0 / (queue.weight or 1.0)), queue) for queue in self.queues]
        keyed.sort(key=lambda pair: pair[0], reverse=True)
        return [queue for _, queue in keyed]
