"""`headway health`: checks the store, its schema and, with --worker, a worker of this host; for
probes that run a command."""

from __future__ import annotations

import asyncio
import socket

import click

from headway.app import Headway
from headway.cli.errors import Exit, Failed
from headway.cli.event_loop import run_loop
from headway.cli.target import app_argument, command_line
from headway.domain.queries import is_alive

ANSWER_WITHIN = 5.0
"""Seconds that the store has to answer."""


@click.command()
@app_argument
@click.option("--worker", is_flag=True, help="Also check that a worker lives on this host.")
def health(app: Headway, worker: bool) -> None:
    """Check the store; exit with 0 if it is healthy.

    4: the store does not answer, or its schema is not up to date. 1: with --worker, no worker of
    this host has sent a heartbeat for 20 seconds.
    """
    click.echo(run_loop(_check(app, worker=worker)))


async def _check(app: Headway, *, worker: bool) -> str:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            steps = await app.store.migration_status()
            missing = [step.name for step in steps if step.applied_at is None]
            if missing:
                raise Failed(
                    f"the schema of {app.store.name} lacks {', '.join(missing)}: "
                    f"run: {command_line('migrate up')}",
                    Exit.UNREACHABLE,
                )
            if worker:
                await _look_for_worker(app)
    except TimeoutError:
        raise Failed(
            f"{app.store.name} has not answered for {ANSWER_WITHIN:g} s", Exit.UNREACHABLE
        ) from None
    return f"{app.store.name} is well"


async def _look_for_worker(app: Headway) -> None:
    store, host = app.store, socket.gethostname()
    await store.open()
    try:
        now = await store.run(store.time)
        workers = await store.run(store.workers)
    finally:
        await store.close()
    if not any(worker.host == host and is_alive(worker, now) for worker in workers):
        raise Failed(f"no worker on {host} lives")
