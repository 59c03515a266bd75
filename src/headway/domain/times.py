"""Which lengths of time and which moments are allowed: those that every store can keep and add to
the present, and that can be shown in every time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from headway.errors import InvalidOption

LONGEST: Final = 36_525 * 86_400.0
"""Seconds in a hundred years."""
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


def check_seconds(what: str, seconds: object, *, zero: bool = False) -> float:
    """`seconds` as a number, if so much time can pass; 0 only with `zero`."""
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        kind = cast("type[Any]", type(seconds)).__name__
        raise InvalidOption(f"{what} is a number of seconds, not {kind}")
    if not (seconds >= 0 if zero else seconds > 0):
        least = "0 seconds or more" if zero else "longer than 0 seconds"
        raise InvalidOption(f"{what} must be {least}, not {seconds!r}")
    if seconds > LONGEST:
        years = 100 * (seconds / LONGEST)
        raise InvalidOption(f"{what} must be 100 years or less, not {years:.6g} years")
    return float(seconds)


def check_moment(what: str, moment: object) -> datetime:
    """`moment`, if it has a time zone and lies within the years that are allowed."""
    if not isinstance(moment, datetime):
        kind = cast("type[Any]", type(moment)).__name__
        raise InvalidOption(f"{what} needs a datetime, not {kind}")
    if moment.utcoffset() is None:
        raise InvalidOption(
            f"{what} needs a datetime with a time zone; use datetime.now(UTC) or .astimezone()"
        )
    if not EARLIEST <= moment <= LATEST:
        raise InvalidOption(
            f"{what} needs a time between the years {EARLIEST.year} and {LATEST.year}, not {moment}"
        )
    return moment
