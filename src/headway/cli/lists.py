"""The commands that list jobs, sequences or schedules, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import click
from msgspec.structs import astuple

from headway.app import Headway
from headway.cli.filters import filter_argument, read_filter
from headway.cli.output import Column, print_table, printed_by, say, watched, wide_option
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, target_option, typed_again
from headway.domain.queries import MAX_PAGE, Page
from headway.domain.schedules.schedule_views import SchedulePage
from headway.domain.views import SequencePage
from headway.ports.admin import Questions

A = TypeVar("A", Page, SequencePage, SchedulePage)


def add_list(
    group: click.Group,
    help: str,
    question: Callable[[Questions], Callable[..., Awaitable[A]]],
    show: Callable[[A], None],
) -> None:
    """Add a command that lists the answers to this question, and prints them with `show`."""

    @group.command("list", help=help)
    @filter_argument
    @target_option
    @click.option(
        "-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many."
    )
    @click.option("--cursor", help="Continue a list; the cursor is printed at its end.")
    @wide_option
    @printed_by(show)
    def _(
        words: tuple[str, ...], target: Headway | DashboardUrl, limit: int, cursor: str | None
    ) -> A:
        async def run(session: Session) -> A:
            ask = partial(question(session.questions), read_filter(words))
            return await read_list(ask, cursor, limit)

        return in_session(target, run)


async def read_list(ask: Callable[..., Awaitable[A]], cursor: str | None, limit: int) -> A:
    """As many as `limit`; a page may be short where a filter has to read many rows."""
    found: list[Any] = []
    while True:
        page = await ask(cursor=cursor, limit=min(limit - len(found), MAX_PAGE))
        items, cursor = astuple(page)
        found += items
        if cursor is None or len(found) >= limit:
            return type(page)(found, cursor)
        if not items and watched():
            say("searching …")


def print_list(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], empty: str, cursor: str | None
) -> None:
    print_table(columns, rows, empty)
    if cursor is not None:
        say(f"there may be more: {typed_again('--cursor', cursor)}")
