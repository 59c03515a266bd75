"""A command's access to a store: the questions and actions of an app, or of a dashboard."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from headway.app import Headway
from headway.cli.dashboard_client import DashboardClient
from headway.cli.event_loop import run_loop
from headway.cli.target import DashboardUrl
from headway.ports.admin import Actions, Questions

T = TypeVar("T")


@dataclass(frozen=True)
class Session:
    store: str
    """Its name, or the address of the dashboard."""
    questions: Questions
    actions: Actions
    app: Headway | None
    """None for a dashboard."""


def in_session(target: Headway | DashboardUrl, command: Callable[[Session], Awaitable[T]]) -> T:
    """Run the command while the app is open; errors become exit codes."""

    async def main() -> T:
        if isinstance(target, DashboardUrl):
            client = DashboardClient(target.url, os.environ.get("HEADWAY_TOKEN"))
            both = cast("Questions", client), cast("Actions", client)
            return await command(Session(target.url, *both, None))
        async with target as app:
            return await command(Session(app.store.name, app.questions, app.actions(_actor()), app))

    return run_loop(main())


def _actor() -> str:
    """The user and the host, for the audit."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return f"cli:{user}@{socket.gethostname()}"
