"""Limits of queues, on behalf of code: stores those that the worker's code declares, before its
first claim and again if others replaced them; and counts what handlers spend."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping

from headway.after_commit.effects import Effects
from headway.after_commit.publisher import Publisher
from headway.domain.limits.queue_limits import QueueLimits
from headway.domain.queries import WorkerRecord
from headway.limits.changes import declare, is_declared, spend
from headway.worker.environment import WorkerEnvironment
from headway.worker.failure_streak import sleep_unless

CHECK_EVERY = 30.0
"""Seconds between looks whether the stored limits are the declared ones."""


class QueueLimitWriter:
    """Lives on one loop; `spent` may be called from any thread."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        publisher: Publisher,
        declared: Mapping[str, QueueLimits],
        describe: Callable[[], WorkerRecord],
    ) -> None:
        self._store = environment.store
        self._clock = environment.clock
        self._publisher = publisher
        self._declared = declared
        self._describe = describe
        self._failures = environment.failures("limits")
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._lock = threading.Lock()
        self._spent: Counter[str] = Counter()
        self.declarations = {name: each.fingerprint for name, each in declared.items()} or None
        """The fingerprints of the declared limits by queue."""

    def spent(self, queue: str, weight: int) -> None:
        with self._lock:
            self._spent[queue] += weight
        self._loop.call_soon_threadsafe(self._woken.set)

    async def declare_until(self, stopped: asyncio.Event) -> None:
        """Store the declared limits; try until that succeeds."""
        while self._declared and not stopped.is_set():
            try:
                await self._declare()
            except Exception as error:
                await sleep_unless(stopped, self._failures.failed(error))
            else:
                self._failures.ended()
                return

    async def run(self, stopped: asyncio.Event) -> None:
        asked = asyncio.ensure_future(stopped.wait())
        asked.add_done_callback(lambda _: self._woken.set())
        check_at = self._clock.monotonic() + CHECK_EVERY
        try:
            while not stopped.is_set():
                rest = check_at - self._clock.monotonic()
                await sleep_unless(self._woken, max(rest, 0.0) if self._declared else None)
                self._woken.clear()
                try:
                    await self.flush()
                    if self._declared and self._clock.monotonic() >= check_at:
                        await self._declare()
                        check_at = self._clock.monotonic() + CHECK_EVERY
                except Exception as error:
                    await sleep_unless(stopped, self._failures.failed(error))
                    self._woken.set()
                else:
                    self._failures.ended()
        finally:
            asked.cancel()

    async def flush(self) -> None:
        """Count what was spent until now."""
        with self._lock:
            spent, self._spent = self._spent, Counter()
        if not spent:
            return
        try:
            await self._store.run(spend, self._store, list(spent.items()), now=self._clock.now())
        except BaseException:
            with self._lock:
                self._spent.update(spent)
            raise

    async def _declare(self) -> None:
        store = self._store
        if await store.run(is_declared, store, self._declared):
            return
        effects = Effects()
        for queue, limits in self._declared.items():
            # One by one: a store that does not wait for locks may not get many busy ones at once.
            changed = await store.run(
                declare, store, self._describe(), {queue: limits}, now=self._clock.now()
            )
            for each in changed:
                effects.change_limits(each)
        self._publisher.publish_soon(effects)
