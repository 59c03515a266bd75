"""Prints results: JSON for programs, tables and lines for people.

Results go to stdout, everything else to stderr. Tables fit the terminal; piped, nothing is cut.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import click
import msgspec

from headway.admin.json_answers import json_answer
from headway.cli.safe_text import LONGEST, cut, harmless, harmless_json, width
from headway.domain.text import number
from headway.domain.views import Count

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")

GAP = "  "
NARROWEST = 8
"""Fewest columns of a shrunk cell."""
COLOURS = {
    "blocked": "magenta",
    "scheduled": "blue",
    "pending": "cyan",
    "running": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )


def printed_by(show: Callable[[T], None]) -> Callable[[Callable[P, T]], Callable[..., None]]:
    """Prints the result of a command: with `--json` as JSON, otherwise with `show`."""

    def decorate(command: Callable[P, T]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapper(*args: Any, as_json: bool, **kwargs: Any) -> None:
            result = command(*args, **kwargs)
            if as_json:
                print_json(result)
            else:
                show(result)

        return json_option(wrapper)

    return decorate


def colours_wanted() -> bool | None:
    """False if NO_COLOR is set; None lets the terminal decide."""
    return False if os.environ.get("NO_COLOR") else None


def print_json(value: object) -> None:
    """One JSON document, for programs."""
    encoded = msgspec.json.format(msgspec.json.encode(json_answer(value)), indent=2)
    click.echo(harmless_json(encoded.decode()))


def print_json_line(value: object) -> None:
    """One of many JSON documents, a line each."""
    click.echo(harmless_json(msgspec.json.encode(json_answer(value)).decode()))
    sys.stdout.flush()


def say(text: str) -> None:
    """A message for people, on stderr."""
    click.echo(harmless(text, keep_lines=True), err=True)


def tell(text: str, *, keep_lines: bool = False) -> None:
    """A line of the result, on stdout."""
    click.echo(harmless(text, keep_lines=keep_lines))


def watched() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr.isatty()


@dataclass(frozen=True)
class Column:
    """A column of a table. Columns that may shrink are cut where the terminal is too narrow;
    columns that still do not fit are left out, the last ones first."""

    title: str
    shrinks: bool = False
    right: bool = False


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], empty: str = ""
) -> None:
    """With a header; piped, nothing is cut. Without rows, says `empty`."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [
        max([width(column.title), *(width(row[place]) for row in cells)])
        for place, column in enumerate(columns)
    ]
    if sys.stdout.isatty():
        widths = _fitting(columns, widths, shutil.get_terminal_size().columns)
    if cells:
        head = [column.title for column in columns]
        click.echo(click.style(_line(columns, widths, head), bold=True))
    elif empty:
        say(empty)
    for row in cells:
        click.echo(_line(columns, widths, row, coloured=True))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """`name  value`, one a line; fields that are None are left out."""
    shown = [(name, value) for name, value in fields if value is not None]
    longest = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        text = _cell(value)
        click.echo(f"{click.style(f'{name:<{longest}}', bold=True)}{GAP}{in_colour(text)}")


def in_colour(text: str) -> str:
    """A state or a level in its colour; anything else as it is."""
    colour = COLOURS.get(text)
    return click.style(text, fg=colour) if colour else text


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case Count():
            return number(value)
        case _:
            return harmless(str(value), longest=LONGEST)


def _fitting(columns: Sequence[Column], widths: list[int], limit: int) -> list[int]:
    """Widths that fit the limit; 0 for a column that is left out."""
    fitted = list(widths)
    excess = _total(fitted) - limit
    while excess > 0:
        wide = [
            place
            for place, column in enumerate(columns)
            if column.shrinks and fitted[place] > NARROWEST
        ]
        if not wide:
            break
        widest = max(wide, key=lambda place: fitted[place])
        others = [fitted[place] for place in wide if fitted[place] < fitted[widest]]
        least = max([NARROWEST, *others]) if others else NARROWEST
        taken = min(excess, max(1, fitted[widest] - least))
        fitted[widest] -= taken
        excess -= taken
    for place in range(len(columns) - 1, 0, -1):
        if _total(fitted) <= limit:
            break
        fitted[place] = 0
    return fitted


def _total(widths: Sequence[int]) -> int:
    shown = [each for each in widths if each]
    return sum(shown) + len(GAP) * (len(shown) - 1)


def _line(
    columns: Sequence[Column],
    widths: Sequence[int],
    cells: Sequence[str],
    *,
    coloured: bool = False,
) -> str:
    parts: list[str] = []
    for column, columns_wide, cell in zip(columns, widths, cells, strict=True):
        if not columns_wide:
            continue
        text = cut(cell, columns_wide)
        space = " " * (columns_wide - width(text))
        painted = in_colour(text) if coloured else text
        parts.append(space + painted if column.right else painted + space)
    return GAP.join(parts).rstrip()
