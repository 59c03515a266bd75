"""Checks of values that users give: names, keys, ids, parameters of URLs, numbers, times.

A length of time or a moment is allowed if every store can keep it and add it to the present, and
if every time zone can show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast
from urllib.parse import parse_qsl
from uuid import UUID

from headway.errors import ConfigurationError, InvalidName, InvalidOption

MAX_NAME = 200
MAX_KEY = 500
LONGEST: Final = 36_525 * 86_400.0
"""Seconds in a hundred years."""
EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
SHORT_ID: Final = 8
"""Last digits of an id that are its short form; ids made at one time begin alike."""
SHORTEST_ENDING: Final = 4
"""Fewest digits that name a job."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/\-<>]*")
_CANONICAL_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENDING = re.compile(r"[0-9a-f]{1,31}")
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def check_name(kind: str, name: object) -> str:
    """Return `name` if it may name a job type, queue or worker; otherwise raise InvalidName."""
    name = _check_length(kind, name, MAX_NAME)
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{kind} {name!r} is not allowed: use letters, digits and _ . : / - "
            "and begin with a letter, digit or _"
        )
    return name


def check_key(kind: str, key: object) -> str:
    """Return `key` if it may be a deduplication key: any text without NUL and surrogates."""
    key = _check_length(kind, key, MAX_KEY)
    if "\0" in key or any("\ud800" <= char <= "\udfff" for char in key):
        raise InvalidName(f"a {kind} must not hold NUL or unpaired surrogate characters")
    return key


def _check_length(kind: str, text: object, longest: int) -> str:
    if not isinstance(text, str):
        raise InvalidName(f"a {kind} must be a string, not {_kind(text)}")
    if not text:
        raise InvalidName(f"a {kind} must not be empty")
    if len(text) > longest:
        raise InvalidName(f"a {kind} has at most {longest} characters; this one has {len(text)}")
    return text


def check_identifier(kind: str, name: object) -> str:
    """Return `name` if it may become part of SQL as a schema name or table prefix."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise InvalidName(
            f"{kind} {name!r} is not allowed: use lower-case letters, digits and _, "
            "at most 40 characters, not beginning with a digit"
        )
    return name


def check_parameters(url: str, query: str, known: Iterable[str], hint: str = "") -> None:
    """Refuse unknown parameters in the query of a URL; case does not matter. The message begins
    with `url` and ends with `hint`."""
    names = sorted(known, key=str.lower)
    lower = {name.lower() for name in names}
    strange = [
        name for name, _ in parse_qsl(query, keep_blank_values=True) if name.lower() not in lower
    ]
    if strange:
        raise ConfigurationError(
            f"{url} has no parameter {' or '.join(map(repr, strange))}; "
            f"it takes {', '.join(names) or 'none'}{hint}"
        )


def check_id(id: object) -> str:
    """Return the id of a job or sequence in its canonical form, if it is a UUID."""
    if isinstance(id, UUID):
        return str(id)
    if isinstance(id, str) and _CANONICAL_ID.fullmatch(id):
        return id
    if not isinstance(id, str):
        raise InvalidName(f"an id must be a UUID or a string that holds one, not {_kind(id)}")
    try:
        return str(UUID(id))
    except ValueError:
        raise InvalidName(f"an id must be a UUID; {id[:80]!r} is not one") from None


def check_id_or_ending(id: object) -> str:
    """Return the id, or the ending of an id, in its canonical form: `…9A8057` as `9a8057`."""
    if not isinstance(id, str):
        return check_id(id)
    text = id.strip().removeprefix("…").lower()
    digits = text.replace("-", "")
    if not _ENDING.fullmatch(digits):
        try:
            return check_id(text)
        except InvalidName:
            raise InvalidName(
                f"{id[:80]!r} is not an id; give a whole id or its last {SHORTEST_ENDING} or more "
                "characters"
            ) from None
    if len(digits) < SHORTEST_ENDING:
        raise InvalidName(
            f"{id[:80]!r} is too short; give the last {SHORTEST_ENDING} or more characters of an id"
        )
    whole = digits.rjust(32, "-")
    parts = (whole[:8], whole[8:12], whole[12:16], whole[16:20], whole[20:])
    return "-".join(parts).lstrip("-")


def is_id(text: object) -> bool:
    """Whether the text is an id in its canonical form."""
    return isinstance(text, str) and _CANONICAL_ID.fullmatch(text) is not None


def check_seconds(what: str, seconds: object, *, zero: bool = False) -> float:
    """Return the length of time in seconds, if it is allowed; 0 is allowed only with `zero`."""
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidOption(f"{what} is a number of seconds, not {_kind(seconds)}")
    if not (seconds >= 0 if zero else seconds > 0):
        least = "0 seconds or more" if zero else "longer than 0 seconds"
        raise InvalidOption(f"{what} must be {least}, not {seconds!r}")
    if seconds > LONGEST:
        years = 100 * (min(seconds, 1e300) / LONGEST)
        raise InvalidOption(f"{what} must be 100 years or less, not {years:.6g} years")
    return float(seconds)


def sum_of_lengths(
    what: str, length: object, days: float, hours: float, minutes: float, seconds: float
) -> timedelta:
    """The length of time that is given as a timedelta, as numbers, or as both. `what` is the call,
    such as `Every(...)`."""
    if isinstance(length, int | float) and length and not isinstance(length, bool):
        call = what.removesuffix("...)")
        raise InvalidOption(f"{call}{length!r}) has no unit: write {call}seconds={length!r})")
    try:
        given = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if not length:
            return given
        if isinstance(length, timedelta):
            return length + given
    except (TypeError, ValueError, OverflowError):  # not numbers, nan, or too large
        pass
    raise InvalidOption(
        f"{what} takes a timedelta, or days, hours, minutes and seconds as numbers, of "
        "100 years at most"
    )


def check_moment(what: str, moment: object) -> datetime:
    """Return `moment` if it has a time zone and lies within the allowed years."""
    if not isinstance(moment, datetime):
        raise InvalidOption(f"{what} needs a datetime, not {_kind(moment)}")
    if moment.utcoffset() is None:
        raise InvalidOption(
            f"{what} needs a datetime with a time zone; use datetime.now(UTC) or .astimezone()"
        )
    if not EARLIEST <= moment <= LATEST:
        raise InvalidOption(
            f"{what} needs a time between the years {EARLIEST.year} and {LATEST.year}, not {moment}"
        )
    return moment


def check_whole(what: str, value: object) -> None:
    """Refuse a value that is not a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(f"{what} must be a whole number, not {_kind(value)}")


def check_kind(what: str, value: object, *kinds: type) -> None:
    """Refuse a value that is not an instance of one of these classes."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidOption(f"{what} must be made with {names}, not {_kind(value)}")


def _kind(value: object) -> str:
    return cast("type[Any]", type(value)).__name__
