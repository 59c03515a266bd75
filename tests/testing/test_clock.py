"""The clock that is moved by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from headway.ports.clock import Clock
from headway.testing.clock import ManualClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(datetime(2030, 1, 1, 12, tzinfo=UTC))
    as_promised: Clock = clock
    assert as_promised.now() == as_promised.now() == datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert clock.advance(1.5) == datetime(2030, 1, 1, 12, 0, 1, 500_000, tzinfo=UTC)
    assert clock.advance(by=timedelta(microseconds=1)) == clock.now()
    assert clock.monotonic() == 1.500_001


def test_it_speaks_utc_and_goes_forward_only() -> None:
    clock = ManualClock(datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))))
    assert clock.now().utcoffset() == timedelta()
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)
    with pytest.raises(ValueError, match="time zone"):
        ManualClock(datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused
