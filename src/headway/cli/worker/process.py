"""`headway worker`: one worker in this process, with signals, logs and an exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import click

from headway.admin.queue_names import unknown_queue
from headway.app import Headway
from headway.cli.event_loop import run_loop
from headway.cli.output import say
from headway.cli.worker.log_setup import set_up_logs
from headway.cli.worker.metrics_server import metrics_page, metrics_server, parse_address
from headway.cli.worker.parent_pipe import when_orphaned
from headway.errors import ConfigurationError, InvalidOption, StoreError
from headway.worker.handler_runner import HANDLER_THREAD
from headway.worker.settings import Retention, WorkQueue
from headway.worker.worker import Worker

_log = logging.getLogger("headway")
REPEATED = 0.5
"""Seconds within which SIGTERM counts once: `timeout` sends it to a process and to its group."""


def run_worker(
    app: Headway,
    *,
    queues: Sequence[WorkQueue] | None = None,
    concurrency: int | None = None,
    drain: bool,
    lease: float | None = None,
    grace: float | None = None,
    retention: Retention | None = None,
    http: str | None = None,
    schedules: bool = True,
    verbose: bool,
) -> int:
    set_up_logs(verbose=verbose)
    settings: dict[str, Any] = {
        "queues": queues,
        "concurrency": concurrency,
        "lease_for": lease,
        "grace": grace,
        "retention": retention,
        "schedules": schedules,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    address = None if http is None else parse_address(http)
    run_loop(_work(app, given, address, drain=drain))
    return 0


async def _work(
    app: Headway, settings: dict[str, Any], address: tuple[str, int] | None, *, drain: bool
) -> None:
    page = None if address is None else metrics_page(app)
    async with app:
        try:
            worker = app.worker(**settings)
        except (InvalidOption, ConfigurationError) as error:
            raise click.UsageError(str(error)) from error
        for queue in settings.get("queues", ()):
            await _warn_if_unknown(app, queue.name)
        was_asked = _stop_on_signals(worker)
        with nullcontext() if address is None else metrics_server(worker, address, page):
            await worker.run(drain=drain)
    if was_asked() and handlers_go_on():
        _log.warning("the process ends with handlers that did not stop")
        logging.shutdown()
        os._exit(0)  # else Python would wait for them


async def _warn_if_unknown(app: Headway, queue: str) -> None:
    try:
        # Not by other workers: this one may have had the same name before a restart.
        warning = await unknown_queue(
            app.store, app.registry, queue, workers=False, now=app.clock.now()
        )
    except StoreError:  # the worker waits for a store that does not answer
        return
    if warning is not None:
        say(f"Warning: {warning}")


def handlers_go_on() -> bool:
    """Whether a handler ignores its interruption, in a task or in a thread."""
    return len(asyncio.all_tasks()) > 1 or any(
        thread.name.startswith(HANDLER_THREAD) for thread in threading.enumerate()
    )


def _stop_on_signals(worker: Worker) -> Callable[[], bool]:
    """The function tells whether the worker was asked to stop."""
    asked = False
    heard_at = -REPEATED
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread gets signals, and the program decides what they do.
        return lambda: asked
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        nonlocal asked, heard_at
        before, heard_at = heard_at, loop.time()
        if name == signal.SIGTERM.name and heard_at - before < REPEATED:
            return
        if asked:
            _log.warning("%s again: stopping at once", name)
        else:
            _log.warning(
                "%s: finishing running jobs, for at most %g s (again to stop at once)",
                name,
                worker.settings.grace,
            )
        asked = True
        worker.request_stop()

    def stop_alone() -> None:
        if not asked:
            stop("the supervisor is gone")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    when_orphaned(stop_alone)
    return lambda: asked
