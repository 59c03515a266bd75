"""Timetables: their ticks, and one clear sentence for everything that is wrong with one."""

from __future__ import annotations

import copy
import datetime as dates
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway import Cron, Every
from headway.domain.schedules.cron_fields import NAMED
from headway.domain.schedules.timetable import decode_timetable, encode_timetable
from headway.domain.validation import EARLIEST, LATEST, LONGEST
from headway.errors import InvalidOption

MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(8000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
MICROSECOND = timedelta(microseconds=1)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "tick"),
    [
        ("*/15 * * * *", utc(2026, 5, 6, 7, 15)),
        ("30 2 * * *", utc(2026, 5, 7, 2, 30)),
        ("0 0 29 2 *", utc(2028, 2, 29)),
        ("0 0 * 2 mon#5", utc(2044, 2, 29)),
        ("0 9 13 * fri", utc(2026, 5, 8, 9)),  # the 13th, or a Friday
        ("0 9 L * *", utc(2026, 5, 31, 9)),
        ("0 9 LW * *", utc(2026, 5, 29, 9)),
        ("0 9 * * 5L", utc(2026, 5, 29, 9)),
        ("0 9 * JUN-AUG Mon", utc(2026, 6, 1, 9)),
        ("5/20 * * * *", utc(2026, 5, 6, 7, 5)),
        ("@hourly", utc(2026, 5, 6, 8)),
        ("@daily", utc(2026, 5, 7)),
        ("@midnight", utc(2026, 5, 7)),
        ("@weekly", utc(2026, 5, 10)),
        ("@monthly", utc(2026, 6, 1)),
        ("@yearly", utc(2027, 1, 1)),
        ("@Annually", utc(2027, 1, 1)),
    ],
)
def test_the_next_tick_of_an_expression(expression: str, tick: datetime) -> None:
    cron = Cron(expression)
    assert cron.next_after(utc(2026, 5, 6, 7, 3, 9)) == tick
    assert cron.last_until(tick) == tick
    assert cron.last_until(tick + MICROSECOND) == tick
    assert cron.next_after(tick) > tick
    assert cron.next_after(tick - MICROSECOND) == tick
    assert list(cron.ticks(tick - MICROSECOND, tick)) == [tick]
    assert list(cron.ticks(tick, tick)) == []


def test_ticks_are_in_utc_whatever_the_zone_of_the_moment() -> None:
    east = datetime(2026, 5, 6, 12, tzinfo=timezone(timedelta(hours=14)))
    for timetable in (Cron("0 8 * * *", "Asia/Tokyo"), Every(hours=1, anchor=east)):
        following, last = timetable.next_after(east), timetable.last_until(east)
        assert following.tzinfo is UTC
        assert last is not None
        assert last.tzinfo is UTC
        assert [tick.tzinfo for tick in islice(timetable.ticks(east, LATEST), 2)] == [UTC, UTC]


REFUSED: dict[str, str] = {
    "61 2 * * *": "Cron('61 2 * * *'): minute '61' is not between 0 and 59",
    "* 24 * * *": "hour '24' is not between 0 and 23",
    "* * 0 * *": "day of month '0' is not between 1 and 31",
    "* * * 13 *": "month '13' is not between 1 and 12",
    "* * * * 8": "day of week '8' is not between 0 and 7",
    "5-61 * * * *": "minute '5-61' has 61, which is not between 0 and 59",
    "50-5 * * * *": "minute '50-5' has 50-5, which ends before it begins",
    "* * * * fri-mon": "day of week 'fri-mon' has fri-mon, which ends before it begins",
    "*/90 * * * *": "minute '*/90' has the step '90', which is not between 1 and 59",
    "* */0 * * *": "hour '*/0' has the step '0', which is not between 1 and 23",
    "*/ * * * *": "minute '*/' has the step '', which is not between 1 and 59",
    "* * L/2 * *": "day of month 'L/2' has a step after 'L'",
    "? * * * *": "minute '?' is not understood; use 0 to 59, and",
    "* -1 * * *": "hour '-1' is not understood",
    "1,,2 * * * *": "minute '1,,2' is not understood",
    "* * * * mon#6": "day of week 'mon#6' is not understood; use 0 to 7, sun to sat, and",
    "* * * foo *": "month 'foo' is not understood; use 1 to 12, jan to dec, and",
    "* * * mon *": "month 'mon' is not understood",
    "٣ * * * *": "minute '٣' is not understood",
    "² * * * *": "minute '²' is not understood",
    "* * * * * *": "six fields are not supported; give five: minute, hour, day of month",
    "* * *": "an expression has five fields, not 3",
    "0 0 30 2 *": "there is no day of month '30' in month '2'",
    "0 0 31 4,6 *": "there is no day of month '31' in month '4,6'",
    "0 0 */30 2 mon#5": "there is no day of month '*/30' in month '2' on day of week 'mon#5'",
    "@reboot": "this is not a known name; use one of @hourly, @daily",
    "@daily *": "this is not a known name",
    "": "Cron(...) needs an expression such as '30 2 * * *'; this one is empty",
    "   ": "this one is empty",
    "0\t0 * * *": "tabs, line breaks and other control characters are not allowed",
    "0 0 * * *\n": "Cron('0 0 * * *\\n'): tabs, line breaks",
    "0 0 * * \x00": "control characters are not allowed",
    "0\u202e 0 * * *": "control characters are not allowed",
    "9" * 5_000: "an expression has at most 200 characters; this one has 5,000",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_a_wrong_expression_is_refused_in_one_sentence(expression: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Cron(expression)
    assert REFUSED[expression] in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ["*"] * 5])
def test_an_expression_is_a_string(expression: Any) -> None:
    with pytest.raises(InvalidOption, match=f"not {type(expression).__name__}$"):
        Cron(expression)


@given(st.lists(st.text(alphabet="0123456789*/,-#Lw @mon\t", max_size=8), max_size=6))
def test_any_text_is_an_expression_or_refused(parts: list[str]) -> None:
    try:
        cron = Cron(" ".join(parts))
    except InvalidOption:
        return
    assert cron.next_after(utc(2026, 1, 1)) > utc(2026, 1, 1)


@pytest.mark.parametrize(
    ("tz", "sentence"),
    [
        ("Europe/Berln", "there is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'?"),
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("america/new york", "did you mean 'America/New_York'?"),
        ("Europe", "there is no time zone 'Europe'; "),
        ("", "there is no time zone ''; use a name such as 'Europe/Berlin'"),
        ("../../etc/passwd", "there is no time zone '../../etc/passwd'; "),
        ("/etc/localtime", "there is no time zone '/etc/localtime'; "),
        ("localtime", "there is no time zone 'localtime'; "),
        ("right/Europe/Berlin", "there is no time zone 'right/Europe/Berlin'; did you mean "),
        ("\x00", "there is no time zone '\\x00'; "),
        ("\ud800", "there is no time zone '\\ud800'; "),
        ("x" * 5_000, "there is no time zone 'xxx"),
        (None, "needs the name of a time zone such as 'Europe/Berlin', not NoneType"),
        (UTC, "needs the name of a time zone such as 'Europe/Berlin', not timezone"),
    ],
)
def test_an_unknown_zone_is_refused_in_one_sentence(tz: Any, sentence: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Cron("@daily", tz=tz)
    assert sentence in str(refused.value)
    assert str(refused.value).isprintable()


def test_ticks_of_an_interval() -> None:
    hourly = Every(hours=1)
    assert hourly.next_after(utc(2026, 5, 6, 7)) == utc(2026, 5, 6, 8)
    assert hourly.last_until(utc(2026, 5, 6, 7)) == utc(2026, 5, 6, 7)
    assert hourly.last_until(utc(2026, 5, 6, 7) - MICROSECOND) == utc(2026, 5, 6, 6)
    odd = Every(timedelta(minutes=7), seconds=0.5, anchor=utc(2026, 1, 1, 0, 0, 30))
    assert list(odd.ticks(utc(2026, 1, 1), utc(2026, 1, 1, 0, 15))) == [
        utc(2026, 1, 1, 0, 0, 30),
        utc(2026, 1, 1, 0, 7, 30) + timedelta(seconds=0.5),
        utc(2026, 1, 1, 0, 14, 31),
    ]
    assert odd.last_until(utc(2025, 12, 31, 23, 59)) == utc(2025, 12, 31, 23, 53, 29) + timedelta(
        seconds=0.5
    ), "the anchor is no beginning"


@given(st.timedeltas(timedelta(seconds=1), timedelta(days=36_525)), MOMENTS, MOMENTS)
def test_an_interval_does_not_drift(
    interval: timedelta, anchor: datetime, moment: datetime
) -> None:
    every = Every(interval, anchor=anchor)
    following, last = every.next_after(moment), every.last_until(moment)
    assert moment < following <= moment + interval
    assert (following - anchor) % interval == timedelta()
    assert last == (following - interval if following - interval >= utc(1970, 1, 1) else None)
    assert decode_timetable(json.loads(json.dumps(encode_timetable(every)))) == every
    assert eval(repr(every), {"Every": Every, "datetime": dates}) == every


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "nothing": (Every, "Every(...) must be 1 second or longer, not 0 seconds"),
    "negative": (lambda: Every(hours=-1), "must be 1 second or longer, not -3600 seconds"),
    "short": (lambda: Every(seconds=0.999), "must be 1 second or longer, not 0.999 seconds"),
    "nan": (lambda: Every(seconds=math.nan), "takes a timedelta, or days, hours, minutes and"),
    "inf": (lambda: Every(seconds=math.inf), "takes a timedelta"),
    "long": (lambda: Every(days=36_526), "Every(...) must be 100 years or less, not 100.003 years"),
    "too long": (lambda: Every(timedelta.max, days=1), "of 100 years at most"),
    "a number": (lambda: Every(60), "Every(60) has no unit: write Every(seconds=60)"),  # type: ignore[arg-type]
    "text": (lambda: Every(hours="1"), "Every(...) takes a timedelta"),  # type: ignore[arg-type]
    "a moment": (lambda: Every(utc(2026, 1, 1)), "takes a timedelta"),  # type: ignore[arg-type]
    "naive anchor": (
        lambda: Every(hours=1, anchor=datetime(2026, 1, 1)),  # noqa: DTZ001
        "Every(anchor=...) needs a datetime with a time zone",
    ),
    "old anchor": (lambda: Every(hours=1, anchor=utc(1066, 1, 1)), "between the years 1900 and"),
    "anchor": (
        lambda: Every(hours=1, anchor="now"),  # type: ignore[arg-type]
        "Every(anchor=...) needs a datetime, not str",
    ),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_interval_is_refused_in_one_sentence(which: str) -> None:
    make, sentence = WRONG[which]
    with pytest.raises(InvalidOption) as refused:
        make()
    assert sentence in str(refused.value)


TIMETABLES = (
    Cron("30 2 * * *", tz="Europe/Berlin"),
    Cron("@yearly"),
    Cron("0 0 * 2 mon#5", tz="America/New_York"),
    Every(hours=1),
    Every(seconds=LONGEST),
    Every(days=1, seconds=1, anchor=utc(2026, 1, 1)),
)


@pytest.mark.parametrize("timetable", TIMETABLES, ids=str)
def test_a_timetable_is_a_value(timetable: Cron | Every) -> None:
    stored = json.loads(json.dumps(encode_timetable(timetable)))
    for other in (copy.copy(timetable), pickle.loads(pickle.dumps(timetable))):
        assert other == timetable
        assert other.next_after(utc(2026, 1, 1)) == timetable.next_after(utc(2026, 1, 1))
    assert decode_timetable(stored) == timetable
    assert eval(repr(timetable), {"Cron": Cron, "Every": Every, "datetime": dates}) == timetable
    assert len({*TIMETABLES, timetable}) == len(TIMETABLES)
    with pytest.raises(FrozenInstanceError):
        setattr(timetable, "tz" if isinstance(timetable, Cron) else "interval", None)


def test_timetables_read_well() -> None:
    assert str(Cron("30  2 * * *", tz="Europe/Berlin")) == "30 2 * * * Europe/Berlin"
    assert repr(Cron(" @daily ")) == "Cron('@daily', tz='UTC')"
    assert str(Every(hours=1)) == "every 1 h"
    assert str(Every(seconds=90)) == "every 1 m 30 s"
    assert repr(Every(hours=1)) == "Every(hours=1)"
    assert repr(Every(hours=25, seconds=90.5)) == "Every(days=1, hours=1, minutes=1, seconds=30.5)"
    assert repr(Every(days=1, anchor=utc(2026, 1, 1))).startswith("Every(days=1, anchor=datetime.")
    assert str(Every(days=1, anchor=utc(2026, 1, 1, 6))) == "every 1 d from 2026-01-01 06:00:00 UTC"
    assert Cron("30  2 * * *") == Cron("30 2 * * *")
    assert Cron("30 2 * * *") != Cron("30 2 * * *", tz="Etc/UTC")
    assert Every(minutes=60) == Every(timedelta(hours=1)) != Every(hours=1, anchor=utc(2026, 1, 1))


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ({}, "this one has nothing"),
        ({"cron": "@daily"}, "this one has cron"),
        ({"cron": 5, "tz": "UTC"}, "this one has cron, tz"),
        ({"every": 60, "anchor": "noon"}, "this one has anchor, every"),
        ({"every": 0, "anchor": "2026-01-01T00:00:00+00:00"}, "must be 1 second or longer"),
    ],
)
def test_a_stored_timetable_that_is_none_is_refused(stored: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        decode_timetable(stored)


def test_a_stored_cron_can_be_read_where_its_zone_is_missing() -> None:
    stored = decode_timetable({"cron": "0 3 * * *", "tz": "Mars/Olympus"})
    assert str(stored) == "0 3 * * * Mars/Olympus"
    with pytest.raises(InvalidOption, match="there is no time zone 'Mars/Olympus'"):
        stored.next_after(utc(2026, 1, 1))


@pytest.mark.parametrize("timetable", TIMETABLES, ids=str)
def test_moments_out_of_range_are_refused_and_the_last_ones_work(timetable: Cron | Every) -> None:
    assert timetable.next_after(LATEST) > LATEST
    assert timetable.next_after(EARLIEST) > EARLIEST
    last = timetable.last_until(LATEST)
    assert last is not None
    assert LATEST - last < timedelta(days=50 * 366)
    beyond = datetime.max.replace(tzinfo=UTC)
    for ask in (
        lambda: timetable.next_after(beyond),
        lambda: timetable.last_until(beyond),
        lambda: timetable.ticks(EARLIEST, beyond),
        lambda: timetable.ticks(datetime.min.replace(tzinfo=UTC), LATEST),
        lambda: timetable.next_after(datetime(2026, 1, 1)),  # noqa: DTZ001
    ):
        with pytest.raises(InvalidOption, match=r"needs a (time between|datetime with)"):
            ask()


@pytest.mark.parametrize("timetable", [Cron("@yearly"), Cron("* * * * *"), Every(days=400)])
def test_no_tick_before_1970_is_the_last(timetable: Cron | Every) -> None:
    assert timetable.last_until(utc(1969, 12, 31, 23, 59, 59)) is None
    assert timetable.last_until(utc(1970, 1, 1)) == utc(1970, 1, 1)


@pytest.mark.timeout(20)
def test_far_apart_moments_are_cheap() -> None:
    """A walk over the years would take minutes."""
    for expression in (*NAMED, "* * * * *", "0 0 29 2 *", "0 0 * 2 mon#5"):
        cron = Cron(expression, tz="Europe/Berlin")
        assert len(list(islice(cron.ticks(utc(1970, 1, 1), LATEST), 3))) == 3
        assert cron.last_until(LATEST) is not None


WITHOUT_CRONSIM = """
import sys
sys.modules["cronsim"] = None
from headway import Cron, Every
assert Every(hours=1)
try:
    Cron("30 2 * * *")
except Exception as error:
    print(type(error).__name__, error)
"""
WITHOUT_ZONES = """
import sys
sys.modules["tzdata"] = None
from headway import Cron
assert Cron("30 2 * * *", tz="UTC")
try:
    Cron("30 2 * * *", tz="Europe/Berlin")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (WITHOUT_CRONSIM, "Cron(...) needs cronsim: "),
        (
            WITHOUT_ZONES,
            "Cron(tz='Europe/Berlin') needs a time zone database, and this system has none: ",
        ),
    ],
)
def test_what_is_not_installed_is_named(
    program: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONTZPATH", "")
    said = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert said.stdout == f'ConfigurationError {sentence}pip install "headway[schedules]"\n'
