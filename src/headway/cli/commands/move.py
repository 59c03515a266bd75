"""`headway move`: moves jobs to another store while producers and workers go on."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import click

from headway.admin.transfer import Mover, TransferStep
from headway.app import Headway
from headway.cli.actions import confirm
from headway.cli.event_loop import run_loop
from headway.cli.json_results import MoveResult
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


def _print_moved(moved: MoveResult) -> None:
    tell(f"{plural(moved.moved, 'job')} moved in {moved.seconds:.1f} s")
    if moved.schedules_left:
        say(
            f"not moved: {plural(moved.schedules_left, 'schedule')} that your program put at run "
            "time; put them into the other store, and delete them here"
        )


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--history", is_flag=True, help="Also move completed and cancelled jobs.")
@click.option(
    "--follow", is_flag=True, help="Keep moving jobs that are started in FROM, until Ctrl-C."
)
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask.")
@printed_by(_print_moved)
def move(source: str, target: str, history: bool, follow: bool, confirmed: bool) -> MoveResult:
    """Move jobs from one store to another while producers and workers of both go on.

    Waiting, scheduled, blocked and failed jobs keep their state, with all jobs that belong to them;
    a running job moves when it has ended. The jobs leave FROM, and the command ends when none is
    left there. Interrupted at any moment, even by kill -9, run it again: no job is lost, none runs
    twice.

    Schedules stay: workers store the declared ones themselves; put the others into TO. Limits of
    queues stay, too: workers store the declared ones, and `headway queues limit` sets yours in TO.
    """
    one = Target(source, COMMAND_LINE).load_source()
    other = Target(target, COMMAND_LINE).load_app()
    mover = Mover(transfer_of(one), transfer_of(other), notifier=other.notifier, history=history)
    return run_loop(_open_and_move(mover, one, other, follow=follow, confirmed=confirmed))


def transfer_of(app: Headway) -> Transfer:
    if (transfer := app.store.transfer) is None:
        raise click.UsageError(
            f"jobs cannot be moved or copied from or to {app.store.name}; name a SQLite, "
            "PostgreSQL or MongoDB database"
        )
    return transfer


async def _open_and_move(
    mover: Mover, source: Headway, target: Headway, *, follow: bool, confirmed: bool
) -> MoveResult:
    await mover.check()
    async with source, target:
        return await _move(mover, source, target, follow=follow, confirmed=confirmed)


async def _move(
    mover: Mover, source: Headway, target: Headway, *, follow: bool, confirmed: bool
) -> MoveResult:
    left = await mover.left()
    confirm(
        f"move {plural(left, 'job')} from {source.store.name} to {target.store.name}",
        confirmed=confirmed,
    )
    began = time.monotonic()
    resumed = moved = await mover.resume()
    if resumed:
        say(f"{plural(resumed, 'job')} of an interrupted move have arrived")
    for queue in await mover.pause_queues():
        say(f"queue {queue} is paused in {target.store.name} as well")
    with click.progressbar(
        length=max(left, 1), label="move", file=sys.stderr, hidden=not watched()
    ) as bar:
        telling = Telling("moved")
        try:
            while True:
                step = await run_pass(mover.step, bar.update, telling)
                moved += step.arrived
                if step.arrived:
                    continue
                if not follow and not step.waiting and not await mover.running():
                    break
                telling.waiting(step.waiting)
                await asyncio.sleep(PAUSE)
        except asyncio.CancelledError:
            if not follow:
                raise
    return MoveResult(
        moved=moved,
        resumed=resumed,
        seconds=time.monotonic() - began,
        schedules_left=await mover.schedules_left(),
    )


async def run_pass(
    step: Callable[[str | None], Awaitable[TransferStep]],
    advance: Callable[[int], None],
    telling: Telling,
) -> TransferStep:
    """Look at every job once."""
    arrived = waiting = 0
    cursor: str | None = None
    away_since: float | None = None
    while True:
        try:
            done = await step(cursor)
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
        arrived += done.arrived
        waiting += done.waiting
        advance(done.arrived)
        telling.arrived(done.arrived)
        cursor = done.cursor
        if cursor is None:
            return TransferStep(arrived, waiting, None)


class Telling:
    """Messages now and then, where there is no progress bar."""

    def __init__(self, done: str) -> None:
        """`done` is what happens to the jobs: `moved`."""
        self._done = done
        self._arrived = 0
        self._said_at = time.monotonic()
        self._last = ""

    def arrived(self, count: int) -> None:
        self._arrived += count
        if not watched() and time.monotonic() - self._said_at > SAY_EVERY:
            self._say(f"{plural(self._arrived, 'job')} {self._done}")

    def waiting(self, count: int) -> None:
        if count:
            self._say(f"waiting for running jobs: {plural(count, 'job')} depend on them")

    def away(self, error: Exception) -> None:
        self._say(f"a store does not answer, trying again: {in_short(error)}")

    def _say(self, sentence: str) -> None:
        if sentence != self._last:
            say(sentence)
        self._last, self._said_at = sentence, time.monotonic()
