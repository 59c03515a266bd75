"""`headway worker`: one worker in this process, with signals, logs and an exit code."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import click

from headway.app import Headway
from headway.cli.failing import clean_errors
from headway.domain.errors import ConfigurationError, InvalidOption
from headway.engine.worker import Worker
from headway.observers.logs import LogObserver


def run_worker(
    app: Headway,
    *,
    queues: str | None,
    concurrency: int | None,
    drain: bool,
    lease: float | None,
    grace: float | None,
    verbose: bool,
) -> int:
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    if not verbose:  # the worker says once that the database is away, and when it is back
        logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    settings: dict[str, Any] = {
        "queues": None if queues is None else parse_queues(queues),
        "concurrency": concurrency,
        "lease_for": lease,
        "grace": grace,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    run_loop(_work(app, given, drain=drain))
    return 0


def parse_queues(text: str) -> dict[str, int | None]:
    """`a,b=10` to {"a": None, "b": 10}."""
    found: dict[str, int | None] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, limit = part.partition("=")
        if limit and not limit.isdecimal():
            raise click.BadParameter(f"the limit of queue {name!r} is a number, not {limit!r}")
        found[name] = int(limit) if limit else None
    if not found:
        raise click.BadParameter("name at least one queue")
    return found


@clean_errors
async def _work(app: Headway, settings: dict[str, Any], *, drain: bool) -> None:
    if not app.observers.include(LogObserver):
        app.observers.add(LogObserver())
    async with app:
        try:
            worker = app.worker(**settings)
        except (InvalidOption, ConfigurationError) as error:
            raise click.UsageError(str(error)) from error
        _stop_on_signals(worker)
        await worker.run(drain=drain)


def _stop_on_signals(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    asked = False

    def stop(name: str) -> None:
        nonlocal asked
        if asked:
            click.echo(f"{name} again: stopping at once", err=True)
        else:
            click.echo(
                f"{name}: finishing running jobs, for at most {worker.settings.grace:g} s "
                "(again to stop at once)",
                err=True,
            )
        asked = True
        worker.request_stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """On uvloop when it is installed."""
    try:
        import uvloop  # noqa: PLC0415 - it may not be installed
    except ModuleNotFoundError:
        asyncio.run(main)
    else:
        uvloop.run(main)
