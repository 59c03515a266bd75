"""The ticks that a cron expression should have: found minute by minute, without cronsim.

A program that wakes up every minute of UTC, reads the clock of a zone, and does as Debian's cron:
a clock that was set forward has the skipped minutes made up for at once, a clock that was set back
waits until it shows a new minute. Expressions with `*` for minutes or hours follow the clock alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
_WEEKDAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}


@dataclass(frozen=True)
class Expression:
    """A cron expression of numbers, days of the week, lists, ranges and steps."""

    text: str

    @cached_property
    def follows_the_clock(self) -> bool:
        minutes, hours = self.text.split()[:2]
        return minutes[0] == "*" or hours[0] == "*"

    @cached_property
    def _numbers(self) -> list[set[int]]:
        limits = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
        parts = zip(self.text.split(), limits, strict=True)
        numbers = [set(_numbers(part, *limit)) for part, limit in parts]
        numbers[4] = {day % 7 for day in numbers[4]}
        return numbers

    @cached_property
    def _both_days(self) -> bool:
        parts = self.text.split()
        return parts[2][0] == "*" or parts[4][0] == "*"

    def matches(self, reading: datetime) -> bool:
        minutes, hours, days, months, weekdays = self._numbers
        if reading.minute not in minutes or reading.hour not in hours:
            return False
        day, weekday = reading.day in days, reading.isoweekday() % 7 in weekdays
        return reading.month in months and (day and weekday if self._both_days else day or weekday)


def _numbers(part: str, first: int, last: int) -> Iterator[int]:
    for term in part.split(","):
        base, _, step = term.partition("/")
        begin, _, end = base.partition("-")
        if base == "*":
            yield from range(first, last + 1, int(step or 1))
        elif end or step:
            yield from range(int(begin), int(end or last) + 1, int(step or 1))
        else:
            yield _WEEKDAYS[base] if base in _WEEKDAYS else int(base)


Readings = list[tuple[datetime, datetime]]
"""Minutes of UTC, each with what the clock of a zone shows then."""


def readings(tz: str, since: datetime, until: datetime) -> Readings:
    zone = ZoneInfo(tz)
    minutes = (since + n * MINUTE for n in range((until - since) // MINUTE + 1))
    return [(minute, minute.astimezone(zone).replace(tzinfo=None, fold=0)) for minute in minutes]


def expected(text: str, shown: Readings) -> list[datetime]:
    """The ticks after the first of these minutes, at which no clock may just have been set."""
    expression = Expression(text)
    matches = expression.matches
    if expression.follows_the_clock:
        return [minute for minute, reading in shown[1:] if matches(reading)]
    ticks: list[datetime] = []
    newest = shown[0][1]
    for minute, reading in shown[1:]:
        fire = False
        while newest < reading:
            newest += MINUTE
            fire = matches(newest) or fire
        if fire:
            ticks.append(minute)
    return ticks


def changes(tz: str, first_year: int, last_year: int) -> list[tuple[datetime, timedelta]]:
    """The moments at which clocks of the zone are set, with the length of the change."""
    zone = ZoneInfo(tz)

    def offset(moment: datetime) -> timedelta:
        return moment.astimezone(zone).utcoffset() or timedelta()

    found: list[tuple[datetime, timedelta]] = []
    day = datetime(first_year, 1, 1, tzinfo=UTC)
    old = offset(day)
    while day.year <= last_year:
        before, day = day, day + DAY
        new = offset(day)
        if new != old:
            low, high = before, day
            while high - low > MINUTE:
                middle = low + (high - low) // (2 * MINUTE) * MINUTE
                low, high = (low, middle) if offset(middle) == new else (middle, high)
            found.append((high, new - old))
            old = new
    return found
