"""Runs the coroutine of a command; errors that a user can act on become `Error: …`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from headway.cli.errors import Failed, code_of
from headway.cli.target import with_target
from headway.errors import HeadwayError

T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - it may not be installed
    except ModuleNotFoundError:
        run = asyncio.run
    else:
        run = uvloop.run
    try:
        return run(main)
    except HeadwayError as error:
        raise Failed(with_target(str(error)), code_of(error)) from error
