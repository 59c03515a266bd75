"""`headway queues`: list, show, pause, resume, limit, release and drain queues."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.commands.queues_limit import limit, release
from headway.cli.commands.queues_show import in_short, print_queue
from headway.cli.job_text import moment_now
from headway.cli.json_results import PauseResult
from headway.cli.output import Column, print_table, printed_by, say, tell, wide_option
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, app_option, target_argument, target_option
from headway.cli.worker.process import run_worker
from headway.domain.text import ago, span
from headway.domain.views import Count, QueueDetail, QueueSummary, ShownState
from headway.errors import InvalidRequest
from headway.worker.settings import WorkQueue

STATES = (
    ShownState.PENDING,
    ShownState.RUNNING,
    ShownState.SCHEDULED,
    ShownState.BLOCKED,
    ShownState.FAILED,
)
SPARE = {ShownState.BLOCKED: 3, ShownState.SCHEDULED: 2}
COLUMNS = (
    Column("QUEUE", shrinks=True),
    *(Column(state.upper(), right=True, spare=SPARE.get(state, 0)) for state in STATES),
    Column("OLDEST", right=True, spare=1),
    Column("PER SECOND", right=True, spare=4),
    Column("WORKERS", right=True),
    Column("PAUSED"),
)


LIMIT_COLUMNS = (Column("FREE", right=True), Column("LIMITS", shrinks=True))
"""Where a queue has limits or is held."""


@click.group()
def queues() -> None:
    """List, pause, limit or drain queues."""


queues.add_command(limit)
queues.add_command(release)


def _print_queues(found: list[QueueSummary]) -> None:
    now = moment_now()
    limited = any(queue.permits is not None for queue in found)
    rows = [
        (
            queue.name,
            *(queue.states.get(state, Count(0)) for state in STATES),
            None if queue.oldest_waiting is None else span(queue.oldest_waiting),
            f"{queue.per_second:,.1f}",
            queue.workers,
            "" if queue.paused_at is None else ago(queue.paused_at, now),
            *(_limits(queue) if limited else ()),
        )
        for queue in found
    ]
    columns = (*COLUMNS, *LIMIT_COLUMNS) if limited else COLUMNS
    print_table(columns, rows, "no queues: no job was started, and no worker runs")


def _limits(queue: QueueSummary) -> tuple[object, object]:
    permits = queue.permits
    if permits is None:
        return "", ""
    free = "" if permits.free is None else permits.free
    return free, in_short(permits)


@queues.command("list")
@target_argument
@wide_option
@printed_by(_print_queues)
def list_(target: Headway | DashboardUrl) -> list[QueueSummary]:
    """List queues that hold jobs, were paused, or have a worker."""
    return in_session(target, lambda session: session.questions.queues())


@queues.command()
@click.argument("name")
@target_option
@printed_by(print_queue)
def show(name: str, target: Headway | DashboardUrl) -> QueueDetail:
    """Show a queue: its jobs, its limits, and what is used of them."""
    return in_session(target, lambda session: session.questions.queue(name))


def _print_paused(result: PauseResult) -> None:
    tell(f"{', '.join(result.queues)} {'paused' if result.paused else 'resumed'}")


def _verb(name: str, help: str, *, paused: bool) -> None:
    """Add the command that pauses or resumes queues."""

    @queues.command(name, help=help)
    @click.argument("names", nargs=-1, required=True)
    @target_option
    @printed_by(_print_paused)
    def _(names: tuple[str, ...], target: Headway | DashboardUrl) -> PauseResult:
        async def run(session: Session) -> PauseResult:
            change = session.actions.pause if paused else session.actions.resume
            changes = [await change(each) for each in names]
            warnings = [each.warning for each in changes if each.warning is not None]
            for warning in warnings:
                say(f"Warning: {warning}")
            return PauseResult(queues=list(names), paused=paused, warnings=warnings)

        return in_session(target, run)


_verb("pause", "Start no more jobs of these queues; running jobs go on.", paused=True)
_verb("resume", "Start jobs of these queues again.", paused=False)


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
        work_queues = [WorkQueue(name) for name in dict.fromkeys(names)]
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    raise SystemExit(
        run_worker(
            app,
            queues=work_queues,
            concurrency=concurrency,
            drain=True,
            schedules=False,
            verbose=verbose,
        )
    )
