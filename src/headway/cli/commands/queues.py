"""`headway queues`: list, pause, resume and drain queues."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.json_results import PauseResult
from headway.cli.output import Column, json_option, print_json, print_table, say, tell
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, app_option, target_argument, target_option
from headway.cli.worker.process import run_worker
from headway.domain.text import moment, span
from headway.domain.views import Count, ShownState
from headway.errors import InvalidRequest
from headway.worker.settings import WorkQueue

STATES = (
    ShownState.PENDING,
    ShownState.RUNNING,
    ShownState.SCHEDULED,
    ShownState.BLOCKED,
    ShownState.FAILED,
)
COLUMNS = (
    Column("QUEUE", shrinks=True),
    *(Column(state.upper(), right=True) for state in STATES),
    Column("OLDEST", right=True),
    Column("PER SECOND", right=True),
    Column("WORKERS", right=True),
    Column("PAUSED"),
)


@click.group()
def queues() -> None:
    """List, pause, resume or drain queues."""


@queues.command("list")
@target_argument
@json_option
def list_(target: Headway | DashboardUrl, as_json: bool) -> None:
    """List queues that hold jobs, were paused, or have a worker."""
    found = in_session(target, lambda session: session.questions.queues())
    if as_json:
        print_json(found)
        return
    rows = [
        (
            queue.name,
            *(queue.states.get(state, Count(0)) for state in STATES),
            None if queue.oldest_waiting is None else span(queue.oldest_waiting),
            f"{queue.per_second:,.1f}",
            queue.workers,
            "" if queue.paused_at is None else f"since {moment(queue.paused_at)}",
        )
        for queue in found
    ]
    print_table(COLUMNS, rows)
    if not rows:
        say("no queues: no job was started, and no worker runs")


@queues.command()
@click.argument("names", nargs=-1, required=True)
@target_option
@json_option
def pause(names: tuple[str, ...], target: Headway | DashboardUrl, as_json: bool) -> None:
    """Start no more jobs of these queues; running jobs go on."""
    _pause(target, names, paused=True, as_json=as_json)


@queues.command()
@click.argument("names", nargs=-1, required=True)
@target_option
@json_option
def resume(names: tuple[str, ...], target: Headway | DashboardUrl, as_json: bool) -> None:
    """Start jobs of these queues again."""
    _pause(target, names, paused=False, as_json=as_json)


@queues.command()
@click.argument("names", nargs=-1, required=True)
@app_option
@click.option("--concurrency", type=click.IntRange(min=1), help="Jobs run at once.  [default: 50]")
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def drain(names: tuple[str, ...], app: Headway, concurrency: int | None, verbose: bool) -> None:
    """Run the jobs of these queues in this process, until none is due.

    Does not wait for jobs that are due later, such as retries, nor for jobs on other workers.
    """
    try:
        lanes = [WorkQueue(name) for name in dict.fromkeys(names)]
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    raise SystemExit(
        run_worker(app, queues=lanes, concurrency=concurrency, drain=True, verbose=verbose)
    )


def _pause(
    target: Headway | DashboardUrl, names: tuple[str, ...], *, paused: bool, as_json: bool
) -> None:
    async def run(session: Session) -> None:
        for name in names:
            await (session.actions.pause(name) if paused else session.actions.resume(name))

    in_session(target, run)
    if as_json:
        print_json(PauseResult(queues=list(names), paused=paused))
    else:
        tell(f"{', '.join(names)} {'paused' if paused else 'resumed'}")
