"""Timetables: when a schedule ticks. All ticks are moments in UTC."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from headway.domain.schedules.cron_fields import check_expression, five_fields, simulate
from headway.domain.text import length_arguments, span
from headway.domain.text import moment as moment_text
from headway.domain.validation import check_moment, check_seconds, sum_of_lengths
from headway.errors import ConfigurationError, InvalidOption

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_CHECKED_FROM: Final = datetime(2040, 1, 1, tzinfo=UTC)
"""By now the clocks of a zone change by a rule that holds forever."""
_SEARCHED: Final = timedelta(days=36_525)
"""29 February is the same day of the week after 40 years at the latest."""

_OF_THE_MACHINE: Final = ("localtime", "posixrules", "posix/", "right/")
"""Files in a time zone database that differ from machine to machine, or are missing there: workers
would not agree on ticks."""


@dataclass(frozen=True, slots=True, repr=False)
class Cron:
    """Ticks of a cron expression: five fields (minute, hour, day of month, month, day of week) or
    `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`.

    Where the clocks of the time zone change, it does as Debian's cron: a time that does not exist
    ticks once, right after; one that exists twice ticks the first time only. If the field of
    minutes or of hours begins with `*`, it ticks whenever the clock shows a matching time: in every
    real hour.
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        object.__setattr__(self, "expression", check_expression(self.expression))
        self.next_after(_CHECKED_FROM)

    @classmethod
    def stored(cls, expression: str, tz: str) -> Cron:
        """One that was checked before. A process without cronsim, or without the time zone, can
        read and show it; asking for its ticks raises."""
        cron = object.__new__(cls)
        object.__setattr__(cron, "expression", expression)
        object.__setattr__(cron, "tz", tz)
        return cron

    @property
    def _zone(self) -> tzinfo:
        return _find_zone(self.tz)

    @property
    def _fields(self) -> str:
        return five_fields(self.expression)

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, tz={self.tz!r})"

    def __str__(self) -> str:
        return f"{self.expression} {self.tz}"

    def next_after(self, moment: datetime) -> datetime:
        """The first tick strictly after this moment."""
        moment = check_moment("next_after(...)", moment).astimezone(UTC)
        found = [self._first_after(moment, reading) for reading in self._readings(moment)]
        return min(found)

    def last_until(self, moment: datetime) -> datetime | None:
        """The last tick at or before this moment; None if there is none since 1970."""
        moment = check_moment("last_until(...)", moment).astimezone(UTC)
        found = [self._last_until(moment, reading) for reading in self._readings(moment)]
        return max((tick for tick in found if tick is not None), default=None)

    def ticks(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """The ticks after `since` and not after `until`, ascending."""
        return _ticks(self, since, until)

    def count(self, since: datetime, until: datetime, at_most: int) -> int:
        """The number of these ticks, up to `at_most`: each costs time."""
        return sum(1 for _ in islice(self.ticks(since, until), at_most))

    def _first_after(self, moment: datetime, reading: datetime) -> datetime:
        for matching in simulate(self._fields, reading):
            for tick in self._moments(matching):
                if tick > moment:
                    return tick
            if matching - reading > _SEARCHED:
                break
        raise InvalidOption(f"{self!r}: the clocks of this time zone never show a matching time")

    def _last_until(self, moment: datetime, reading: datetime) -> datetime | None:
        including = reading.replace(second=0, microsecond=0) + timedelta(minutes=1)
        for matching in simulate(self._fields, including, reverse=True):
            for tick in reversed(self._moments(matching)):
                if tick < EPOCH:
                    return None
                if tick <= moment:
                    return tick
        return None

    def _readings(self, moment: datetime) -> set[datetime]:
        """What a clock shows at this moment: without zone, that is. In an hour that exists twice
        these are two readings, one of a clock that follows the change and one of a clock that does
        not: ticks are near both."""
        shown = moment.astimezone(self._zone)
        offsets = (shown.replace(fold=fold).utcoffset() for fold in (0, 1))
        return {(moment + (offset or timedelta())).replace(tzinfo=None) for offset in offsets}

    def _moments(self, matching: datetime) -> tuple[datetime, ...]:
        """The ticks of a matching reading, ascending."""
        first, second = (
            matching.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) for fold in (0, 1)
        )
        if first == second:
            return (first,)
        wildcard = any(each.startswith("*") for each in self._fields.split()[:2])
        if first < second:
            return (first, second) if wildcard else (first,)
        return () if wildcard else (self._change(second, first),)

    def _change(self, before: datetime, after: datetime) -> datetime:
        """The moment between these two at which the clocks change."""
        new = after.astimezone(self._zone).utcoffset()
        seconds = bisect_left(
            range((after - before) // _SECOND),
            True,
            key=lambda n: (before + n * _SECOND).astimezone(self._zone).utcoffset() == new,
        )
        return before + seconds * _SECOND


@dataclass(frozen=True, slots=True, repr=False, init=False)
class Every:
    """Ticks at a fixed interval of 1 second to 100 years: at `anchor` and any number of intervals
    after and before it. The default anchor is 1970-01-01 00:00 UTC, so `Every(hours=1)` ticks at
    each full hour of UTC."""

    interval: timedelta
    anchor: datetime

    def __init__(
        self,
        interval: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        anchor: datetime | None = None,
    ) -> None:
        what = "Every(...)"
        total = sum_of_lengths(what, interval, days, hours, minutes, seconds)
        if total < _SECOND:
            raise InvalidOption(
                f"{what} must be 1 second or longer, not {total.total_seconds():g} seconds"
            )
        check_seconds(what, total)
        if anchor is not None:
            check_moment("Every(anchor=...)", anchor)
        object.__setattr__(self, "interval", total)
        object.__setattr__(self, "anchor", (anchor or EPOCH).astimezone(UTC))

    def __repr__(self) -> str:
        anchor = "" if self.anchor == EPOCH else f", anchor={self.anchor!r}"
        return f"Every({length_arguments(self.interval)}{anchor})"

    def __str__(self) -> str:
        anchor = "" if self.anchor == EPOCH else f" from {moment_text(self.anchor)}"
        return f"every {span(self.interval.total_seconds())}{anchor}"

    def next_after(self, moment: datetime) -> datetime:
        """The first tick strictly after this moment."""
        moment = check_moment("next_after(...)", moment).astimezone(UTC)
        return self._last(moment) + self.interval

    def last_until(self, moment: datetime) -> datetime | None:
        """The last tick at or before this moment; None if there is none since 1970."""
        moment = check_moment("last_until(...)", moment).astimezone(UTC)
        tick = self._last(moment)
        return tick if tick >= EPOCH else None

    def ticks(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """The ticks after `since` and not after `until`, ascending."""
        return _ticks(self, since, until)

    def count(self, since: datetime, until: datetime, at_most: int) -> int:
        """The number of these ticks, up to `at_most`."""
        return min(max((self._last(until) - self._last(since)) // self.interval, 0), at_most)

    def _last(self, moment: datetime) -> datetime:
        return moment - (moment - self.anchor) % self.interval


Timetable = Cron | Every


def encode_timetable(timetable: Timetable) -> dict[str, str | float]:
    """The timetable as JSON has it: `{"cron": "30 2 * * *", "tz": "Europe/Berlin"}` or
    `{"every": 3600.0, "anchor": "1970-01-01T00:00:00+00:00"}`."""
    match timetable:
        case Cron():
            return {"cron": timetable.expression, "tz": timetable.tz}
        case Every():
            return {
                "every": timetable.interval.total_seconds(),
                "anchor": timetable.anchor.isoformat(),
            }


def decode_timetable(encoded: Mapping[str, Any]) -> Timetable:
    """The timetable that `encode_timetable` encoded."""
    match encoded:
        case {"cron": str(expression), "tz": str(tz)}:
            return Cron.stored(expression, tz)
        case {"every": int() | float() as seconds, "anchor": str(anchor)}:
            try:
                return Every(seconds=seconds, anchor=datetime.fromisoformat(anchor))
            except ValueError as error:
                if isinstance(error, InvalidOption):
                    raise
        case _:
            pass
    raise InvalidOption(
        "a stored timetable has cron and tz, or every and anchor; this one has "
        f"{', '.join(sorted(map(str, encoded))) or 'nothing'}"
    )


def _ticks(timetable: Timetable, since: datetime, until: datetime) -> Iterator[datetime]:
    check_moment("ticks(since=...)", since)
    check_moment("ticks(until=...)", until)

    def ascending() -> Iterator[datetime]:
        tick = timetable.next_after(since)
        while tick <= until:
            yield tick
            tick = timetable.next_after(tick)

    return ascending()


def _find_zone(tz: object) -> tzinfo:
    if not isinstance(tz, str):
        raise InvalidOption(
            f"Cron(tz=...) needs the name of a time zone such as 'Europe/Berlin', "
            f"not {type(tz).__name__}"
        )
    if tz == "UTC":  # known without a time zone database
        return UTC
    from zoneinfo import (  # noqa: PLC0415 - an app without schedules need not load it
        ZoneInfo,
        ZoneInfoNotFoundError,
        available_timezones,
    )

    try:
        if not tz.startswith(_OF_THE_MACHINE):
            return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    known = {name for name in available_timezones() if not name.startswith(_OF_THE_MACHINE)}
    if not known:
        raise ConfigurationError(
            f"Cron(tz={tz[:80]!r}) needs a time zone database, and this system has none: "
            'pip install "headway[schedules]"'
        )
    raise InvalidOption(f"there is no time zone {tz[:80]!r}; {_suggestion(tz[:80], known)}")


def _suggestion(tz: str, known: set[str]) -> str:
    names = {name.lower(): name for name in sorted(known)}
    cities = {lower.rpartition("/")[2]: lower for lower in names}
    wanted = tz.strip().lower().replace(" ", "_")
    city = get_close_matches(wanted.rpartition("/")[2], cities, n=1, cutoff=0.8)
    near = [cities[city[0]]] if city else get_close_matches(wanted, names, n=1, cutoff=0.5)
    return f"did you mean {names[near[0]]!r}?" if near else "use a name such as 'Europe/Berlin'"
