"""`headway copy`: moves live jobs to another store while producers and workers go on."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

import click

from headway.admin.transfer import Moved, Mover
from headway.app import Headway
from headway.cli.actions import confirm
from headway.cli.event_loop import run_loop
from headway.cli.json_results import CopyResult
from headway.cli.output import printed_by, say, tell, watched
from headway.cli.target import COMMAND_LINE, Target
from headway.domain.text import plural
from headway.ports.transfer import Transfer
from headway.runtime.store_errors import in_short, is_transient

PAUSE = 0.5
"""Seconds between passes that found nothing to move."""
AWAY_FOR = 60.0
"""Seconds that a store may be unreachable."""
SAY_EVERY = 5.0


def _print_copied(copied: CopyResult) -> None:
    tell(f"{plural(copied.moved, 'job')} moved in {copied.seconds:.1f} s")


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--history", is_flag=True, help="Also move completed and cancelled jobs.")
@click.option(
    "--follow", is_flag=True, help="Keep moving jobs that are started in FROM, until Ctrl-C."
)
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask.")
@printed_by(_print_copied)
def copy(source: str, target: str, history: bool, follow: bool, confirmed: bool) -> CopyResult:
    """Move jobs from one store to another while producers and workers of both go on.

    Waiting, scheduled, blocked and failed jobs keep their state, with all jobs that belong to them;
    a running job moves when it has ended. The command ends when FROM is empty. Interrupted at any
    moment, even by kill -9, run it again: no job is lost, none runs twice.
    """
    one, other = (Target(text, COMMAND_LINE).load_app() for text in (source, target))
    mover = Mover(transfer_of(one), transfer_of(other), notifier=other.notifier, history=history)
    return run_loop(_copy(mover, one, other, follow=follow, confirmed=confirmed))


def transfer_of(app: Headway) -> Transfer:
    if (transfer := app.store.transfer) is None:
        raise click.UsageError(
            f"jobs cannot be copied from or to {app.store.name}; name a SQLite, PostgreSQL or "
            "MongoDB database"
        )
    return transfer


async def _copy(
    mover: Mover, source: Headway, target: Headway, *, follow: bool, confirmed: bool
) -> CopyResult:
    await mover.check()
    async with source, target:
        return await _move(mover, source, target, follow=follow, confirmed=confirmed)


async def _move(
    mover: Mover, source: Headway, target: Headway, *, follow: bool, confirmed: bool
) -> CopyResult:
    left = await mover.left()
    confirm(
        f"move {plural(left, 'job')} from {source.store.name} to {target.store.name}",
        confirmed=confirmed,
    )
    began = time.monotonic()
    resumed = moved = await mover.resume()
    if resumed:
        say(f"{plural(resumed, 'job')} of an interrupted copy have arrived")
    for queue in await mover.pause_queues():
        say(f"queue {queue} is paused in {target.store.name} as well")
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
    return CopyResult(moved=moved, resumed=resumed, seconds=time.monotonic() - began)


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
            if time.monotonic() - away_since > AWAY_FOR:
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
    """Messages now and then, where there is no progress bar."""

    def __init__(self) -> None:
        self._moved = 0
        self._said_at = time.monotonic()
        self._last = ""

    def moved(self, count: int) -> None:
        self._moved += count
        if not watched() and time.monotonic() - self._said_at > SAY_EVERY:
            self._say(f"{plural(self._moved, 'job')} moved")

    def waiting(self, count: int) -> None:
        if count:
            self._say(f"waiting for running jobs: {plural(count, 'job')} depend on them")

    def away(self, error: Exception) -> None:
        self._say(f"a store does not answer, trying again: {in_short(error)}")

    def _say(self, sentence: str) -> None:
        if sentence != self._last:
            say(sentence)
        self._last, self._said_at = sentence, time.monotonic()
