"""What is fired after downtime, and one clear sentence for a wrong limit."""

from __future__ import annotations

import datetime as dates
import math
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from headway import CatchUp
from headway.errors import InvalidOption

HOUR = timedelta(hours=1)


def test_the_limits_of_each_kind() -> None:
    def limits(catch_up: CatchUp) -> tuple[str, timedelta, int]:
        return catch_up.mode, catch_up.within, catch_up.at_most

    assert limits(CatchUp.none()) == ("none", timedelta(), 0)
    assert limits(CatchUp.latest()) == ("latest", HOUR, 1)
    assert limits(CatchUp.latest(hours=6)) == ("latest", 6 * HOUR, 1)
    assert limits(CatchUp.latest(HOUR, minutes=30)) == ("latest", 1.5 * HOUR, 1)
    assert limits(CatchUp.all(days=1)) == ("all", 24 * HOUR, 100)
    assert limits(CatchUp.all(HOUR, at_most=10_000)) == ("all", HOUR, 10_000)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "zero": (lambda: CatchUp.latest(timedelta()), "CatchUp.latest(...) must be longer than 0"),
    "zero hours": (lambda: CatchUp.latest(hours=0), "must be longer than 0 seconds, not 0.0"),
    "negative": (lambda: CatchUp.latest(hours=-1), "must be longer than 0 seconds, not -3600.0"),
    "nan": (lambda: CatchUp.latest(hours=math.nan), "CatchUp.latest(...) takes a timedelta"),
    "a number": (
        lambda: CatchUp.latest(60),  # type: ignore[arg-type]
        "CatchUp.latest(60) has no unit: write CatchUp.latest(seconds=60)",
    ),
    "long": (lambda: CatchUp.all(days=36_526), "must be 100 years or less"),
    "all of no time": (CatchUp.all, "needs a length of time, beyond which ticks are not caught up"),
    "none at most": (
        lambda: CatchUp.all(hours=1, at_most=0),
        "at_most of CatchUp.all(...) must be between 1 and 10,000, not 0",
    ),
    "too many": (lambda: CatchUp.all(hours=1, at_most=10_001), "and 10,000, not 10,001"),
    "bool": (lambda: CatchUp.all(hours=1, at_most=True), "must be a whole number, not bool"),
    "float": (
        lambda: CatchUp.all(hours=1, at_most=1.5),  # type: ignore[arg-type]
        "must be a whole number, not float",
    ),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_limit_is_refused_in_one_sentence(which: str) -> None:
    make, sentence = WRONG[which]
    with pytest.raises(InvalidOption) as refused:
        make()
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "catch_up",
    [CatchUp.none(), CatchUp.latest(), CatchUp.all(days=2, at_most=7)],
    ids=str,
)
def test_it_is_a_value(catch_up: CatchUp) -> None:
    assert msgspec.json.decode(msgspec.json.encode(catch_up), type=CatchUp) == catch_up
    assert eval(repr(catch_up), {"CatchUp": CatchUp, "datetime": dates}) == catch_up
    assert {catch_up: 1}[catch_up] == 1
    with pytest.raises(AttributeError, match="immutable"):
        catch_up.within = HOUR  # type: ignore[misc]


def test_it_reads_well() -> None:
    assert str(CatchUp.none()) == "none"
    assert str(CatchUp.latest()) == "latest within 1 h"
    assert repr(CatchUp.latest()) == "CatchUp.latest(hours=1)"
    assert repr(CatchUp.all(minutes=90)) == "CatchUp.all(hours=1, minutes=30, at_most=100)"
    assert str(CatchUp.all(days=2, at_most=1_000)) == "all within 2 d, at most 1,000"
