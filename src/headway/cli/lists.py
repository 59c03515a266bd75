"""Lists of jobs or sequences: their options, their pages, the cursor at their end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import click

from headway.cli.filters import filter_argument, read_filter
from headway.cli.output import Column, print_table, say, watched
from headway.cli.target import target_option
from headway.domain.queries import MAX_PAGE

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class ListPage(Protocol):
    @property
    def cursor(self) -> str | None: ...


A = TypeVar("A", bound=ListPage)


def list_options(function: F) -> F:
    """A filter, the target, `--limit` and `--cursor`."""
    cursor = click.option("--cursor", help="Continue a list; the cursor is printed at its end.")
    limit = click.option(
        "-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many."
    )
    return filter_argument(target_option(limit(cursor(function))))


async def read_list(
    ask: Callable[..., Awaitable[A]],
    items: Callable[[A], list[T]],
    words: Sequence[str],
    cursor: str | None,
    limit: int,
) -> tuple[list[T], str | None]:
    """As many as `limit`; a page may be short where a filter has to read many jobs."""
    which = read_filter(words)
    found: list[T] = []
    while True:
        page = await ask(which, cursor=cursor, limit=min(limit - len(found), MAX_PAGE))
        found += items(page)
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return found, cursor
        if not items(page) and watched():
            say("searching …")


def print_list(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], empty: str, cursor: str | None
) -> None:
    print_table(columns, rows, empty)
    if cursor is not None:
        say(f"there may be more: --cursor {cursor}")
