"""Catch-up: the ticks that passed while no worker ran."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from headway.domain.events import ScheduleSkipped
from headway.domain.job import JobState
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.firing_policy import ON_TIME
from headway.domain.schedules.schedule import tick_id
from headway.domain.schedules.timetable import Every
from headway.errors import InvalidRequest
from headway.ports.store import Store
from headway.schedules import changes
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, StoreCases
from headway.testing.conformance.store.schedule_firing import (
    HOUR,
    NOON,
    counts,
    fired_at,
    hourly,
    hours,
    jobs_of,
    ticks_of,
)

case = StoreCases("schedule_firing")


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
