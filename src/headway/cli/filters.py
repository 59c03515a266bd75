"""Filters on the command line; the dashboard has the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from headway.domain.filters import parse_filter
from headway.domain.queries import JobFilter
from headway.domain.views import ShownState

F = TypeVar("F", bound=Callable[..., Any])

_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_KEYS = ("type:", "queue:", "key:", "error:", "worker:", "created:", "finished:", "args.")


def filter_argument(function: F) -> F:
    """`[FILTER]...`, as `words`."""
    return click.argument("words", nargs=-1, metavar="[FILTER]...", shell_complete=_complete)(
        function
    )


def targets_argument(function: F) -> F:
    """`ID...` or `FILTER...`, as `words`."""
    return click.argument(
        "words", nargs=-1, required=True, metavar="ID...|FILTER...", shell_complete=_complete
    )(function)


def read_filter(words: Sequence[str]) -> JobFilter:
    """Raises InvalidRequest with the word that is wrong."""
    return parse_filter(" ".join(map(_requoted, words)))


def _requoted(word: str) -> str:
    """Shells remove quotes: `args.city:"New York"` arrives without them."""
    parts = word.split()
    if len(parts) < 2 or '"' in word or all(":" in part for part in parts):
        return word  # one word, quoted as a whole, or several in one argument
    key, _, value = word.partition(":")
    escaped = value.replace("\\", "\\\\")
    return f'{key}:"{escaped}"'


def read_ids(words: Sequence[str]) -> list[str] | None:
    """The ids, if ids were given; None if it is a filter."""
    found = [word for word in words if _ID.fullmatch(word)]
    if not found:
        return None
    if len(found) != len(words):
        raise click.UsageError("name jobs by their ids or by a filter, not by both")
    return [word.lower() for word in dict.fromkeys(found)]


def _complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    offered = [*(f"state:{state}" for state in ShownState), *_KEYS]
    return [CompletionItem(word) for word in offered if word.startswith(begun)]
