"""The child process: a worker and the dashboard, until the reloader stops it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator

import click

from headway.app import Headway
from headway.cli.dev.attempt_lines import LineObserver
from headway.cli.errors import Failed
from headway.cli.event_loop import run_loop
from headway.cli.output import say
from headway.cli.target import Target
from headway.cli.worker.log_setup import set_up_logs
from headway.cli.worker.parent_pipe import when_orphaned
from headway.domain.text import plural
from headway.errors import ConfigurationError

GRACE = 2.0
"""Seconds for running jobs to finish before a reload."""
TOKEN = "HEADWAY_DEV_TOKEN"
AGAIN = "HEADWAY_DEV_AGAIN"


def main() -> int:
    """`TARGET PORT`; port 0 is no dashboard. Returns 1 if the app cannot be run as it is."""
    target, port = sys.argv[1], int(sys.argv[2])
    token, again = os.environ.pop(TOKEN, ""), bool(os.environ.pop(AGAIN, ""))
    _set_up_logs()
    try:
        run_loop(_develop(Target(target, "command line").load_app(), port, token, again=again))
    except click.ClickException as error:
        error.show()
        return 1
    return 0


async def _develop(app: Headway, port: int, token: str, *, again: bool) -> None:
    lines = LineObserver()
    app.observers.add(lines)
    await app.store.migrate()
    async with app, _dashboard(app, port, token) as url:
        try:
            worker = app.worker(grace=GRACE)
        except ConfigurationError as error:
            raise Failed(f"{error}: write one with @app.job") from error
        if not again:
            say(f"{plural(len(app.registry.handlers()), 'job type')} on {app.store.name}")
            if url is not None:
                say(f"dashboard: {url}")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.request_stop)
        when_orphaned(worker.request_stop)
        try:
            await worker.run()
        finally:
            lines.close()


@contextlib.asynccontextmanager
async def _dashboard(app: Headway, port: int, token: str) -> AsyncGenerator[str | None]:
    """Serve the dashboard while the block runs, if it is installed; its address."""
    if not port:
        yield None
        return
    try:
        from headway.web import Token, dashboard_server  # noqa: PLC0415 - an extra
    except ConfigurationError as error:
        say(f"no dashboard: {error}")
        yield None
        return
    async with dashboard_server(app, auth=Token(token), port=port, allow_writes=True) as url:
        yield f"{url}/login#token={token}"


def _set_up_logs() -> None:
    """Shows the logs of handlers; `LineObserver` prints what Headway does."""
    set_up_logs(verbose=False)
    logging.getLogger("headway").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
