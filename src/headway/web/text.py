"""Values as people read them: numbers, spans of time, moments, and text that hides nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec
from markupsafe import Markup

from headway.domain.failure import decode_failure
from headway.domain.views import Counted
from headway.errors import Failure

LONGEST_TEXT = 20_000
"""Characters of one value that a page holds; the API gives all of them."""

# Control characters, and those that reorder or hide others: they would let stored text pass for
# something else. Tabs and line ends are kept.
_SNEAKY = re.compile(
    "[\x00-\x08\x0b\x0c\x0d-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(value: object) -> object:
    """What templates print: text with nothing invisible in it, and not too much of it. Applied to
    every expression, after which it is escaped."""
    if value is None or isinstance(value, (Markup, int, float)):
        return value
    text = str(value)
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]} … {len(text) - LONGEST_TEXT:,} characters left out"
    return _SNEAKY.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨{code:04X}⟩"


def shortened(text: str, length: int = 120) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: length * 4].split())
    return line if len(line) <= length and len(text) <= length * 4 else f"{line[:length]}…"


def number(value: int | Counted | None) -> str:
    if value is None:
        return "0"
    if isinstance(value, Counted):
        return f"{value.value:,}" if value.exact else f"≈{_rounded(value.value)}"
    return f"{value:,}"


def _rounded(value: int) -> str:
    """Three figures: more would claim to know more."""
    near = round(value, 3 - len(str(value))) if value >= 10_000 else value
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if near >= size and near >= 10_000:
            return (
                f"{near / size:,.3g} {unit}" if near < 1_000 * size else f"{near // size:,} {unit}"
            )
    return f"{near:,}"


def found(value: Counted, at_most: int) -> str:
    """A count of what matches, made with this bound."""
    if value.exact:
        return f"{value.value:,}"
    return (
        f"more than {value.value:,}" if value.value <= at_most else f"about {_rounded(value.value)}"
    )


def rate(value: float) -> str:
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def span(seconds: float | None) -> str:
    """`4.2 ms`, `1.3 s`, `4 m 10 s`, `3 h 5 m`, `12 d`: two figures are enough to decide by."""
    if seconds is None:
        return "-"
    if seconds <= 0:
        return "0 s"
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for big, small, size, part in (
        ("d", "h", 86_400, 3_600),
        ("h", "m", 3_600, 60),
        ("m", "s", 60, 1),
    ):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {big} {rest} {small}" if rest else f"{whole // size} {big}"
    return f"{whole} s"


def ago(moment: datetime, now: datetime) -> str:
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def moment(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def pretty(text: str) -> str:
    """A JSON payload, indented; as it is if it cannot be."""
    if len(text) > LONGEST_TEXT * 4:
        return text
    try:
        value: object = msgspec.json.decode(text)
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (msgspec.DecodeError, RecursionError):
        return text


def failure(text: str) -> Failure:
    return decode_failure(text)


def short_id(id: str) -> str:
    """The end of an id: ids made at one time begin alike."""
    return f"…{id[-8:]}" if len(id) > 12 else id
