"""A load for the queues with limits: keeps jobs waiting in each of them, and has an operator who
overrides limits, takes the overrides back, and pauses queues."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from dataclasses import dataclass

from headway import Rate, Request
from headway.domain.limits.queue_limits import LimitsOverride
from headway.limits.changes import override
from headway.ports.notifications import ANY_TYPE, JobsScheduled
from proof.limits.work import BIG, KEYS, SMALL, LimitedWork
from proof.tools.databases import Database

WAITING = "select queue, count(*) from {job} where state = 'pending' group by queue"
WAITING_KEYS = "select distinct key from {job} where state = 'pending' and queue = 'fair'"
CHANGES: tuple[tuple[str, LimitsOverride | None], ...] = (
    ("capped", LimitsOverride(running=2)),
    ("rated", LimitsOverride(rate=Rate(6, per=1.0))),
    ("capped", LimitsOverride(running=6)),
    ("mixed", LimitsOverride(running=3, per_key=1)),
    ("rated", None),
    ("capped", None),
    ("mixed", None),
    ("keyed", LimitsOverride(per_key=2)),
    ("fair", LimitsOverride(running=2)),
    ("keyed", None),
    ("fair", None),
)
"""What the operator does, over and over. In the end all limits are as declared."""
PAUSED = 0.5
"""Seconds."""


@dataclass(frozen=True)
class Pace:
    """Seconds that jobs take, how many of them wait, and the operator's pauses."""

    seconds: float
    waiting: int
    change_every: float
    """Seconds between changes of limits; 0: none."""
    look_every: float = 0.25


class Load:
    """In its own thread, until it is stopped."""

    def __init__(self, database: Database, pace: Pace) -> None:
        self._database = database
        self._pace = pace
        self.started = 0
        self.changes = 0
        self.error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def stop(self) -> None:
        """What was started is left to the workers; no override is left."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._go())
        except BaseException as error:
            self.error = error

    async def _go(self) -> None:
        pace = self._pace
        work = LimitedWork(self._database.dsn)
        async with work.app:
            change_at = time.monotonic() + pace.change_every
            while not self._stopped.is_set():
                await work.app.start_many(self._missing(work))
                if pace.change_every and time.monotonic() >= change_at:
                    change_at += pace.change_every
                    await self._change(work)
                await asyncio.sleep(pace.look_every)
            for queue in {queue for queue, _ in CHANGES}:
                await self._override(work, queue, None)

    def _missing(self, work: LimitedWork) -> list[Request[None]]:
        """Jobs for the queues of which too few wait."""
        waiting = dict(self._database.ask(WAITING))
        pace = self._pace
        seconds = pace.seconds

        def lacking(queue: str) -> range:
            return range(max(pace.waiting - waiting.get(queue, 0), 0))

        def key() -> str:
            return f"key-{random.randrange(KEYS)}"

        requests = [work.limited.request(seconds).using(queue="capped") for _ in lacking("capped")]
        requests += [
            work.limited.request(seconds).using(queue="keyed", key=key()) for _ in lacking("keyed")
        ]
        requests += [
            work.spending.request(int(random.random() < 0.1)).using(queue="rated")
            for _ in lacking("rated")
        ]
        requests += [
            work.holding.request(seconds, 0.2, 0.01).using(
                queue="mixed", key=key(), priority=random.randrange(2)
            )
            for _ in lacking("mixed")
        ]
        requests += [
            work.limited.request(seconds).using(queue="fair", key=BIG) for _ in lacking("fair")
        ]
        # A small tenant has one job at a time.
        known = {row[0] for row in self._database.ask(WAITING_KEYS)}
        requests += [
            work.limited.request(seconds).using(queue="fair", key=small)
            for small in (f"small-{number:02}" for number in range(SMALL))
            if small not in known and random.random() < 0.5
        ]
        self.started += len(requests)
        return requests

    async def _change(self, work: LimitedWork) -> None:
        queue, change = CHANGES[self.changes % len(CHANGES)]
        self.changes += 1
        await self._override(work, queue, change)
        if self.changes % len(CHANGES) == 0:
            await work.app.pause("mixed")
            await asyncio.sleep(PAUSED)
            await work.app.resume("mixed")

    async def _override(self, work: LimitedWork, queue: str, change: LimitsOverride | None) -> None:
        app = work.app
        await app.store.run(override, app.store, queue, change)
        await app.notifier.publish([JobsScheduled(queue, ANY_TYPE, 0)])
