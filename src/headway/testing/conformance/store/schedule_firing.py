"""Firing: each tick starts one job, or is counted as skipped, whoever fires and whenever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from msgspec import structs

from headway.domain.events import ScheduleFired, ScheduleSkipped
from headway.domain.job import JobRecord, JobState
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.firing_policy import LOOK_AGAIN, ON_TIME
from headway.domain.schedules.schedule import ScheduleRecord, tick_id
from headway.domain.schedules.timetable import Every
from headway.domain.settlement import Fail
from headway.errors import InvalidRequest
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.schedules import changes
from headway.schedules.firing import Fired, fire
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, MICROSECOND, StoreCases

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


# Overlap: the last sequence has not ended when the next tick comes.


@case
async def skip_starts_nothing_while_the_last_one_runs(store: Store) -> None:
    await kit.put(store, hourly(overlap="skip"))
    await fired_at(store, NOON)
    fired = await fired_at(store, NOON + HOUR)
    assert fired.effects.events == [
        ScheduleSkipped("nightly", kit.TYPE, "default", NOON + HOUR, "overlap", 1, replaced=False)
    ]
    assert await ticks_of(store) == hours(0)
    assert await counts(store) == (1, 1)
    newest, _ = await kit.runs_of(store, "nightly")
    assert (newest.tick, newest.sequence_id, newest.skipped) == (NOON + HOUR, None, "overlap")
    record = await kit.schedule_of(store)
    assert (record.last_tick, record.next_at) == (NOON, NOON + 2 * HOUR)
    await end(store, NOON + HOUR)
    await fired_at(store, NOON + 2 * HOUR)
    assert await ticks_of(store) == hours(0, 2)


@case
async def a_sequence_that_goes_on_has_not_ended(store: Store) -> None:
    await kit.put(store, hourly(overlap="skip"))
    await fired_at(store, NOON)
    first = await kit.claim_one(store, now=NOON)
    await kit.complete(store, first, None, kit.successor_of(first), now=NOON)
    await fired_at(store, NOON + HOUR)
    assert await counts(store) == (1, 1)
    await end(store, NOON + HOUR)
    await fired_at(store, NOON + 2 * HOUR)
    assert await counts(store) == (2, 1)


@case.each({"failed": "fail", "cancelled": "cancel", "deleted": "delete"})
async def the_last_one_has_ended_when_it_is(store: Store, how: str) -> None:
    await kit.put(store, hourly(overlap="skip"))
    await fired_at(store, NOON)
    job = await kit.claim_one(store, now=NOON)
    match how:
        case "fail":
            await kit.apply(store, Fail(job.id, job.lease.token, ERROR), now=NOON)
        case "cancel":
            await store.run(store.cancel, [job.id], now=NOON)
        case _:
            await store.run(store.delete_jobs, [job.id])
    await fired_at(store, NOON + HOUR)
    assert await counts(store) == (2, 0)


@case
async def allow_starts_another_one(store: Store) -> None:
    await kit.put(store, hourly(overlap="allow"))
    for hour in range(3):
        await fired_at(store, NOON + hour * HOUR)
    assert await ticks_of(store) == hours(0, 1, 2)
    assert {job.state for job in await jobs_of(store)} == {JobState.PENDING}
    assert await counts(store) == (3, 0)


@case
async def cancel_ends_the_last_one(store: Store) -> None:
    await kit.put(store, hourly(overlap="cancel"))
    await fired_at(store, NOON)
    running = await kit.claim_one(store, now=NOON, lease_for=7_200.0)
    fired = await fired_at(store, NOON + HOUR)
    assert [job.state for job in await jobs_of(store)] == [JobState.CANCELLED, JobState.PENDING]
    assert [lost.job_id for lost in fired.effects.lost] == [running.id]
    assert fired.effects.ended == [running.id]
    assert await counts(store) == (2, 0)
    await end(store, NOON + HOUR)
    fired = await fired_at(store, NOON + 2 * HOUR)
    assert fired.effects.ended == []
    states = [job.state for job in await jobs_of(store)]
    assert states == [JobState.CANCELLED, JobState.COMPLETED, JobState.PENDING]


@case
async def queue_one_waits_for_the_last_one(store: Store) -> None:
    await kit.put(store, hourly(overlap="queue_one"))
    await fired_at(store, NOON)
    now = NOON + HOUR
    fired = await fired_at(store, now)
    assert (fired.schedules, fired.next_in) == (1, LOOK_AGAIN.total_seconds())
    record = await kit.schedule_of(store)
    assert (record.waiting_tick, record.next_at) == (now, now + LOOK_AGAIN)
    assert await counts(store) == (1, 0)
    await fired_at(store, now + LOOK_AGAIN)
    assert await ticks_of(store) == hours(0)
    await end(store, now)
    fired = await fired_at(store, now + 1.5 * LOOK_AGAIN)
    assert fired.schedules == 0  # it looks again in time, unless it is told
    await fired_at(store, now + 2 * LOOK_AGAIN)
    assert await ticks_of(store) == hours(0, 1)
    record = await kit.schedule_of(store)
    assert (record.waiting_tick, record.next_at) == (None, NOON + 2 * HOUR)
    assert await counts(store) == (2, 0)


@case
async def queue_one_starts_at_once_when_it_is_told_of_the_end(store: Store) -> None:
    await kit.put(store, hourly(overlap="queue_one"))
    await fired_at(store, NOON)
    now = NOON + HOUR
    await fired_at(store, now)
    fired = await fired_at(store, now + MICROSECOND, ended=("nightly",))
    assert await ticks_of(store) == hours(0)  # it had not ended
    await end(store, now)
    fired = await fired_at(store, now + 2 * MICROSECOND, ended=("nightly", "none"))
    assert fired.schedules == 1
    assert await ticks_of(store) == hours(0, 1)
    assert (await fired_at(store, now + 3 * MICROSECOND, ended=("nightly",))).schedules == 0


@case
async def of_the_ticks_that_wait_the_newest_one_starts(store: Store) -> None:
    await kit.put(store, hourly(overlap="queue_one"))
    for hour in (0, 1, 2, 3):
        await fired_at(store, NOON + hour * HOUR)
    assert (await kit.schedule_of(store)).waiting_tick == NOON + 3 * HOUR
    assert await counts(store) == (1, 2)
    await end(store, NOON + 3 * HOUR)
    # A newer tick is due as well.
    await fired_at(store, NOON + 4 * HOUR)
    assert await ticks_of(store) == hours(0, 4)
    assert await counts(store) == (2, 3)
    skipped = [run.tick for run in await kit.runs_of(store, "nightly") if run.skipped]
    assert sorted(skipped) == hours(1, 2, 3)


@case
async def an_uncommitted_start_keeps_the_next_tick_from_starting(store: Store) -> None:
    await kit.put(store, hourly(overlap="skip"))

    async def later() -> Fired:
        return await fired_at(store, NOON + HOUR)

    async with store.begin() as tx:
        await store.run_in(tx, fire, store, (), now=NOON)
        firing = asyncio.create_task(later())
        await asyncio.wait([firing], timeout=0.2)  # it may wait for the commit
    await firing
    await fired_at(store, NOON + HOUR)
    assert await ticks_of(store) == hours(0)
    assert await counts(store) == (1, 1)


# Catch-up: ticks that passed while no worker ran.


async def caught_up(
    store: Store, catch_up: CatchUp, now: datetime, *, overlap: str = "skip"
) -> list[datetime | None]:
    """The ticks that start at `now` of those since noon."""
    await kit.put(store, hourly(catch_up=catch_up, overlap=overlap))
    await fired_at(store, now)
    passed = int((now - NOON) / HOUR) + 1
    ticks = await ticks_of(store)
    assert await counts(store) == (len(ticks), passed - len(ticks))
    assert (await kit.schedule_of(store)).next_at == NOON + passed * HOUR
    return ticks


MODES = {
    "none": CatchUp.none(),
    "latest": CatchUp.latest(seconds=1),
    "all": CatchUp.all(seconds=1),
}


@case.each(MODES)
async def a_tick_within_10_seconds_is_on_time(store: Store, catch_up: CatchUp) -> None:
    assert await caught_up(store, catch_up, NOON + ON_TIME) == hours(0)


@case.each(MODES)
async def a_tick_after_more_than_10_seconds_was_missed(store: Store, catch_up: CatchUp) -> None:
    now = NOON + ON_TIME + MICROSECOND
    await kit.put(store, hourly(catch_up=catch_up))
    fired = await fired_at(store, now)
    assert fired.effects.events == [
        ScheduleSkipped("nightly", kit.TYPE, "default", NOON, "missed", 1, replaced=False)
    ]
    assert await counts(store) == (0, 1)
    (run,) = await kit.runs_of(store, "nightly")
    assert (run.tick, run.at, run.sequence_id, run.skipped) == (NOON, now, None, "missed")
    assert (await kit.schedule_of(store)).last_at is None


@case
async def latest_starts_the_last_tick(store: Store) -> None:
    catch_up = CatchUp.latest(hours=9)
    assert await caught_up(store, catch_up, NOON + 3.5 * HOUR) == hours(3)


@case.each({"exactly": (timedelta(), [0.0]), "beyond": (MICROSECOND, list[float]())})
async def latest_starts_a_tick_that_is_as_old_as_it_says(
    store: Store, variant: tuple[timedelta, list[float]]
) -> None:
    more, expected = variant
    catch_up = CatchUp.latest(minutes=20)
    now = NOON + timedelta(minutes=20) + more
    assert await caught_up(store, catch_up, now) == hours(*expected)


@case.each({"exactly": (timedelta(), (1, 2, 3)), "beyond": (MICROSECOND, (2, 3))})
async def all_starts_the_ticks_that_are_as_old_as_it_says(
    store: Store, variant: tuple[timedelta, Iterable[float]]
) -> None:
    more, expected = variant
    catch_up = CatchUp.all(hours=2.5)
    now = NOON + 3.5 * HOUR + more
    assert await caught_up(store, catch_up, now) == hours(*expected)


@case
async def all_starts_the_newest_so_many(store: Store) -> None:
    catch_up = CatchUp.all(days=1, at_most=3)
    assert await caught_up(store, catch_up, NOON + 9 * HOUR) == hours(7, 8, 9)
    record = await kit.schedule_of(store)
    assert (record.last_tick, record.last_sequence_id) == (
        NOON + 9 * HOUR,
        tick_id("nightly", NOON + 9 * HOUR),
    )
    runs = await kit.runs_of(store, "nightly")
    assert [(run.tick, run.skipped) for run in runs] == [
        (NOON + 9 * HOUR, None),
        (NOON + 8 * HOUR, None),
        (NOON + 7 * HOUR, None),
        (NOON + 6 * HOUR, "missed"),
    ]


@case
async def ticks_that_are_caught_up_start_beside_one_another(store: Store) -> None:
    catch_up = CatchUp.all(days=1)
    ticks = await caught_up(store, catch_up, NOON + 2 * HOUR, overlap="cancel")
    assert ticks == hours(0, 1, 2)
    assert {job.state for job in await jobs_of(store)} == {JobState.PENDING}


@case.each(
    {
        "skip": ("skip", [0.0], (1, 3), JobState.PENDING),
        "queue_one": ("queue_one", [0.0], (1, 2), JobState.PENDING),
        "cancel": ("cancel", [0.0, 3.0], (2, 2), JobState.CANCELLED),
    }
)
async def caught_up_ticks_do_not_run_beside_an_earlier_one(
    store: Store, variant: tuple[str, list[float], tuple[int, int], JobState]
) -> None:
    overlap, started, counted, first = variant
    await kit.put(store, hourly(overlap=overlap, catch_up=CatchUp.all(days=1)))
    await fired_at(store, NOON)
    await fired_at(store, NOON + 3 * HOUR)
    assert await ticks_of(store) == hours(*started)
    assert await counts(store) == counted
    assert (await jobs_of(store))[0].state is first


@case
async def one_that_a_later_version_wrote_does_not_hold_up_the_others(store: Store) -> None:
    text = '{"overlap": "replace", "timetable": {"moon": "full"}}'
    await kit.put(store, hourly("strange", unreadable=text, next_at=NOON - HOUR), hourly())
    fired = await fired_at(store, NOON)
    assert (fired.schedules, fired.unreadable) == (2, 1)
    assert await ticks_of(store) == [NOON]
    strange = await kit.schedule_of(store, "strange")
    assert (strange.definition.unreadable, strange.fired, strange.skipped) == (text, 0, 0)
    assert strange.next_at > NOON
    for change in (changes.resume, changes.pause):
        await store.run(change, store, "strange", NOON)
    assert (await kit.schedule_of(store, "strange")).definition.unreadable == text
    with raises(InvalidRequest):
        await store.run(changes.trigger, store, "strange", NOON, watched=False)
    with raises(InvalidRequest):
        await store.run(changes.resume, store, "strange", NOON)
    assert len(await store.run(store.list_schedules)) == 2
    await store.run(changes.put, store, "strange", kit.definition(), NOON)
    assert (await kit.schedule_of(store, "strange")).definition == kit.definition()


@case
async def after_three_days_one_tick_is_caught_up(store: Store) -> None:
    minutes = hourly("minutes", timetable=Every(minutes=1))
    await kit.put(store, hourly(), minutes)
    now = NOON + timedelta(days=3, minutes=5, seconds=1)
    await fired_at(store, now)
    assert await ticks_of(store) == [NOON + timedelta(days=3)]
    assert await counts(store) == (1, 72)
    assert await ticks_of(store, "minutes") == [NOON + timedelta(days=3, minutes=5)]
    assert await counts(store, "minutes") == (1, 3 * 24 * 60 + 5)
    assert (await fired_at(store, now)).schedules == 0


@case
async def a_schedule_is_fired_for_a_day_without_a_gap(store: Store) -> None:
    await kit.put(store, hourly(overlap="allow", timetable=Every(minutes=30)))
    now = NOON
    for number in range(120):
        await fired_at(store, now)
        now += timedelta(minutes=12, seconds=number % 7)
    expected = list(Every(minutes=30).ticks(NOON - MICROSECOND, now - timedelta(minutes=12)))
    ticks = [tick for tick in await ticks_of(store) if tick is not None]
    assert ticks == expected[: len(ticks)]
    assert len(ticks) >= len(expected) - 1
    assert await counts(store) == (len(ticks), 0)
