"""`headway copy`: copies completed jobs to another store."""

from __future__ import annotations

import sys
import time

import click

from headway.admin.transfer import Copier
from headway.app import Headway
from headway.cli.actions import confirm, many_jobs
from headway.cli.commands.move import Telling, run_pass, transfer_of
from headway.cli.event_loop import run_loop
from headway.cli.json_results import CopyResult
from headway.cli.output import printed_by, say, tell, watched
from headway.cli.target import COMMAND_LINE, Target
from headway.domain.job import JobState
from headway.domain.queries import JobFilter
from headway.domain.text import plural

COMPLETED = JobFilter(states=(JobState.COMPLETED,))
OTHERS = JobFilter(states=tuple(state for state in JobState if state is not JobState.COMPLETED))


def _print_copied(result: CopyResult) -> None:
    tell(f"{plural(result.copied, 'job')} copied in {result.seconds:.1f} s")
    if result.left:
        say(
            f"not copied: {plural(result.left, 'job')}, because they can still run or belong to "
            "jobs that can; headway move moves them, with --history also cancelled ones"
        )


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--yes", "confirmed", is_flag=True, help="Do not ask.")
@printed_by(_print_copied)
def copy(source: str, target: str, confirmed: bool) -> CopyResult:
    """Copy completed jobs from one store to another; FROM stays as it is.

    Jobs that can still run are not copied, because they would run in both stores: waiting and
    running jobs, failed and cancelled ones, which may be retried, and completed jobs that belong to
    them. Jobs that TO has already are passed over, so the command can be repeated. Schedules and
    limits of queues are not copied.
    """
    one = Target(source, COMMAND_LINE).load_source()
    other = Target(target, COMMAND_LINE).load_app()
    copier = Copier(transfer_of(one), transfer_of(other))
    return run_loop(_copy(copier, one, other, confirmed=confirmed))


async def _copy(copier: Copier, source: Headway, target: Headway, *, confirmed: bool) -> CopyResult:
    await copier.check()
    async with source, target:
        count = await source.questions.count(COMPLETED)
        confirm(
            f"copy the completed jobs ({many_jobs(count)}) from {source.store.name} to "
            f"{target.store.name}",
            confirmed=confirmed,
        )
        began = time.monotonic()
        with click.progressbar(
            length=max(count.value, 1), label="copy", file=sys.stderr, hidden=not watched()
        ) as bar:
            done = await run_pass(copier.step, bar.update, Telling("copied"))
        left = done.waiting + (await source.questions.count(OTHERS)).value
        return CopyResult(copied=done.arrived, left=left, seconds=time.monotonic() - began)
