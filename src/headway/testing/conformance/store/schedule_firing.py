"""Firing: each tick starts one job, or is counted as skipped, whoever fires and whenever."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from msgspec import structs

from headway.domain.events import ScheduleFired
from headway.domain.job import JobRecord, JobState
from headway.domain.schedules.schedule import ScheduleRecord, tick_id
from headway.domain.schedules.timetable import Every
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.schedules.firing import Fired, fire
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, StoreCases

case = StoreCases("schedule_firing")

HOUR = timedelta(hours=1)
NOON = kit.T0.replace(hour=12, minute=0, second=0, microsecond=0)
"""A tick of `Every(hours=1)` and of shorter intervals."""


class Undo(Exception):
    """Raised to leave a transaction without committing it."""


def hourly(name: str = "nightly", next_at: datetime = NOON, **fields: Any) -> ScheduleRecord:
    """A schedule that ticks each hour, at noon for the next time."""
    own = {key: fields.pop(key) for key in list(fields) if key in ScheduleRecord.__struct_fields__}
    return kit.schedule(name, next_at=next_at, definition=kit.definition(**fields), **own)


async def fired_at(
    store: Store, now: datetime, *declared: str, ended: tuple[str, ...] = ()
) -> Fired:
    return await store.run(fire, store, declared, ended=ended, now=now)


async def jobs_of(store: Store, name: str = "nightly") -> list[JobRecord]:
    """The jobs that a schedule started, by tick."""
    found = [job for job in await kit.everything(store) if job.schedule == name]
    return sorted(found, key=lambda job: job.scheduled_for or job.run_at)


async def ticks_of(store: Store, name: str = "nightly") -> list[datetime | None]:
    return [job.scheduled_for for job in await jobs_of(store, name)]


async def counts(store: Store, name: str = "nightly") -> tuple[int, int]:
    """The ticks that started a job, and those that did not."""
    record = await kit.schedule_of(store, name)
    return record.fired, record.skipped


def hours(*numbers: float) -> list[datetime]:
    return [NOON + number * HOUR for number in numbers]


async def end(store: Store, now: datetime, name: str = "nightly") -> None:
    """Run the pending jobs of a schedule to their end."""
    for job in await kit.claim(store, now=now, types=(kit.TYPE,)):
        assert job.schedule == name
        await kit.complete(store, job, now=now)


@case
async def a_tick_starts_one_job(store: Store) -> None:
    await kit.put(store, hourly(input='"x"', queue="q", priority=3))
    early = await fired_at(store, NOON - MICROSECOND)
    assert (early.schedules, early.next_in, early.effects.events) == (0, 0.000001, [])
    now = NOON + timedelta(seconds=0.25)
    fired = await fired_at(store, now)
    assert (fired.schedules, fired.next_in) == (1, 3599.75)
    (job,) = await jobs_of(store)
    assert (job.id, job.scheduled_for) == (tick_id("nightly", NOON), NOON)
    assert (job.state, job.run_at, job.created_at) == (JobState.PENDING, now, now)
    assert (job.type, job.input, job.queue, job.priority) == (kit.TYPE, '"x"', "q", 3)
    assert [event for event in fired.effects.events if isinstance(event, ScheduleFired)] == [
        ScheduleFired("nightly", kit.TYPE, "q", job.id, NOON, 0.25)
    ]
    record = await kit.schedule_of(store)
    assert (record.last_tick, record.last_at, record.last_sequence_id) == (NOON, now, job.id)
    assert (record.next_at, record.fired, record.skipped) == (NOON + HOUR, 1, 0)
    (run,) = await kit.runs_of(store, "nightly")
    assert (run.tick, run.at, run.sequence_id, run.skipped) == (NOON, now, job.id, None)


@case
async def a_tick_is_fired_once(store: Store) -> None:
    await kit.put(store, hourly(overlap="allow"))
    for seconds in (0, 0, 1, 3599.999999, 3600, 3600, 3601):
        await fired_at(store, NOON + timedelta(seconds=seconds))
    assert await ticks_of(store) == hours(0, 1)
    assert await counts(store) == (2, 0)


@case
async def of_16_firers_one_fires_a_tick(store: Store) -> None:
    names = [f"s{number}" for number in range(30)]
    await kit.put(store, *(hourly(name, overlap="allow") for name in names))
    for hour in range(3):
        answers = await asyncio.gather(*[fired_at(store, NOON + hour * HOUR) for _ in range(16)])
        assert sum(answer.schedules for answer in answers) == len(names)
    for name in names:
        assert await ticks_of(store, name) == hours(0, 1, 2)
        assert await counts(store, name) == (3, 0)
        assert (await kit.schedule_of(store, name)).runs == 3


@case
async def an_interrupted_firing_leaves_nothing(store: Store) -> None:
    await kit.put(store, hourly(), hourly("t"))
    before = await store.run(store.list_schedules)
    with raises(Undo):
        async with store.begin() as tx:
            fired = await store.run_in(tx, fire, store, (), now=NOON)
            assert fired.schedules == 2
            raise Undo
    assert await kit.everything(store) == []
    assert await store.run(store.list_schedules) == before
    assert (await fired_at(store, NOON)).schedules == 2
    assert await ticks_of(store) == hours(0)


def fire_cut_off(store: Store, now: datetime, after: int) -> Operation[Fired]:
    """Fires until it has had the answers of so many statements; then it fails."""
    operation = fire(store, (), now=now)
    answer: Any = None
    for number in count():
        try:
            wanted = operation.send(answer)
        except StopIteration as stop:
            fired: Fired = stop.value
            return fired
        if number == after:
            raise Undo
        answer = yield wanted
    raise AssertionError("it never ends")


@case
async def a_firing_that_is_cut_off_after_any_statement_leaves_nothing(store: Store) -> None:
    await kit.put(store, hourly(overlap="cancel"), hourly("other", overlap="queue_one"))
    await fired_at(store, NOON)
    now = NOON + HOUR

    async def everything() -> object:
        runs = [await kit.runs_of(store, name) for name in ("nightly", "other")]
        return await store.run(store.list_schedules), runs, await kit.snapshot(store)

    before = await everything()
    for number in count():
        try:
            await store.run(fire_cut_off, store, now, number)
        except Undo:
            assert await everything() == before
        else:
            break
    assert await counts(store) == (2, 0)
    assert (await kit.schedule_of(store, "other")).waiting_tick == now


@case
async def a_tick_that_has_its_job_starts_no_other(store: Store) -> None:
    record = hourly(overlap="allow")
    await kit.put(store, record)
    await fired_at(store, NOON)
    await kit.put(store, structs.replace(record, fired=1, runs=1))
    fired = await fired_at(store, NOON + timedelta(seconds=1))
    assert await ticks_of(store) == hours(0)
    assert await counts(store) == (1, 0)
    assert fired.effects.events == []
    assert (await kit.schedule_of(store)).next_at == NOON + HOUR


@case
async def a_clock_set_back_fires_nothing_twice(store: Store) -> None:
    minutes = Every(minutes=1)
    overlaps = ("allow", "skip", "queue_one", "cancel")
    await kit.put(
        store, *(hourly(one, timetable=minutes, overlap=one, queue=one) for one in overlaps)
    )
    for minute in range(60):
        await fired_at(store, NOON + minute * timedelta(minutes=1))
    before = {one: await ticks_of(store, one) for one in overlaps}
    for minute in range(0, 60, 7):  # an hour back
        assert (await fired_at(store, NOON + minute * timedelta(minutes=1))).schedules == 0
    assert {one: await ticks_of(store, one) for one in overlaps} == before
    await fired_at(store, NOON + HOUR)
    assert await ticks_of(store, "allow") == [NOON + n * minutes.interval for n in range(61)]


@case
async def a_clock_set_back_does_not_move_a_waiting_tick(store: Store) -> None:
    await kit.put(store, hourly(overlap="queue_one"))
    await fired_at(store, NOON)
    await fired_at(store, NOON + HOUR)
    back = NOON - 5 * HOUR
    await end(store, NOON + HOUR)
    fired = await fired_at(store, back, ended=("nightly",))
    assert fired.schedules == 1
    assert await ticks_of(store) == hours(0, 1)
    record = await kit.schedule_of(store)
    assert (record.next_at, record.waiting_tick) == (NOON + 2 * HOUR, None)
    await end(store, NOON + HOUR)
    await fired_at(store, back + HOUR)
    await fired_at(store, NOON + HOUR)
    assert await ticks_of(store) == hours(0, 1)


@case
async def a_clock_set_forward_catches_up(store: Store) -> None:
    await kit.put(store, hourly())
    await fired_at(store, NOON)
    await end(store, NOON)
    await fired_at(store, NOON + 5 * HOUR)
    assert await ticks_of(store) == hours(0, 5)
    assert await counts(store) == (2, 4)


@case
async def jitter_moves_the_due_time_only(store: Store) -> None:
    names = [f"s{number}" for number in range(20)]
    await kit.put(store, *(hourly(name, jitter=30.0) for name in names))
    now = NOON + timedelta(seconds=5)
    await fired_at(store, now)
    jobs = [job for name in names for job in await jobs_of(store, name)]
    assert [job.scheduled_for for job in jobs] == [NOON] * len(names)
    delays = [(job.run_at - NOON).total_seconds() for job in jobs]
    assert all(5.0 <= delay <= 30.0 for delay in delays)
    assert len(set(delays)) > 5
    records = await store.run(store.list_schedules)
    assert {record.next_at for record in records} == {NOON + HOUR}
    # It is the same whoever fires.
    delay = kit.definition(jitter=30.0).delay(names[0], NOON)
    assert jobs[0].run_at == max(NOON + delay, now)


@case
async def firers_take_only_what_they_may(store: Store) -> None:
    await kit.put(
        store,
        hourly("put"),
        hourly("mine", declaration="aa"),
        hourly("theirs", declaration="bb"),
        hourly("paused", paused_at=NOON - HOUR),
    )
    fired = await fired_at(store, NOON, "mine", "paused")
    assert (fired.schedules, fired.next_in) == (2, 3600.0)
    assert Counter(job.schedule for job in await kit.everything(store)) == {"put": 1, "mine": 1}
    fired = await fired_at(store, NOON + timedelta(seconds=1), "theirs")
    assert (fired.schedules, await ticks_of(store, "theirs")) == (1, [NOON])


@case
async def an_orphaned_schedule_stops(store: Store) -> None:
    await kit.put(store, hourly(declaration="aa"))
    for hour in range(4):
        fired = await fired_at(store, NOON + hour * HOUR, "another")
        assert (fired.schedules, fired.next_in) == (0, None)
    assert await kit.everything(store) == []
