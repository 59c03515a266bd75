"""`headway jobs`: list, show, tail and change jobs."""

from __future__ import annotations

import functools

import click

from headway.app import Headway
from headway.cli.actions import act, print_batch
from headway.cli.commands.jobs_tail import tail_jobs
from headway.cli.filters import filter_argument, targets_argument
from headway.cli.job_text import moment_now, note_on, print_job
from headway.cli.lists import add_list, print_list
from headway.cli.output import Column, json_option, printed_by, wide_option
from headway.cli.session import in_session
from headway.cli.target import DashboardUrl, target_option
from headway.cli.times import duration
from headway.domain.lifecycle import shown_state
from headway.domain.queries import Page
from headway.domain.text import ago
from headway.domain.views import Batch, JobAction, JobDetail

COLUMNS = (
    Column("ID", id=True),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("QUEUE", shrinks=True, spare=2),
    Column("FAILED", right=True, spare=1),
    Column("CREATED", spare=3),
    Column("NOTE", below=True),
)


@click.group()
def jobs() -> None:
    """List jobs, show one, retry, cancel, trigger or delete jobs.

    A FILTER is words such as state:failed type:charge queue:mail args.order_id:7 error:timeout
    created:<1h, or any text; a job must match all of them. An ID may be given by its ending.
    """


def _print_jobs(page: Page) -> None:
    now = moment_now()
    rows = [
        (
            job.id,
            job.type,
            shown_state(job, now),
            job.queue,
            job.attempts + job.losses or "-",
            ago(job.created_at, now),
            note_on(job, now),
        )
        for job in page.jobs
    ]
    print_list(COLUMNS, rows, "no jobs match", page.cursor)


add_list(jobs, "List jobs that match, newest first.", lambda questions: questions.jobs, _print_jobs)


@jobs.command()
@click.argument("id")
@target_option
@printed_by(print_job)
def show(id: str, target: Headway | DashboardUrl) -> JobDetail:
    """Show everything about one job."""
    return in_session(target, lambda session: session.questions.job(id))


@jobs.command()
@filter_argument
@target_option
@click.option(
    "-n",
    "--last",
    type=click.IntRange(min=0, max=200),
    default=10,
    show_default=True,
    help="Earlier jobs to show first.",
)
@click.option(
    "--every", type=duration, default="500ms", show_default=True, help="Time between two looks."
)
@wide_option
@json_option
def tail(
    words: tuple[str, ...], target: Headway | DashboardUrl, last: int, every: float, as_json: bool
) -> None:
    """Print changes of jobs that match, line by line, until Ctrl-C."""
    tail_jobs(target, words, last=last, every=every, as_json=as_json)


def _verb(action: JobAction, help: str) -> None:
    """Add a command for an action on jobs by id, or on all jobs that match a filter."""

    @jobs.command(action.value, help=help)
    @targets_argument
    @target_option
    @click.option("-y", "--yes", is_flag=True, help="Do not ask.")
    @printed_by(functools.partial(print_batch, action))
    def _(words: tuple[str, ...], target: Headway | DashboardUrl, yes: bool) -> Batch:
        return act(target, action, words, confirmed=yes)


_verb(JobAction.RETRY, "Run failed or cancelled jobs again.")
_verb(JobAction.CANCEL, "Cancel jobs that have not ended; handlers that run are interrupted.")
_verb(JobAction.DELETE, "Delete sequences that have ended, with all their jobs.")
_verb(JobAction.TRIGGER, "Run scheduled jobs now.")
