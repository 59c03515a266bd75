"""`headway dashboard`: serves the pages and the admin API by themselves."""

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
    "--port", type=click.IntRange(1, 65_535), default=8420, show_default=True, help="Its port."
)
@click.option(
    "--write",
    "allow_writes",
    is_flag=True,
    help="Allow retrying, cancelling, pausing and the like.",
)
@click.option(
    "--token",
    envvar="HEADWAY_TOKEN",
    help="What lets people in.  [env: HEADWAY_TOKEN; default: a new one, printed]",
)
@click.option("--user", help="Ask for this user and a password instead of a token.")
@click.option("--password", help="Better: HEADWAY_DASHBOARD_PASSWORD in the environment.")
@click.option(
    "--redact",
    multiple=True,
    metavar="FIELD",
    help="A payload field that is not shown; repeatable.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A further host name that browsers use for it; repeatable.",
)
@click.option("--base-path", default="", help="The path under which a proxy offers it: /jobs.")
def dashboard(
    app: Headway,
    host: str,
    port: int,
    allow_writes: bool,
    token: str | None,
    user: str | None,
    password: str | None,
    redact: tuple[str, ...],
    hosts: tuple[str, ...],
    base_path: str,
) -> None:
    """Serve the dashboard and the admin API until Ctrl-C.

    Read-only unless started with --write, and on this machine alone unless --host says otherwise.
    """
    run_loop(
        _serve(
            app,
            _who(user, password, token),
            host=host,
            port=port,
            allow_writes=allow_writes,
            redact=redact,
            hosts=hosts,
            base_path=base_path,
        )
    )


async def _serve(app: Headway, who: _Who, *, allow_writes: bool, **options: Any) -> None:
    from headway.web import Password, Token, dashboard_server  # noqa: PLC0415 - an extra

    auth = Token(who.secret) if who.user is None else Password(who.user, who.secret)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    async with dashboard_server(app, auth=auth, allow_writes=allow_writes, **options) as url:
        link = f"{url}/login#token={who.secret}" if who.generated else url
        say(f"dashboard of {app.store.name}: {link}")
        say("read and write" if allow_writes else "read-only; --write allows actions")
        await ending.wait()


@dataclass(frozen=True)
class _Who:
    """Who is let in: a user with a password, or whoever has the token."""

    user: str | None
    secret: str
    generated: bool = False


def _who(user: str | None, password: str | None, token: str | None) -> _Who:
    if (user is None) != (password is None):
        raise click.UsageError("--user and --password go together")
    if user is not None and password is not None:
        return _Who(user, password)
    return _Who(None, token or secrets.token_urlsafe(32), generated=not token)
