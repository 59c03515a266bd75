"""Where a command looks and acts: an app opened here, or a server that is asked over HTTP."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from headway.app import Headway
from headway.cli.errors import clean_errors
from headway.cli.remote import RemoteClient
from headway.cli.target import Remote
from headway.cli.worker_process import run_loop
from headway.ports.admin import Actions, Questions

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """The questions and levers of one store."""

    name: str
    questions: Questions
    actions: Actions
    app: Headway | None
    """None: it is behind a server."""


def visit(place: Headway | Remote, errand: Callable[[Place], Coroutine[Any, Any, T]]) -> T:
    """Go there, run the errand, and come back with what it returns; errors become exit codes."""
    result: list[T] = []

    @clean_errors
    async def there_and_back() -> None:
        async with reach(place) as reached:
            result.append(await errand(reached))

    run_loop(there_and_back())
    return result[0]


@asynccontextmanager
async def reach(place: Headway | Remote) -> AsyncGenerator[Place]:
    if isinstance(place, Remote):
        client = RemoteClient(place.url, os.environ.get("HEADWAY_TOKEN"))
        yield Place(place.url, client, client, None)
        return
    async with place:
        yield Place(place.store.name, place.questions, place.actions(_actor()), place)


def _actor() -> str:
    """Who did it, for the audit."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"
