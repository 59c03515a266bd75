"""`headway dashboard`: serves the dashboard and the admin API."""

from __future__ import annotations

import asyncio
import secrets
import signal
from dataclasses import dataclass
from typing import Any

import click

from headway.app import Headway
from headway.cli.event_loop import run_loop
from headway.cli.output import say
from headway.cli.target import app_argument


@click.command()
@app_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=8420,
    show_default=True,
    help="The port to listen on.",
)
@click.option(
    "--write",
    "allow_writes",
    is_flag=True,
    help="Allow actions: retry, cancel, trigger, delete, pause, resume, start, limits of queues.",
)
@click.option(
    "--token",
    envvar="HEADWAY_TOKEN",
    help="Access token for the dashboard.  [env: HEADWAY_TOKEN; default: a new one, printed]",
)
@click.option("--user", help="Log in with this user and a password instead of a token.")
@click.option(
    "--password", help="Password of --user; better in the environment: HEADWAY_DASHBOARD_PASSWORD."
)
@click.option(
    "--redact",
    multiple=True,
    metavar="FIELD",
    help="Payload field to hide; repeatable.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Another host name that browsers may use; repeatable.",
)
@click.option("--base-path", default="", help="Path under which a proxy serves it, such as /jobs.")
def dashboard(
    app: Headway, token: str | None, user: str | None, password: str | None, **options: Any
) -> None:
    """Serve the dashboard and the admin API until Ctrl-C.

    Read-only without --write, and only on this machine without --host.
    """
    run_loop(_serve(app, _login(user, password, token), **options))


async def _serve(app: Headway, login: _Login, *, allow_writes: bool, **options: Any) -> None:
    from headway.web import Password, Token, dashboard_server  # noqa: PLC0415 - an extra

    auth = Token(login.secret) if login.user is None else Password(login.user, login.secret)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    async with dashboard_server(app, auth=auth, allow_writes=allow_writes, **options) as url:
        link = f"{url}/login#token={login.secret}" if login.generated else url
        say(f"dashboard of {app.store.name}: {link}")
        say("read and write" if allow_writes else "read-only; --write allows actions")
        await ending.wait()


@dataclass(frozen=True)
class _Login:
    """A user with a password, or a token (user is None)."""

    user: str | None
    secret: str
    generated: bool = False


def _login(user: str | None, password: str | None, token: str | None) -> _Login:
    if (user is None) != (password is None):
        raise click.UsageError("--user and --password go together")
    if user is not None and password is not None:
        return _Login(user, password)
    return _Login(None, token or secrets.token_urlsafe(32), generated=not token)
