"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headway.domain.text import length_arguments, moment_in

NIGHT = datetime(2026, 11, 17, 1, 30, tzinfo=UTC)
EVENING = datetime(2026, 11, 17, 23, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "tz", "text"),
    [
        (NIGHT, None, "2026-11-17 01:30:00 UTC"),
        (NIGHT, "UTC", "2026-11-17 01:30:00 UTC"),
        (NIGHT, "Europe/Berlin", "2026-11-17 01:30:00 UTC (02:30 Europe/Berlin)"),
        (EVENING, "Europe/Berlin", "2026-11-17 23:30:00 UTC (Wed 00:30 Europe/Berlin)"),
        (NIGHT, "America/New_York", "2026-11-17 01:30:00 UTC (Mon 20:30 America/New_York)"),
        (NIGHT, "Europe/Nowhere", "2026-11-17 01:30:00 UTC"),
        (NIGHT, "../etc/passwd", "2026-11-17 01:30:00 UTC"),
    ],
)
def test_a_moment_in_a_time_zone(moment: datetime, tz: str | None, text: str) -> None:
    assert moment_in(moment, tz) == text


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(), "seconds=0"),
        (timedelta(hours=1), "hours=1"),
        (timedelta(seconds=10), "seconds=10"),
        (timedelta(days=36_525), "days=36525"),
        (timedelta(days=1, minutes=90), "days=1, hours=1, minutes=30"),
        (timedelta(seconds=59.999999), "seconds=59.999999"),
        (timedelta(microseconds=1), "seconds=1e-06"),
    ],
)
def test_a_length_of_time_as_code(length: timedelta, text: str) -> None:
    assert length_arguments(length) == text
