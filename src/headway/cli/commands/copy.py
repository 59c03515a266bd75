"""`headway copy`: live jobs from one store to another, while producers and workers go on."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import cast

import click

from headway.admin.transfer import Moved, Mover
from headway.app import Headway
from headway.cli.actions import ask
from headway.cli.errors import clean_errors
from headway.cli.json_results import Copied
from headway.cli.output import counted_as, json_option, print_json, say, tell, watched
from headway.cli.target import Named
from headway.cli.worker_process import run_loop
from headway.ports.transfer import MovingStore
from headway.runtime.store_errors import in_short, is_transient

PAUSE = 0.5
"""Seconds between passes that found nothing to move."""
PATIENCE = 60.0
"""Seconds that a store may be away."""
SAY_EVERY = 5.0


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--history", is_flag=True, help="Also jobs that completed or were cancelled.")
@click.option("--follow", is_flag=True, help="Go on with what is started in FROM, until Ctrl-C.")
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask.")
@json_option
def copy(
    source: str, target: str, history: bool, follow: bool, confirmed: bool, as_json: bool
) -> None:
    """Move jobs from one store to another while producers and workers of both go on.

    Waiting, scheduled, blocked and failed jobs arrive as they were, with all that belongs to them;
    a running job moves when it has ended. It ends when nothing is left in FROM. Broken off at any
    moment, even by kill -9, the same command goes on: no job is lost, none runs twice.
    """
    mover = _make_mover(source, target, history=history)
    copied = run_to_end(mover, follow=follow, confirmed=confirmed)
    if as_json:
        print_json(copied)
    else:
        tell(f"{counted_as(copied.moved, 'job')} moved in {copied.seconds:.1f} s")


class _Trip:
    def __init__(self, source: Headway, target: Headway, *, history: bool) -> None:
        self.source = source
        self.target = target
        self.mover = Mover(
            moving_store(source), moving_store(target), notifier=target.notifier, history=history
        )


def _make_mover(source: str, target: str, *, history: bool) -> _Trip:
    one, other = (Named(text, "the command line").load_app() for text in (source, target))
    return _Trip(one, other, history=history)


def moving_store(app: Headway) -> MovingStore:
    if not app.store.capabilities.movable:
        raise click.UsageError(
            f"jobs cannot be copied from or to {app.store.name}; name a SQLite, PostgreSQL or "
            "MongoDB database"
        )
    return cast(MovingStore, app.store)


def run_to_end(trip: _Trip, *, follow: bool, confirmed: bool) -> Copied:
    result: list[Copied] = []

    @clean_errors
    async def travel() -> None:
        await trip.mover.check()
        async with trip.source, trip.target:
            result.append(await _travel(trip, follow=follow, confirmed=confirmed))

    run_loop(travel())
    return result[0]


async def _travel(trip: _Trip, *, follow: bool, confirmed: bool) -> Copied:
    mover = trip.mover
    left = await mover.left()
    ask(
        f"move {counted_as(left, 'job')} from {trip.source.store.name} to {trip.target.store.name}",
        confirmed=confirmed,
    )
    began = time.monotonic()
    resumed = moved = await mover.resume()
    if resumed:
        say(f"{counted_as(resumed, 'job')} that were on their way have arrived")
    for queue in await mover.pause_queues():
        say(f"queue {queue} is paused in {trip.target.store.name} as well")
    with click.progressbar(
        length=max(left, 1), label="copy", file=sys.stderr, hidden=not watched()
    ) as bar:
        telling = _Telling()
        try:
            while True:
                step = await _pass(mover, bar.update, telling)
                moved += step.moved
                if step.moved:
                    continue
                if not follow and not step.waiting and not await mover.running():
                    break
                telling.waiting(step.waiting)
                await asyncio.sleep(PAUSE)
        except asyncio.CancelledError:
            if not follow:
                raise
    return Copied(moved=moved, resumed=resumed, seconds=time.monotonic() - began)


async def _pass(mover: Mover, advance: Callable[[int], None], telling: _Telling) -> Moved:
    """Look at every job once."""
    moved = waiting = 0
    cursor: str | None = None
    away_since: float | None = None
    while True:
        try:
            step = await mover.step(cursor)
        except Exception as error:
            if not is_transient(error):
                raise
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > PATIENCE:
                raise
            telling.away(error)
            await asyncio.sleep(PAUSE)
            continue
        away_since = None
        moved += step.moved
        waiting += step.waiting
        advance(step.moved)
        telling.moved(step.moved)
        cursor = step.cursor
        if cursor is None:
            return Moved(moved, waiting, None)


class _Telling:
    """What is said along the way to those who have no progress bar to look at; now and then."""

    def __init__(self) -> None:
        self._moved = 0
        self._said_at = time.monotonic()
        self._last = ""

    def moved(self, count: int) -> None:
        self._moved += count
        if not watched() and time.monotonic() - self._said_at > SAY_EVERY:
            self._say(f"{counted_as(self._moved, 'job')} moved")

    def waiting(self, count: int) -> None:
        if count:
            self._say(f"waiting for running jobs: {counted_as(count, 'job')} depend on them")

    def away(self, error: Exception) -> None:
        self._say(f"a store is away, and tried again: {in_short(error)}")

    def _say(self, sentence: str) -> None:
        if sentence != self._last:
            say(sentence)
        self._last, self._said_at = sentence, time.monotonic()
