"""Times as people write them on the command line: `5m`, `1h30m`, `2026-12-24T18:00`."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

import click

from headway.domain.validation import EARLIEST, LATEST, check_moment, check_seconds
from headway.errors import InvalidOption

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def duration(text: str) -> float:
    """Seconds, from `90`, `90s`, `5m`, `1h30m`, `2d`."""
    plain = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return _bounded(float(plain))
    if not _WHOLE.fullmatch(plain):
        raise click.BadParameter(
            f"{text[:40]!r} is not a duration; write 30s, 5m, 1h30m or 2d (a number is seconds)"
        )
    parts = _PART.findall(plain)
    return _bounded(math.fsum(float(number) * _UNITS[unit] for number, unit in parts))


def _bounded(seconds: float) -> float:
    try:
        return check_seconds("a duration", seconds, zero=True)
    except InvalidOption as error:
        raise click.BadParameter(str(error)) from None


def moment(text: str) -> datetime:
    """A point in time, in ISO 8601; without an offset it is this machine's local time."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise click.BadParameter(
            f"{text[:40]!r} is not a time; write 2026-12-24T18:00 or 2026-12-24T18:00+01:00"
        ) from None
    try:
        return check_moment("a time", found.astimezone()).astimezone(UTC)
    except (InvalidOption, ValueError, OverflowError, OSError):
        raise click.BadParameter(
            f"{text[:40]!r} is out of reach; give a time between the years "
            f"{EARLIEST.year} and {LATEST.year}"
        ) from None
