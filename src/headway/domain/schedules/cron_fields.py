"""The five fields of a cron expression, and what is wrong with them.

cronsim decides which fields are right. It does not say what is wrong, so that is found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from headway.errors import ConfigurationError, InvalidOption

NAMED: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MAX_EXPRESSION: Final = 200


class _Field(NamedTuple):
    name: str
    first: int
    last: int
    words: tuple[str, ...] = ()
    """Names of the numbers, beginning with `first`."""

    def number(self, text: str) -> int | None:
        text = text.lower()
        if text.isascii() and text.isdigit():
            return int(text)
        return self.first + self.words.index(text) if text in self.words else None


_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)


def simulate(fields: str, reading: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    """The matching readings of a clock that is never changed: those after `reading`, or those
    before it, the nearest first. None if cronsim does not understand the fields.

    cronsim is not given a time zone: where clocks change by half an hour it would leave out ticks.
    """
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigurationError(
            'Cron(...) needs cronsim: pip install "headway[schedules]"'
        ) from None
    try:
        return CronSim(fields, reading, reverse=reverse)
    except CronSimError:
        return iter(())


def check_expression(expression: object) -> str:
    """Return the expression with single spaces, if it is right."""
    if not isinstance(expression, str):
        raise InvalidOption(
            f"Cron(...) needs an expression such as '30 2 * * *', not {type(expression).__name__}"
        )
    if len(expression) > MAX_EXPRESSION:
        raise InvalidOption(
            f"Cron(...): an expression has at most {MAX_EXPRESSION} characters; "
            f"this one has {len(expression):,}"
        )
    if not expression.isprintable():
        raise InvalidOption(
            f"Cron({expression!r}): tabs, line breaks and other control characters are not "
            "allowed; put spaces between the fields"
        )
    parts = expression.split()
    if not parts:
        raise InvalidOption("Cron(...) needs an expression such as '30 2 * * *'; this one is empty")
    fault = _fault(parts)
    if fault is not None:
        raise InvalidOption(f"Cron({expression!r}): {fault}")
    return " ".join(parts)


def five_fields(expression: str) -> str:
    """The fields of a checked expression, which may be a name."""
    return NAMED.get(expression.lower(), expression)


def _fault(parts: list[str]) -> str | None:
    if parts[0].startswith("@"):
        known = len(parts) == 1 and parts[0].lower() in NAMED
        return None if known else f"this is not a known name; use one of {', '.join(NAMED)}"
    if len(parts) == 6:
        return (
            "six fields are not supported; give five: minute, hour, day of month, month and day "
            "of week"
        )
    if len(parts) != 5:
        return (
            f"an expression has five fields, not {len(parts)}: minute, hour, day of month, month "
            "and day of week"
        )
    for position, (field, text) in enumerate(zip(_FIELDS, parts, strict=True)):
        fault = _fault_of_field(field, text)
        alone = " ".join(["*"] * position + [text] + ["*"] * (4 - position))
        if fault is None and not _matches_a_date(alone):
            words = f", {field.words[0]} to {field.words[-1]}" if field.words else ""
            fault = (
                f"is not understood; use {field.first} to {field.last}{words}, and * , - / "
                "as in '*', '1,3', '1-5' or '*/2'"
            )
        if fault is not None:
            return f"{field.name} {text!r} {fault}"
    if not _matches_a_date(" ".join(parts)):
        day, month, weekday = parts[2:]
        also = "" if weekday == "*" else f" on day of week {weekday!r}"
        return f"there is no day of month {day!r} in month {month!r}{also}"
    return None


def _fault_of_field(field: _Field, text: str) -> str | None:
    """What is wrong with a field; None where nothing is, and where only cronsim can tell."""
    for term in text.split(","):
        base, has_step, step = term.partition("/")
        bounds = [field.number(bound) for bound in base.split("-")]
        for bound in bounds:
            if bound is not None and not field.first <= bound <= field.last:
                which = "" if text == str(bound) else f"has {bound}, which "
                return f"{which}is not between {field.first} and {field.last}"
        match bounds:
            case [int(begin), int(end)] if end < begin:
                return f"has {base}, which ends before it begins"
            case _:
                pass
        if has_step:
            size = field.number(step)
            if size is None or not 1 <= size <= field.last:
                return f"has the step {step!r}, which is not between 1 and {field.last}"
            if base != "*" and None in bounds:
                return f"has a step after {base!r}; use one after '*', a number or a range"
    return None


def _matches_a_date(fields: str) -> bool:
    readings = simulate(fields, datetime(2000, 1, 1))  # noqa: DTZ001 - a clock without a zone
    return next(readings, None) is not None
