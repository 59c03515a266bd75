"""Text for people: times, counts and foreign text, in the terminal and in the browser."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headway.domain.validation import SHORT_ID
from headway.domain.views import Count, JobAction

DONE: dict[JobAction, str] = {
    JobAction.RETRY: "retried",
    JobAction.CANCEL: "cancelled",
    JobAction.TRIGGER: "triggered",
    JobAction.DELETE: "deleted",
}

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def span(seconds: float | None) -> str:
    """`0.4 ms`, `12 ms`, `3.2 s`, `4 m 10 s`, `1 h 30 m`, `2 d 3 h`; `-` for None."""
    if seconds is None:
        return "-"
    if seconds <= 0:
        return "0 s"
    if seconds < 0.9995:
        milliseconds = seconds * 1000
        return "under 0.1 ms" if milliseconds < 0.05 else f"{_two_figures(milliseconds)} ms"
    if seconds < 59.5:
        return f"{_two_figures(seconds)} s"
    whole = round(seconds)
    if whole >= 86_400:
        return _two_units(whole, 86_400, "d", 3_600, "h")
    if whole >= 3_600:
        return _two_units(whole, 3_600, "h", 60, "m")
    return _two_units(whole, 60, "m", 1, "s")


def _two_units(whole: int, size: int, unit: str, part: int, smaller: str) -> str:
    rest = whole % size // part
    return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")


def _two_figures(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:.0f}"


def length_arguments(length: timedelta) -> str:
    """A length of time as code writes it, without loss: `days=1, seconds=0.5`."""
    minutes, seconds = divmod(length, timedelta(minutes=1))
    numbers = {
        "days": minutes // 1_440,
        "hours": minutes // 60 % 24,
        "minutes": minutes % 60,
        "seconds": seconds.total_seconds(),
    }
    given = [f"{unit}={number:.9g}" for unit, number in numbers.items() if number]
    return ", ".join(given) or "seconds=0"


def ago(when: datetime, now: datetime) -> str:
    """`3 m ago`, `in 5 m`, `now`."""
    seconds = (now - when).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def moment(value: datetime | None) -> str:
    if value is None:
        return "an unknown time"
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def moment_in(value: datetime, tz: str | None) -> str:
    """A moment in UTC and in a time zone: `2026-11-17 01:30:00 UTC (02:30 Europe/Berlin)`. In UTC
    alone for None, and where the time zone is not known."""
    if tz is None or tz == "UTC":
        return moment(value)
    try:
        shown = value.astimezone(ZoneInfo(tz))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return moment(value)
    day = "" if shown.date() == value.astimezone(UTC).date() else f"{shown:%a} "
    return f"{moment(value)} ({day}{shown:%H:%M} {tz})"


def plural(count: int, noun: str) -> str:
    """`1 job`, `1,204 jobs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def number(value: int | Count | None) -> str:
    """`1,204`, or `≈47.2 k` for an estimate."""
    if isinstance(value, Count):
        return f"{value.value:,}" if value.exact else f"≈{_rounded(value.value)}"
    return f"{value or 0:,}"


def found(count: Count, at_most: int) -> str:
    """A count that was made with this bound: `412`, `1,000 or more`, `about 130 k`."""
    if count.exact:
        return f"{count.value:,}"
    if count.value <= at_most:
        return f"{count.value:,} or more"
    return f"about {_rounded(count.value)}"


def _rounded(value: int) -> str:
    """Three figures: an estimate knows no more."""
    near = round(value, 3 - len(str(value))) if value >= 10_000 else value
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if near >= size and near >= 10_000:
            return (
                f"{near / size:,.3g} {unit}" if near < 1_000 * size else f"{near // size:,} {unit}"
            )
    return f"{near:,}"


def visible(text: str, *, longest: int, keep: str = "") -> str:
    """The beginning of a text, with control characters and those that hide or reorder others as
    escapes such as `\\x1b`: foreign text cannot pass for something else. `keep` stays as it is."""
    left_out = len(text) - longest
    if left_out > 0:
        text = text[:longest]
    if not text.isprintable():
        text = "".join(each if each in keep else _escaped(each) for each in text)
    return f"{text}… ({left_out:,} more characters)" if left_out > 0 else text


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    if character in _SHORT:
        return _SHORT[character]
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def short_id(id: str) -> str:
    """The end of an id: ids made at one time begin alike. It can be used in the id's place."""
    return f"…{id[-SHORT_ID:]}" if len(id) > SHORT_ID else id


def shortened(text: str, length: int = 120) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length and len(text) <= length * 4 else f"{line[:length]}…"
