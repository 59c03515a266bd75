"""Cron expressions where clocks are set forward and back, against a walk minute by minute."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Cron
from headway.errors import InvalidOption
from tests.domain.schedules.minute_walk import (
    DAY,
    MINUTE,
    Expression,
    Readings,
    changes,
    expected,
    readings,
)

EXPRESSIONS = (
    *("30 2 * * *", "0 0 * * *", "*/15 * * * *", "30 * * * *", "0 3 * * sun", "15 1 1 * *"),
)
MORE_EXPRESSIONS = (
    *("* * * * *", "*/20 2 * * *", "0 */2 * * *", "45 */3 * * *", "0,30 2 * * *"),
    *("10,50 0-4 * * *", "0-59 1 * * *", "0 2,3 * * *", "59 23 * * *", "5 0-23/2 * * *"),
    *("0 0 1,15 * fri", "30 2 29 3 *", "20 0 * * 7"),
)
ZONES = {
    "Europe/Berlin": "an hour, at night",
    "America/New_York": "an hour, west of Greenwich",
    "Australia/Lord_Howe": "half an hour",
    "Africa/Casablanca": "back and forth around Ramadan",
    "Antarctica/Troll": "two hours",
    "Pacific/Apia": "the last change is in 2021",
    "America/Havana": "midnight does not exist, or 00:30 exists twice",
    "Africa/Cairo": "the clock goes back from midnight into the day before",
    "Antarctica/Casey": "three hours",
    "America/Nuuk": "changes on a Saturday evening",
    "Pacific/Chatham": "an offset of 12 h 45 m, changes at a quarter to the hour",
}


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


def ticks(cron: Cron, shown: Readings) -> list[datetime]:
    return list(cron.ticks(shown[0][0], shown[-1][0]))


@pytest.mark.parametrize("tz", ZONES)
def test_ticks_are_those_of_a_walk_minute_by_minute(tz: str) -> None:
    found = changes(tz, 2020, 2024)
    assert found
    for change, _ in found[:4]:
        shown = readings(tz, change - DAY, change + DAY)
        for text in (*EXPRESSIONS, *MORE_EXPRESSIONS):
            assert ticks(Cron(text, tz), shown) == expected(text, shown), (text, change)


@pytest.mark.parametrize("tz", ZONES)
def test_the_next_and_the_last_tick_from_every_moment_around_a_change(tz: str) -> None:
    """Also between two minutes, and in the hour that exists twice."""
    steps = [n * 7 * MINUTE + timedelta(microseconds=n % 3) for n in range(-30, 31)]
    for change, _ in changes(tz, 2020, 2024)[:2]:
        shown = readings(tz, change - 2 * DAY, change + 2 * DAY)
        for text in (*EXPRESSIONS[:4], *MORE_EXPRESSIONS[:8]):
            cron, should = Cron(text, tz), expected(text, shown)
            for moment in (change + step for step in (*steps, timedelta(microseconds=-1))):
                assert cron.next_after(moment) == min(t for t in should if t > moment), moment
                assert cron.last_until(moment) == max(t for t in should if t <= moment), moment


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_zone_at_every_change_from_2020_to_2035() -> None:
    """Zones whose clocks are set alike are walked once."""
    zones = sorted(available_timezones() - {"localtime"})
    alike: dict[tuple[datetime, timedelta, timedelta], str] = {}
    for tz in zones:
        assert Cron("30 2 * * *", tz).tz == tz
        for change, length in changes(tz, 2020, 2035):
            offset = change.astimezone(ZoneInfo(tz)).utcoffset() or timedelta()
            alike.setdefault((change, offset, length), tz)
    assert len(zones) > 400
    assert len(alike) > 500
    for (change, _, _), tz in alike.items():
        shown = readings(tz, change - DAY, change + DAY)
        for text in EXPRESSIONS:
            assert ticks(Cron(text, tz), shown) == expected(text, shown), (tz, text, change)


def test_half_past_two_in_berlin_ticks_once_on_25_october_2026() -> None:
    cron = Cron("30 2 * * *", tz="Europe/Berlin")
    assert list(cron.ticks(utc(2026, 10, 24, 12), utc(2026, 10, 26, 0))) == [
        utc(2026, 10, 25, 0, 30)
    ]
    second = utc(2026, 10, 25, 1, 10)  # 02:10 for the second time
    assert cron.next_after(second) == utc(2026, 10, 26, 1, 30)
    assert cron.last_until(second) == utc(2026, 10, 25, 0, 30)


def test_a_time_that_does_not_exist_ticks_right_after() -> None:
    berlin = Cron("30 2 * * *", tz="Europe/Berlin")
    assert berlin.next_after(utc(2026, 3, 29)) == utc(2026, 3, 29, 1)
    assert berlin.next_after(utc(2026, 3, 29, 1)) == utc(2026, 3, 30, 0, 30)
    several = Cron("0,20,40 2,3 * * *", tz="Europe/Berlin")
    assert list(several.ticks(utc(2026, 3, 29), utc(2026, 3, 29, 2))) == [
        *(utc(2026, 3, 29, 1, minute) for minute in (0, 20, 40)),
    ]


def test_a_day_that_does_not_exist_ticks_when_the_next_begins() -> None:
    """Samoa had no 30 December 2011: its clocks were set forward by 24 hours."""
    cron = Cron("30 2 * * fri", tz="Pacific/Apia")
    assert cron.next_after(utc(2011, 12, 29)) == utc(2011, 12, 30, 10)
    assert utc(2011, 12, 30, 10).astimezone(ZoneInfo("Pacific/Apia")).day == 31


def test_stars_tick_in_every_real_hour() -> None:
    cron = Cron("30 * * * *", tz="Europe/Berlin")
    for day in (utc(2026, 3, 29), utc(2026, 10, 25)):
        assert list(cron.ticks(day, day + DAY)) == [
            day + timedelta(hours=hour, minutes=30) for hour in range(24)
        ]


def test_times_that_no_clock_ever_shows_are_refused() -> None:
    """The clocks of Berlin skip this hour every year."""
    with pytest.raises(InvalidOption, match="the clocks of this time zone never show"):
        Cron("*/15 2 * 3 7L", tz="Europe/Berlin")
    assert Cron("0 2 * 3 7L", tz="Europe/Berlin").next_after(utc(2026, 1, 1)) == utc(2026, 3, 29, 1)


def always_the_clock(text: str, shown: Readings) -> list[datetime]:
    """A bug: ticks whenever the clock shows a matching time."""
    return [minute for minute, reading in shown[1:] if Expression(text).matches(reading)]


def each_reading_once(text: str, shown: Readings) -> list[datetime]:
    """A bug: what was skipped is lost, and stars miss an hour that comes for the second time."""
    found: dict[datetime, datetime] = {}
    for minute, reading in shown[1:]:
        if Expression(text).matches(reading):
            found.setdefault(reading, minute)
    return list(found.values())


@pytest.mark.parametrize(
    ("bug", "text", "change"),
    [
        (always_the_clock, "30 2 * * *", utc(2026, 10, 25, 1)),
        (always_the_clock, "30 2 * * *", utc(2026, 3, 29, 1)),
        (each_reading_once, "30 2 * * *", utc(2026, 3, 29, 1)),
        (each_reading_once, "*/15 * * * *", utc(2026, 10, 25, 1)),
    ],
)
def test_the_walk_sees_bugs(
    bug: Callable[[str, Readings], list[datetime]], text: str, change: datetime
) -> None:
    shown = readings("Europe/Berlin", change - DAY, change + DAY)
    assert bug(text, shown) != expected(text, shown)
    quiet = readings("Europe/Berlin", change + DAY, change + 3 * DAY)
    assert bug(text, quiet) == expected(text, quiet)


def numbers(first: int, last: int) -> st.SearchStrategy[str]:
    number = st.integers(first, last)
    some = st.lists(number, min_size=1, max_size=4).map(lambda found: ",".join(map(str, found)))
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, last).map(lambda size: f"*/{size}")
    return st.one_of(st.just("*"), number.map(str), some, span, step)


CHANGES = [(tz, change) for tz in ZONES for change, _ in changes(tz, 2020, 2024)[:4]]


@given(
    st.tuples(numbers(0, 59), numbers(0, 4), st.just("*"), st.just("*"), numbers(0, 7)),
    st.sampled_from(CHANGES),
    st.timedeltas(-DAY, DAY),
)
def test_any_expression_from_any_moment_around_any_change(
    parts: tuple[str, ...], where: tuple[str, datetime], step: timedelta
) -> None:
    text, (tz, change) = " ".join(parts), where
    cron, moment = Cron(text, tz), change + step
    shown = readings(tz, change - 3 * DAY, change + 3 * DAY)
    should = expected(text, shown)
    later = [tick for tick in should if tick > moment]
    earlier = [tick for tick in should if tick <= moment]
    following, last = cron.next_after(moment), cron.last_until(moment)
    assert following == later[0] if later else following > shown[-1][0]
    assert last == earlier[-1] if earlier else last is not None and last <= shown[0][0]
    assert cron.last_until(following) == following
    assert cron.last_until(following - timedelta(microseconds=1)) == last
