"""Errors as one line on stderr and an exit code, not as a traceback."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import click

from headway.domain.errors import HeadwayError

P = ParamSpec("P")
T = TypeVar("T")


def clean_errors(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """What a user can act on becomes `Error: …` and exit code 1."""

    @functools.wraps(function)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await function(*args, **kwargs)
        except HeadwayError as error:
            raise click.ClickException(str(error)) from error

    return wrapper
