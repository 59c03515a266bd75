"""Fires schedules. Every worker does, without a leader: the store lets one of them fire a tick.

    the next tick comes          known from the last look and from every heartbeat
    a schedule was put           a notification, or the next heartbeat
    a scheduled sequence ended   its schedule may have a tick that waited for that

Where no schedule exists, no statement is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from headway.after_commit.publisher import Publisher
from headway.domain.events import SchedulesRefused
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule import ScheduleDefinition
from headway.schedules.declaration import declare, is_declared
from headway.schedules.firing import MOST_AT_ONCE, fire
from headway.worker.environment import WorkerEnvironment

CHECK_DECLARATIONS_EVERY = 30.0
LOCKED_PAUSE = 0.1
"""Seconds until the next look at a schedule that another transaction has locked."""


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
        self._look_at: float | None = None
        self._check_at = 0.0
        self._waiter: asyncio.Future[None] | None = None

    def expect(self, seconds: float | None) -> None:
        """The next schedule is due in so many seconds; None: there is none."""
        self._look_at = None if seconds is None else self._clock.monotonic() + seconds
        self._wake()

    def sequence_ended(self, schedule: str) -> None:
        if self.fires:
            self._ended.add(schedule)
            self.expect(0.0)

    async def run(self, stopped: asyncio.Event) -> None:
        if not self.fires:
            return
        asked = asyncio.ensure_future(stopped.wait())
        asked.add_done_callback(lambda _: self._wake())
        try:
            while not stopped.is_set():
                try:
                    await self._check_declarations()
                    await self._look()
                except Exception as error:
                    await asyncio.wait({asked}, timeout=self._failures.failed(error))
                else:
                    self._failures.ended()
                    await self._rest()
        finally:
            asked.cancel()

    async def fire_due(self) -> None:
        """Store the declared schedules and fire all that are due, once."""
        await self._check_declarations()
        self.expect(0.0)
        while self._look_at is not None and self._look_at <= self._clock.monotonic():
            await self._look()

    async def _check_declarations(self) -> None:
        now = self._clock.monotonic()
        if not self._declared or now < self._check_at:
            return
        store = self._store
        if not await store.run(is_declared, store, self._declared):
            refused = await store.run(
                declare, store, self._describe(), self._declared, now=self._clock.now()
            )
            if refused != self._refused:
                self._refused = refused
                self._observers.observe(SchedulesRefused(tuple(refused)))
            self._look_at = now
        self._check_at = now + CHECK_DECLARATIONS_EVERY

    async def _look(self) -> None:
        """Fire what is due, if anything is."""
        if self._look_at is None or self._look_at > self._clock.monotonic():
            return
        self._look_at = None
        ended, self._ended = self._ended, set()
        try:
            fired = await self._store.run(
                fire,
                self._store,
                self._declared,
                ended=ended,
                watched=self._publisher.watched,
                now=self._clock.now(),
            )
        except BaseException:
            self._ended |= ended
            self.expect(0.0)
            raise
        self._publisher.publish_soon(fired.effects)
        seconds = 0.0 if fired.schedules >= MOST_AT_ONCE else fired.next_in
        if seconds is not None and seconds <= 0 and not fired.schedules:
            seconds = LOCKED_PAUSE
        if self._look_at is None:  # else something was expected meanwhile
            self.expect(seconds)

    async def _rest(self) -> None:
        """Wait until a look or a check is due."""
        now = self._clock.monotonic()
        due = [each for each in (self._look_at,) if each is not None]
        if self._declared:
            due.append(self._check_at)
        self._waiter = asyncio.get_running_loop().create_future()
        timeout = max(min(due) - now, 0.0) if due else None
        await asyncio.wait({self._waiter}, timeout=timeout)
        self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
