"""Prints results: JSON for programs, tables and lines for people.

Results go to stdout, everything else to stderr. Tables fit the terminal; piped or with --wide,
nothing is cut.
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
NARROW = 16
"""Width to which a column shrinks before others are left out."""
NARROWEST = 8
"""Width to which any column is cut in the end."""
BESIDE = 20
"""Columns for a text that may be below its row: a short one stays beside the others."""
INDENT = " " * 10
"""Before a text below its row."""
SHORT_ID = 8
"""Characters of a shortened id, its last: jobs that were started together differ there."""
_WIDE = "headway.wide"
COLOURS = {
    "blocked": "magenta",
    "scheduled": "blue",
    "pending": "cyan",
    "running": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
    "skipped": "yellow",
    "active": "green",
    "waiting": "cyan",
    "late": "red",
    "paused": "yellow",
    "orphaned": "magenta",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )


def wide_option(function: F) -> F:
    """`--wide`: tables are printed in full, whatever the width of the terminal."""

    def remember(context: click.Context, _: click.Parameter, wide: bool) -> None:
        context.meta[_WIDE] = wide

    return click.option(
        "--wide",
        is_flag=True,
        callback=remember,
        expose_value=False,
        help="Print everything in full, wider than the terminal.",
    )(function)


def terminal_width() -> int | None:
    """Columns that a line may have; None if stdout is no terminal, or with --wide."""
    context = click.get_current_context(silent=True)
    if not sys.stdout.isatty() or (context is not None and context.meta.get(_WIDE)):
        return None
    return shutil.get_terminal_size().columns


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
    """A column of a table. If the terminal is too narrow, ids are shortened first, then a column
    that shrinks is cut, then the columns with a `spare` are left out, the highest first, and then
    all are cut."""

    title: str
    right: bool = False
    id: bool = False
    shrinks: bool = False
    spare: int = 0
    below: bool = False
    """For the last column: a text that does not fit has a line of its own, below the row."""


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], empty: str = ""
) -> None:
    """With a header. Without rows, says `empty`."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        if empty:
            say(empty)
        return
    widths = _widths(columns, cells)
    limit = terminal_width()
    if limit is not None and _total(widths) > limit:
        cells = [
            [
                short_id(cell) if column.id else cell
                for column, cell in zip(columns, row, strict=True)
            ]
            for row in cells
        ]
        widths = _fitting(columns, _widths(columns, cells), limit)
    head = [column.title for column in columns]
    click.echo(click.style(_line(columns, widths, head), bold=True))
    for row in cells:
        click.echo(_line(columns, widths, row, coloured=True))
        if limit is not None and columns[-1].below and width(row[-1]) > widths[-1]:
            click.echo(f"{INDENT}{cut(row[-1], limit - len(INDENT))}")
    left_out = [
        column.title
        for column, wide in zip(columns, widths, strict=True)
        if not wide and not column.below
    ]
    if left_out:
        say(f"left out: {', '.join(left_out)}; --wide prints them")


def short_id(id: str) -> str:
    return id[-SHORT_ID:]


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


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> list[int]:
    return [
        max([width(column.title), *(width(row[place]) for row in cells)])
        for place, column in enumerate(columns)
    ]


def _fitting(columns: Sequence[Column], widths: list[int], limit: int) -> list[int]:
    """Widths that fit the limit; 0 for a column that is left out."""
    kept = list(widths)
    room = limit
    if columns[-1].below:
        kept[-1] = 0
        room -= len(GAP) + min(widths[-1], BESIDE)
    shrinks = [place for place, column in enumerate(columns) if column.shrinks]
    spare = [place for place, column in enumerate(columns) if column.spare]
    spare.sort(key=lambda place: columns[place].spare)
    while _total(fitted := _shrunk(kept, shrinks, room, NARROW)) > room and spare:
        kept[spare.pop()] = 0
    fitted = _shrunk(fitted, range(len(fitted)), limit, NARROWEST)
    beside = limit - _total(fitted) - len(GAP)
    if columns[-1].below and beside >= NARROWEST:
        fitted[-1] = min(widths[-1], beside)
    return fitted


def _shrunk(widths: list[int], places: Sequence[int], limit: int, least: int) -> list[int]:
    """With these columns cut, the widest first, until the table fits or none is left to cut."""
    fitted = list(widths)
    while (excess := _total(fitted) - limit) > 0:
        wide = [place for place in places if fitted[place] > least]
        if not wide:
            break
        widest = max(wide, key=lambda place: fitted[place])
        others = [fitted[place] for place in wide if fitted[place] < fitted[widest]]
        fitted[widest] -= min(excess, max(1, fitted[widest] - max([least, *others])))
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
        text = "" if column.below and width(cell) > columns_wide else cut(cell, columns_wide)
        space = " " * (columns_wide - width(text))
        painted = in_colour(text) if coloured else text
        parts.append(space + painted if column.right else painted + space)
    return GAP.join(parts).rstrip()
