"""Filters on the command line; the dashboard has the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from headway.domain.filters import parse_filter
from headway.domain.queries import JobFilter
from headway.domain.validation import check_id_or_ending
from headway.domain.views import ShownState
from headway.errors import InvalidName

F = TypeVar("F", bound=Callable[..., Any])

_KEYS = (
    "type:", "queue:", "key:", "schedule:", "error:", "worker:", "created:", "finished:", "args.",
)  # fmt: skip


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
    if ":" not in word:
        return f'"{word}"'
    key, _, value = word.partition(":")
    escaped = value.replace("\\", "\\\\")
    return f'{key}:"{escaped}"'


def read_ids(words: Sequence[str]) -> list[str] | None:
    """The ids or endings of ids, if they were given; None if it is a filter."""
    found = [word for word in words if ":" not in word]
    if not found:
        return None
    if len(found) != len(words):
        raise click.UsageError("name jobs by their ids or by a filter, not by both")
    try:
        return list(dict.fromkeys(map(check_id_or_ending, found)))
    except InvalidName as error:
        raise click.UsageError(f"{error}, or a filter such as type:charge") from None


def _complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    offered = [*(f"state:{state}" for state in ShownState), *_KEYS]
    return [CompletionItem(word) for word in offered if word.startswith(begun)]
