"""Times as they are written and read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from headway.cli.times import duration, moment
from headway.domain.text import ago, span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        ("90", 90),
        ("0.5", 0.5),
        ("250ms", 0.25),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1.5h", 5400),
        ("1H 30M", 5400),
        ("0", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5 apples", "-5m", "m", "5m!", "inf", "nan", "5y", "1e9"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration; write 30s"):
        duration(text)


@pytest.mark.parametrize("text", ["99999999999", "101 w" + "9" * 400 + "d", "40000d"])
def test_what_is_too_long(text: str) -> None:
    with pytest.raises(click.BadParameter, match="100 years or less"):
        duration(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59", "0001-01-01"])
def test_what_is_out_of_reach(text: str) -> None:
    with pytest.raises(click.BadParameter, match="between the years 1900 and 9000"):
        moment(text)


def test_moments() -> None:
    assert moment("2026-12-24T18:00+01:00") == datetime(2026, 12, 24, 17, tzinfo=UTC)
    local = datetime(2026, 12, 24, 18).astimezone()
    assert moment("2026-12-24T18:00") == local
    with pytest.raises(click.BadParameter, match="is not a time; write"):
        moment("tomorrow")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.00002, "under 0.1 ms"),
        (0.0004, "0.4 ms"),
        (0.012, "12 ms"),
        (0.9996, "1 s"),
        (30, "30 s"),
        (3.24, "3.2 s"),
        (59.97, "1 m"),
        (240, "4 m"),
        (3600, "1 h"),
        (5400, "1 h 30 m"),
        (86_400 * 2 + 3600 * 3, "2 d 3 h"),
        (-240, "0 s"),
    ],
)
def test_span(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_ago() -> None:
    now = datetime.now(UTC)
    assert ago(now - timedelta(minutes=3), now) == "3 m ago"
    assert ago(now + timedelta(minutes=5), now) == "in 5 m"
    assert ago(now, now) == "now"
