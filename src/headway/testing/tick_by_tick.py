"""Fires the schedules of an app under test, without a worker and without waiting."""

from __future__ import annotations

from datetime import datetime

from headway.after_commit.publisher import Publisher
from headway.app import Headway
from headway.domain.events import ScheduleFired
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule import ScheduleRecord
from headway.schedules.declaration import declare, is_declared
from headway.schedules.firing import fire
from headway.testing.clock import ManualClock

MOST_TICKS = 10_000
"""Ticks that one drain fires."""
PAGE = 1_000


class TickByTick:
    """Fires each tick at its own time, as workers do that run all the time."""

    def __init__(self, app: Headway, clock: ManualClock) -> None:
        self._app = app
        self._clock = clock
        self._drained_at = clock.now()

    async def declare(self) -> None:
        """Store the schedules that the app declares, as of the last drain: the ticks since then
        are theirs."""
        store, declared, now = self._app.store, self._app.registry.schedules(), self._drained_at
        if not declared or await store.run(is_declared, store, declared):
            return
        worker = WorkerRecord(
            id="headway.testing",
            host="",
            pid=0,
            queues=(),
            types=(),
            concurrency=0,
            running=0,
            started_at=now,
            seen_at=now,
        )
        await store.run(declare, store, worker, declared, now=now)
        await store.run(store.delete_workers, [worker.id], now=now)

    async def fire(self, *, outage: bool) -> bool:
        """Fire the oldest tick that has come, or with `outage` all at once, and ticks that waited
        for the end of a sequence; whether there may be more."""
        store, declared, now = self._app.store, self._app.registry.schedules(), self._clock.now()
        schedules = await self._schedules()
        waiting = [each.name for each in schedules if each.waiting_tick is not None]
        tick = min((tick for each in schedules if (tick := _next_tick(each)) <= now), default=None)
        if tick is None and not waiting:
            return False
        publisher = Publisher(store, None, self._app.observers)
        fired = await store.run(
            fire,
            store,
            declared,
            ended=waiting,
            watched=publisher.watched,
            now=now if outage or tick is None else tick,
        )
        publisher.publish_soon(fired.effects)
        if tick is None:
            return any(isinstance(event, ScheduleFired) for event in fired.effects.events)
        return fired.schedules > 0  # none, if the test itself has locked the schedule

    def drained(self) -> None:
        self._drained_at = self._clock.now()

    async def _schedules(self) -> list[ScheduleRecord]:
        """Those that a worker with the code of the app would fire."""
        store, declared = self._app.store, self._app.registry.schedules()
        found: list[ScheduleRecord] = []
        after: str | None = None
        while True:
            page = await store.run(store.list_schedules, after=after, limit=PAGE)
            found += page
            if len(page) < PAGE:
                break
            after = page[-1].name
        return [
            each
            for each in found
            if each.paused_at is None and (not each.declared or each.name in declared)
        ]


def _next_tick(schedule: ScheduleRecord) -> datetime:
    """`next_at` may be earlier: it is also the time to look whether a sequence has ended."""
    waiting = schedule.waiting_tick
    return schedule.next_at if waiting is None else schedule.timetable.next_after(waiting)
