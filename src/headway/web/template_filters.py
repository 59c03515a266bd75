"""Filters of the templates; those that the terminal shares are in `headway.domain.text`."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup

from headway.domain.text import span, visible

LONGEST_TEXT = 20_000
"""Characters shown of one value; the API gives all."""


def printed(value: object) -> object:
    """What templates print. Applied to every expression, before it is escaped for HTML."""
    if value is None or isinstance(value, (Markup, int, float)):
        return value
    return visible(str(value), longest=LONGEST_TEXT, keep="\t\n")


def rate(value: float) -> str:
    if value == 0 or value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def countdown(seconds: float) -> str:
    """`now`, `within 1 s`, `in 12 s`, `in 4 m 10 s`; `headway.js` counts on in the same words."""
    if seconds <= 0:
        return "now"
    return "within 1 s" if seconds <= 1 else f"in {span(math.ceil(seconds))}"


def iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def in_zone(value: datetime, tz: str) -> str:
    """What the clocks of a time zone show: `Tue 02:30 Europe/Berlin`."""
    return f"{value.astimezone(ZoneInfo(tz)):%a %H:%M} {tz}"


def pretty(text: str) -> str:
    """A JSON payload, indented; other text as it is."""
    if len(text) > LONGEST_TEXT * 4:
        return text
    try:
        value: object = msgspec.json.decode(text)
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (msgspec.DecodeError, RecursionError):
        return text
