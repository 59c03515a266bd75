"""When a worker looks for jobs: the last claim was full, a notification arrived, a retry falls due,
or the pause between two polls has passed. A worker without room waits for a handler to end.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Collection
from datetime import UTC, datetime
from random import random

from headway.ports.notifications import ANY_TYPE, JobsScheduled
from headway.worker.claims.slots import Slots
from headway.worker.environment import WorkerEnvironment

SHORTEST_POLL = 0.05
SLOT_WITHIN = 0.5
"""Seconds after which a claimed job that no slot was free for is given back."""
MOST_DUE_TIMES = 1_000


class ClaimTiming:
    """Read by the fetcher; the parts that come after it, and the notifier, say when to look. Lives
    on one loop."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        slots: Slots,
        types: Collection[str],
        *,
        drain: bool,
    ) -> None:
        self._settings = environment.settings
        self._slots = slots
        self._clock = environment.clock
        self._types = types
        self.drain = drain
        """The worker ends when nothing is left to do."""
        self.stopped = asyncio.Event()
        self.wanted = True
        """There is reason to believe that something can be claimed."""
        self.claiming = False
        self.left_out = False
        """The last claim left job types out, because their handlers have all the transactions."""
        self.more_left = False
        """A queue may have more jobs than its last claim took: look when it has room again."""
        self.committer_behind = False
        """Jobs end faster than they can be committed: nothing is claimed."""
        self.empty_claims = 0
        """Claims in a row that gave nothing."""
        self._waiter: asyncio.Future[None] | None = None
        self._due_times: list[float] = []
        self._longest_pause = environment.settings.poll_every
        self._hinted = False

    def stop(self) -> None:
        self.stopped.set()
        self._wake()

    def expect(self, seconds: float = 0.0) -> None:
        """Look for jobs in so many seconds."""
        if seconds <= 0:
            # Another worker may be quicker: no reason to look more often than before.
            self.wanted = True
            self._wake()
        elif len(self._due_times) < MOST_DUE_TIMES:  # polling finds the others
            heapq.heappush(self._due_times, self._clock.monotonic() + seconds)
            self._wake()

    def concerns(self, notification: JobsScheduled) -> bool:
        return notification.queue in self._slots and (
            notification.type == ANY_TYPE or notification.type in self._types
        )

    def expect_notified(self, notification: JobsScheduled) -> None:
        """Another process, or a client of this one, scheduled jobs of this worker's queues."""
        self._hinted = self._hinted or notification.type != ANY_TYPE
        self._end_rest(notification)
        # Its run_at may lie ahead, but the clocks may differ. Looking once too often is cheap.
        self.expect()
        if notification.run_at is not None:
            self.expect((notification.run_at - datetime.now(UTC)).total_seconds())

    def take_hint(self) -> bool:
        """Whether jobs were scheduled since the last call."""
        hinted, self._hinted = self._hinted, False
        return hinted

    def expect_own(self, notification: JobsScheduled, seconds: float) -> bool:
        """This worker scheduled a job that can be claimed in so many seconds. Whether that wakes
        this worker, so that no other need wake for it."""
        if not self.concerns(notification):
            return False
        self._hinted = self._hinted or notification.type != ANY_TYPE
        queue = self._slots[notification.queue]
        wakes = seconds <= 0 and self.is_idle() and self._slots.can_start(queue.name) > 0
        if notification.type == ANY_TYPE:
            self._end_rest(notification)
            queue.freed = queue.freed or wakes
        self.expect(seconds)
        return wakes

    def _end_rest(self, notification: JobsScheduled) -> None:
        """A claim may be granted again: permits are free, or (no count) limits have changed. Free
        permits do not help while a rate or a hold keeps the queue waiting."""
        queue = self._slots[notification.queue]
        if notification.type == ANY_TYPE and (
            not notification.count or queue.again_at <= self._clock.monotonic()
        ):
            queue.rests_until = 0.0
            queue.told = True

    def is_idle(self) -> bool:
        """Whether this worker has room and neither looks nor has reason to; may be asked from any
        thread. A claim under way may fill all its slots: others had better be woken."""
        slots = self._slots
        return (
            not self.wanted
            and not self.claiming
            and slots.running + slots.waiting < slots.concurrency
            and not slots.reserved
            and not self.committer_behind
            and not self.left_out
            and not self.stopped.is_set()
        )

    def rely_on_notifications(self, longest_pause: float | None) -> None:
        """Poll this rarely when idle; None: no notifications arrive, poll as often as set. Either
        way some may have been missed, so look now."""
        self._longest_pause = longest_pause or self._settings.poll_every
        self.empty_claims = 0
        self.expect()

    def look_again(self) -> None:
        """Slots may be free, or outcomes stored: the fetcher may go on now."""
        if self.wanted or self.left_out or self.more_left or self.drain:
            self._wake()

    async def rest(self) -> None:
        """Wait until there is something to look for and room to put it."""
        if self.stopped.is_set():
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        seconds = self._pause()
        timer = None if seconds is None else loop.call_later(seconds, self.expect)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        now = self._clock.monotonic()
        while self._due_times and self._due_times[0] <= now:
            heapq.heappop(self._due_times)
            self.wanted = True
            self.empty_claims = 0  # it may be due later by the store's clock: look again soon

    def _pause(self) -> float | None:
        """How long to wait for notifications at most."""
        if self.wanted:  # only room is lacking: `look_again` is called when there is some
            return SLOT_WITHIN if self._slots.waiting else None
        pause = min(self._longest_pause, SHORTEST_POLL * 2.0 ** min(self.empty_claims, 20))
        pause *= 0.75 + random() / 4
        if self._due_times:
            pause = min(pause, max(self._due_times[0] - self._clock.monotonic(), 0.0))
        return pause

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
