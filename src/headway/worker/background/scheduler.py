"""Fires schedules. Every worker does, without a leader: the store lets one of them fire a tick.

    the next tick comes          known from the last look and from every heartbeat
    a schedule was put           a notification, or the next heartbeat
    a scheduled sequence ended   its schedule may have a tick that waited for that

Where no schedule exists, no statement is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import random

from headway.after_commit.publisher import Publisher
from headway.domain.events import SchedulesRefused
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule import ScheduleDefinition
from headway.schedules.declaration import declare, is_declared
from headway.schedules.firing import Fired, fire
from headway.worker.environment import WorkerEnvironment
from headway.worker.failure_streak import sleep_unless

CHECK_DECLARATIONS_EVERY = 30.0
LOCKED_PAUSE = 0.1
"""Seconds until the next look at a schedule that another transaction has locked."""
ENDED_PAUSE = 0.05
"""Seconds from the end of a sequence to the look for a tick that waited for it; sequences that end
meanwhile share the look."""
HEAD_START = 0.05
"""Seconds, at most, that a worker leaves the next tick to the worker that fired the last one. If
all looked at once, those that find the schedule locked would have to look again."""


class Scheduler:
    """Lives on one loop."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        publisher: Publisher,
        declared: Mapping[str, ScheduleDefinition],
        describe: Callable[[], WorkerRecord],
    ) -> None:
        self._store = environment.store
        self._clock = environment.clock
        self._observers = environment.observers
        self._publisher = publisher
        self._declared = declared
        self._describe = describe
        self._failures = environment.failures("scheduler")
        self.fires = environment.settings.schedules
        """Whether this worker fires schedules."""
        self.declarations = (
            {name: each.fingerprint for name, each in declared.items()} if self.fires else None
        )
        """The fingerprints of the declared schedules by name; None: this worker fires none."""
        self._refused: list[str] = []
        self._ended: set[str] = set()
        self._tick_at: float | None = None
        """When the next tick comes; None: no tick is known of."""
        self._look_at: float | None = None
        """When to look whether a tick has come or not."""
        self._lag = 0.0
        """Seconds that this worker comes after a tick."""
        self._reads_all = True
        """Whether this worker could compute the ticks of all schedules that it found."""
        self._check_at = 0.0
        self._woken = asyncio.Event()

    def expect(self, seconds: float) -> None:
        """The next tick comes in so many seconds, or before."""
        self._tick_at = _earlier(self._tick_at, self._clock.monotonic() + seconds)
        self._woken.set()

    def look_in(self, seconds: float) -> None:
        """A tick may have come that this worker does not know of."""
        self._look_at = _earlier(self._look_at, self._clock.monotonic() + seconds)
        self._woken.set()

    def sequence_ended(self, schedule: str) -> None:
        """A sequence that the schedule started has ended."""
        known = self._declared.get(schedule)
        if self.fires and (known is None or known.overlap == "queue_one"):
            self._ended.add(schedule)
            self.look_in(ENDED_PAUSE)

    async def run(self, stopped: asyncio.Event, *, once: bool = False) -> None:
        """Until stopped; or `once`, until all that is due now is fired."""
        if not self.fires:
            return
        asked = asyncio.ensure_future(stopped.wait())
        asked.add_done_callback(lambda _: self._woken.set())
        if once:
            self.look_in(0.0)
        try:
            while not stopped.is_set():
                self._woken.clear()
                try:
                    await self._check_declarations()
                    await self._look()
                except Exception as error:
                    await sleep_unless(stopped, self._failures.failed(error))
                else:
                    self._failures.ended()
                    if once and not self._is_due():
                        return
                    await self._rest()
        finally:
            asked.cancel()

    async def _check_declarations(self) -> None:
        now = self._clock.monotonic()
        if not self._declared or now < self._check_at:
            return
        store = self._store
        if not await store.run(is_declared, store, self._declared):
            refused = await store.run(
                declare, store, self._describe(), self._declared, now=self._clock.now()
            )
            if refused and refused != self._refused:
                self._observers.observe(SchedulesRefused(tuple(refused)))
            self._refused = refused
            self.look_in(0.0)
        self._check_at = now + CHECK_DECLARATIONS_EVERY

    def _is_due(self) -> bool:
        at = self._next_look()
        return at is not None and at <= self._clock.monotonic()

    def _next_look(self) -> float | None:
        tick = None if self._tick_at is None else self._tick_at + self._lag
        return tick if self._look_at is None else _earlier(tick, self._look_at)

    async def _look(self) -> None:
        """Fire what is due, if anything is."""
        if not self._is_due():
            return
        came = self._tick_at is not None and self._tick_at <= self._clock.monotonic()
        self._tick_at = self._look_at = None
        ended, self._ended = self._ended, set()
        store, now = self._store, self._clock.now()
        try:
            if not ended and (self._lag or not came):
                # Most often nothing is due, and this is a single statement.
                seconds = await store.run(store.next_schedule, self._declared, now=now)
                if seconds is None or seconds > 0:
                    self._follow(Fired(next_in=seconds), came=False)
                    return
            fired = await store.run(
                fire, store, self._declared, ended=ended, watched=self._publisher.watched, now=now
            )
        except BaseException:
            self._ended |= ended
            self.look_in(0.0)
            raise
        self._publisher.publish_soon(fired.effects)
        self._follow(fired, came=came)

    def _follow(self, fired: Fired, *, came: bool) -> None:
        """Decide when to look again. `came`: a tick had come."""
        seconds = fired.next_in
        self._reads_all = self._reads_all and not fired.unreadable
        if not self._reads_all:
            self._lag = HEAD_START * (1 + random())  # after all that may be able to
        elif fired.schedules:
            self._lag = 0.0
        elif came and (seconds is None or not 0 < seconds <= HEAD_START):
            self._lag = HEAD_START * (1 + random()) / 2  # another worker was first
        if seconds is not None and seconds > 0:
            self.expect(seconds)
        elif seconds is not None:
            self.look_in(0.0 if fired.schedules else LOCKED_PAUSE)

    async def _rest(self) -> None:
        """Wait until a look or a check is due, or for news."""
        due = self._next_look()
        if self._declared:
            due = _earlier(due, self._check_at)
        seconds = None if due is None else max(due - self._clock.monotonic(), 0.0)
        await sleep_unless(self._woken, seconds)


def _earlier(known: float | None, other: float) -> float:
    return other if known is None else min(known, other)
