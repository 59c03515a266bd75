"""The schedule of a job: a time, or a delay by the store's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from headway.domain.validation import check_moment, check_seconds, sum_of_lengths


class At(msgspec.Struct, frozen=True):
    """A time with a time zone, between the years 1900 and 9000; a past one means now."""

    moment: datetime

    def __post_init__(self) -> None:
        check_moment("At(...)", self.moment)


class After:
    """A delay of at most a hundred years, by the store's clock, from the time the job is stored."""

    __slots__ = ("seconds",)

    def __init__(
        self,
        delay: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        what = "After(...)"
        total = sum_of_lengths(what, delay, days, hours, minutes, seconds).total_seconds()
        self.seconds: Final = check_seconds(what, max(0.0, total), zero=True)

    def __repr__(self) -> str:
        return f"After(seconds={self.seconds})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, After) and other.seconds == self.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)


Schedule = At | After
NOW: Final = After()


def due(schedule: At | After, now: datetime) -> datetime:
    """The moment at which a job with this schedule becomes due: never before `now`."""
    match schedule:
        case At(moment):
            return max(moment.astimezone(UTC), now)
        case After():
            return now + timedelta(seconds=schedule.seconds)
