"""The child process: a worker and the dashboard, until the reloader stops it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import click

from headway.app import Headway
from headway.cli.dev.attempt_lines import LineObserver
from headway.cli.errors import Failed
from headway.cli.event_loop import run_loop
from headway.cli.output import say
from headway.cli.safe_text import harmless
from headway.cli.target import COMMAND_LINE, Target
from headway.cli.worker.log_setup import set_up_logs
from headway.cli.worker.parent_pipe import when_orphaned
from headway.cli.worker.process import handlers_go_on
from headway.domain.events import Event, WorkerStarted
from headway.domain.text import plural
from headway.errors import ConfigurationError, StoreRefused, StoreUnreachable
from headway.worker.worker import Worker

GRACE = 2.0
"""Seconds for running jobs to finish before a reload."""
TRY_EVERY = 0.5
"""Seconds between two looks for a database that does not answer."""
LONGEST_CAUSE = 200
TOKEN = "HEADWAY_DEV_TOKEN"
AGAIN = "HEADWAY_DEV_AGAIN"
"""Set for a child after the first one that was up."""
UP = "HEADWAY_DEV_UP"
"""The number of a pipe's end, to be written to when the child is up."""


def main() -> int:
    """`TARGET FOLDER PORT`; port 0 is no dashboard. Returns 1 if the app cannot be run as it is."""
    text, folder, port = sys.argv[1:]
    token, again = os.environ.pop(TOKEN, ""), bool(os.environ.pop(AGAIN, ""))
    up = _Up(int(os.environ.pop(UP)))
    _set_up_logs()
    try:
        app = Target(text, COMMAND_LINE, Path(folder)).load_app()
        run_loop(_develop(app, int(port), token, up, again=again))
    except asyncio.CancelledError:  # stopped before the worker ran
        return 0
    except click.ClickException as error:
        error.show()
        return 1
    return 0


async def _develop(app: Headway, port: int, token: str, up: _Up, *, again: bool) -> None:
    worker: Worker | None = None
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        if worker is None:
            task.cancel()
        else:
            worker.request_stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    when_orphaned(stop)
    lines = LineObserver()
    app.observers.add(lines)
    app.observers.add(up)
    await _migrate(app)
    async with app, _dashboard(app, port, token) as url:
        try:
            ready = app.worker(grace=GRACE)
        except ConfigurationError as error:
            raise Failed(f"{error}: write one with @app.job") from error
        if not again:
            say(f"{plural(len(app.registry.handlers()), 'job type')} on {app.store.name}")
            if url is not None:
                say(f"dashboard: {url}")
        worker = ready
        try:
            await worker.run()
        finally:
            with contextlib.suppress(OSError):  # the terminal may be closed
                lines.close()
    if handlers_go_on():
        with contextlib.suppress(OSError):
            say("a handler did not stop, and is killed; its job runs again unless it was cancelled")
        os._exit(0)  # else Python would wait for it


class _Up:
    """Tells the reloader that the worker runs."""

    every_job = False

    def __init__(self, pipe: int) -> None:
        os.set_inheritable(pipe, False)
        self._pipe: int | None = pipe

    def observe(self, event: Event) -> None:
        if isinstance(event, WorkerStarted) and self._pipe is not None:
            os.write(self._pipe, b"1")
            os.close(self._pipe)
            self._pipe = None


async def _migrate(app: Headway) -> None:
    """Create the schema; wait for a database that does not answer."""
    told = ""
    while True:
        try:
            await app.store.migrate()
        except StoreRefused as error:  # with advice
            line = f"waiting: {error}"
        except StoreUnreachable as error:
            cause = error.cause.rpartition(" failed: ")[2]
            line = f"waiting for {error.where} ({harmless(cause, longest=LONGEST_CAUSE)})"
        else:
            return
        if line != told:
            say(line)
        told = line
        await asyncio.sleep(TRY_EVERY)


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
        own = token == os.environ.get("HEADWAY_TOKEN")
        yield url if own else f"{url}/login#token={token}"


def _set_up_logs() -> None:
    """Shows the logs of handlers; `LineObserver` prints what Headway does."""
    set_up_logs(verbose=False)
    logging.getLogger("headway").setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
