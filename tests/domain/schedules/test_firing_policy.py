"""Which ticks start a job, compared with an oracle that looks at every tick; ids and encodings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from headway.domain.due_time import NOW, At
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.firing_policy import (
    LOOK_AGAIN,
    MOST_COUNTED,
    MOST_COUNTED_BY_CRON,
    ON_TIME,
    decide,
    due_ticks,
    run_entries,
)
from headway.domain.schedules.schedule import (
    OVERLAPS,
    ScheduleDefinition,
    ScheduleRecord,
    decode_definition,
    job_of_tick,
    job_of_trigger,
    tick_id,
)
from headway.domain.schedules.timetable import Cron, Every, Timetable
from headway.errors import InvalidOption
from headway.testing.conformance.store import kit

NOON = datetime(2030, 3, 31, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def oracle(
    timetable: Timetable, catch_up: CatchUp, first: datetime, now: datetime
) -> tuple[list[datetime], list[datetime]]:
    """The ticks that start a job and the ones that do not, by looking at each of them."""
    ticks: list[datetime] = []
    tick = timetable.next_after(first - MICROSECOND)
    while tick <= now:
        ticks.append(tick)
        tick = timetable.next_after(tick)
    limit = {"none": 1, "latest": 1, "all": catch_up.at_most}[catch_up.mode]
    started: list[datetime] = []
    for tick in reversed(ticks):
        age = now - tick
        if len(started) < limit and (age <= ON_TIME or age <= catch_up.within):
            started.insert(0, tick)
    return started, [tick for tick in ticks if tick not in started]


timetables: st.SearchStrategy[Timetable] = st.one_of(
    st.builds(lambda n: Every(seconds=n), st.integers(1, 90)),
    st.builds(
        lambda n, anchor: Every(seconds=n, anchor=NOON + seconds(anchor)),
        st.floats(1, 90),
        st.floats(-1e6, 1e6),
    ),
    st.sampled_from(
        [
            Cron("* * * * *"),
            Cron("*/7 * * * *", tz="Europe/Berlin"),
            Cron("0 */2 * * *", tz="America/New_York"),
            Cron("30 2 * * *", tz="Europe/Berlin"),
        ]
    ),
)
catch_ups = st.one_of(
    st.just(CatchUp.none()),
    st.builds(lambda n: CatchUp.latest(seconds(n)), st.integers(1, 4_000)),
    st.builds(
        lambda n, m: CatchUp.all(seconds(n), at_most=m), st.integers(1, 4_000), st.integers(1, 9)
    ),
)
lates = st.one_of(
    st.sampled_from([0.0, 1e-6, 9.999999, 10.0, 10.000001]),
    st.integers(0, 4_000),
    st.floats(0, 4e3),
)


def definition(**fields: Any) -> ScheduleDefinition:
    return kit.definition(**fields)


def most_counted(timetable: Timetable) -> int:
    return MOST_COUNTED_BY_CRON if isinstance(timetable, Cron) else MOST_COUNTED


@given(timetables, catch_ups, lates)
def test_the_ticks_that_start_are_those_of_the_oracle(
    timetable: Timetable, catch_up: CatchUp, late: float
) -> None:
    first = timetable.next_after(NOON)
    now = first + seconds(late)
    started, missed = oracle(timetable, catch_up, first, now)
    kept, rest = due_ticks(definition(timetable=timetable, catch_up=catch_up), first, now)
    assert kept == started
    if missed:
        assert rest == (missed[-1], min(len(missed), most_counted(timetable)))
    else:
        assert rest is None


@given(timetables, catch_ups, lates, st.sampled_from(OVERLAPS), st.booleans(), st.booleans())
def test_every_tick_is_started_skipped_or_waits(
    timetable: Timetable,
    catch_up: CatchUp,
    late: float,
    overlap: Any,
    running: bool,
    waits: bool,
) -> None:
    first = timetable.next_after(NOON)
    waiting = first if waits and overlap == "queue_one" else None
    now = first + seconds(late)
    schedule = record(
        timetable,
        overlap=overlap,
        catch_up=catch_up,
        next_at=first if waiting is None else min(timetable.next_after(first), first + LOOK_AGAIN),
        waiting_tick=waiting,
    )
    decision = decide(schedule, now, running=running)
    passed = list(timetable.ticks(first - MICROSECOND, now))
    skipped = sum(count for _, _, count in decision.skips)
    if len(passed) <= most_counted(timetable):
        assert len(decision.start) + skipped + (decision.waiting_tick is not None) == len(passed)
    assert list(decision.start) == sorted(set(decision.start))
    assert set(decision.start) | {tick for tick, _, _ in decision.skips} <= set(passed)
    assert decision.cancel == (overlap == "cancel" and running and bool(decision.start))
    if running and overlap in ("skip", "queue_one"):
        assert decision.start == ()
    if decision.waiting_tick is None:
        assert decision.next_at == timetable.next_after(now)
    else:
        assert (running, overlap) == (True, "queue_one")
        assert decision.waiting_tick in passed
        assert decision.next_at == min(timetable.next_after(now), now + LOOK_AGAIN)
    assert decision.next_at > now


def record(timetable: Timetable, **fields: Any) -> ScheduleRecord:
    own = {key: fields.pop(key) for key in list(fields) if key in ScheduleRecord.__struct_fields__}
    return kit.schedule("s", definition=definition(timetable=timetable, **fields), **own)


@given(st.lists(st.integers(0, 90), min_size=1, max_size=20), catch_ups, st.sampled_from(OVERLAPS))
def test_looks_at_any_times_account_for_every_tick(
    pauses: list[int], catch_up: CatchUp, overlap: Any
) -> None:
    """Also while the clock goes back and forth."""
    timetable = Every(seconds=7)
    schedule = record(timetable, overlap=overlap, catch_up=catch_up, next_at=NOON)
    started: list[datetime] = []
    skipped = 0
    now = newest = NOON
    for number, pause in enumerate(pauses):
        now += seconds(-pause if number % 4 == 3 else pause)
        if schedule.next_at > now:
            continue
        newest = max(newest, now)
        decision = decide(schedule, now, running=number % 3 == 1)
        started += decision.start
        skipped += sum(count for _, _, count in decision.skips)
        schedule = structs.replace(
            schedule, next_at=decision.next_at, waiting_tick=decision.waiting_tick
        )
    waiting = schedule.waiting_tick is not None
    due_now = len(list(timetable.ticks(NOON - MICROSECOND, newest))) if started or skipped else 0
    assert len(started) == len(set(started))
    if started or skipped or waiting:
        assert len(started) + skipped + waiting == due_now


def test_a_tick_waits_even_when_the_clock_was_set_back() -> None:
    schedule = record(
        Every(hours=1),
        overlap="queue_one",
        next_at=NOON + LOOK_AGAIN,
        waiting_tick=NOON,
    )
    decision = decide(schedule, NOON - timedelta(hours=3), running=False)
    assert decision.start == (NOON,)
    assert decision.next_at == NOON + timedelta(hours=1)


def test_a_first_tick_that_the_timetable_has_no_more_is_started() -> None:
    """A new version of the time zone database moved it."""
    odd = NOON + timedelta(minutes=17)
    hourly = definition(timetable=Every(hours=1))
    assert due_ticks(hourly, odd, odd) == ([odd], None)
    later = NOON + timedelta(hours=1)
    assert due_ticks(hourly, odd, later) == ([later], None)


def test_a_missed_tick_that_the_timetable_has_no_more_is_counted_once() -> None:
    odd = NOON + timedelta(minutes=17)
    hourly = definition(timetable=Every(hours=1), catch_up=CatchUp.none())
    assert due_ticks(hourly, odd, odd + timedelta(minutes=1)) == ([], (odd, 1))


def test_very_many_missed_ticks_are_not_counted_one_by_one() -> None:
    every = definition(timetable=Every(seconds=1))
    now = NOON + timedelta(days=3_650)
    kept, missed = due_ticks(every, NOON, now)
    assert kept == [now]
    assert missed == (now - seconds(1), MOST_COUNTED)


def test_the_history_has_the_oldest_tick_first() -> None:
    schedule = record(
        Every(hours=1), catch_up=CatchUp.all(hours=2), next_at=NOON - timedelta(hours=5)
    )
    decision = decide(schedule, NOON, running=False)
    ids = {tick: tick_id("s", tick) for tick in decision.start}
    entries = run_entries(decision, NOON, ids)
    assert [(NOON - entry.tick, entry.skipped) for entry in entries] == [
        (timedelta(hours=3), "missed"),
        (timedelta(hours=2), None),
        (timedelta(hours=1), None),
        (timedelta(), None),
    ]
    assert [entry.sequence_id for entry in entries[1:]] == list(ids.values())
    assert entries[0].sequence_id is None


def test_the_id_of_a_tick_is_made_of_name_and_tick_only() -> None:
    berlin = NOON.astimezone(timezone(timedelta(hours=2)))
    assert tick_id("s", NOON) == tick_id("s", berlin)
    ids = {tick_id(name, NOON + n * seconds(1)) for name in ("s", "t", "s1") for n in range(100)}
    assert len(ids) == 300
    assert tick_id("s", NOON) == "01baa7ae-de00-71fd-bab5-194035db5cfe"


def test_the_id_of_a_tick_sorts_by_time() -> None:
    ids = [tick_id("s", NOON + n * timedelta(milliseconds=1)) for n in range(500)]
    assert ids == sorted(ids)
    for id in ids:
        assert (UUID(id).version, UUID(id).variant) == (7, "specified in RFC 4122")


@given(st.floats(0, 3_600), st.integers(0, 1_000))
def test_jitter_is_within_bounds_and_the_same_for_all(jitter: float, hour: int) -> None:
    schedule = record(Every(hours=1), jitter=jitter)
    tick = NOON + hour * timedelta(hours=1)
    job = job_of_tick(schedule, tick)
    assert job == job_of_tick(schedule, tick)
    assert isinstance(job.schedule, At)
    assert timedelta() <= job.schedule.moment - tick <= seconds(jitter) + MICROSECOND
    assert (job.scheduled_for, job.id) == (tick, tick_id("s", tick))
    assert job_of_tick(record(Every(hours=1)), tick).schedule == At(tick)


def test_jitter_spreads() -> None:
    schedule = record(Every(hours=1), jitter=60.0)
    delays = [schedule.definition.delay(f"s{n}", NOON).total_seconds() for n in range(1_000)]
    assert min(delays) < 3
    assert max(delays) > 57
    assert 25 < sum(delays) / len(delays) < 35


def test_a_trigger_is_due_now_and_for_no_tick_of_the_timetable() -> None:
    job = job_of_trigger(record(Every(hours=1), jitter=60.0), "id", NOON)
    assert (job.id, job.schedule, job.scheduled_for) == ("id", NOW, NOON)


@given(timetables, catch_ups, st.sampled_from(OVERLAPS), st.floats(0, 1e6))
def test_a_definition_is_the_same_after_encoding(
    timetable: Timetable, catch_up: CatchUp, overlap: Any, jitter: float
) -> None:
    made = definition(timetable=timetable, catch_up=catch_up, overlap=overlap, jitter=jitter)
    read = decode_definition(made.encode())
    assert read == made
    assert (read.encode(), read.fingerprint) == (made.encode(), made.fingerprint)


def test_equal_definitions_have_equal_fingerprints() -> None:
    one = definition(timetable=Every(hours=1), jitter=30, timeout=5)
    two = definition(timetable=Every(minutes=60), jitter=30.0, timeout=5.0)
    assert one == two
    assert one.fingerprint == two.fingerprint
    assert one.fingerprint != definition(timetable=Every(hours=1), jitter=31).fingerprint


@pytest.mark.parametrize(
    "wrong", [{"overlap": "never"}, {"overlap": None}, {"jitter": -1.0}, {"catch_up": "all"}]
)
def test_a_wrong_option_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        definition(**wrong)
