"""`headway jobs`: list, show, tail and change jobs."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.actions import act
from headway.cli.commands.jobs_tail import tail_jobs
from headway.cli.filters import filter_argument, read_filter, targets_argument
from headway.cli.job_text import moment_now, note_on, print_job
from headway.cli.output import Column, json_option, print_json, print_table, say, watched
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, target_option
from headway.cli.times import duration
from headway.domain.job import JobRecord
from headway.domain.lifecycle import shown_state
from headway.domain.queries import MAX_PAGE, JobFilter, Page
from headway.domain.text import ago
from headway.domain.views import JobAction

COLUMNS = (
    Column("ID"),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("QUEUE", shrinks=True),
    Column("FAILED", right=True),
    Column("CREATED"),
    Column("NOTE", shrinks=True),
)


@click.group()
def jobs() -> None:
    """List jobs, show one, retry, cancel, trigger or delete jobs.

    A FILTER is words such as state:failed type:charge queue:mail args.order_id:7 error:timeout
    created:<1h; a job must match all of them.
    """


@jobs.command("list")
@filter_argument
@target_option
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many."
)
@click.option("--cursor", help="Continue a list; the cursor is printed at its end.")
@json_option
def list_(
    words: tuple[str, ...],
    target: Headway | DashboardUrl,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List jobs that match, newest first."""

    async def run(session: Session) -> Page:
        return await find(session, read_filter(words), cursor, limit)

    page = in_session(target, run)
    if as_json:
        print_json(page)
        return
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
    print_table(COLUMNS, rows)
    if not rows:
        say("no jobs match")
    if page.cursor is not None:
        say(f"there may be more: --cursor {page.cursor}")


@jobs.command()
@click.argument("id")
@target_option
@json_option
def show(id: str, target: Headway | DashboardUrl, as_json: bool) -> None:
    """Show everything about one job."""
    detail = in_session(target, lambda session: session.questions.job(id))
    if as_json:
        print_json(detail)
    else:
        print_job(detail)


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
    @json_option
    def _(words: tuple[str, ...], target: Headway | DashboardUrl, yes: bool, as_json: bool) -> None:
        act(target, action, words, confirmed=yes, as_json=as_json)


_verb(JobAction.RETRY, "Run failed or cancelled jobs again.")
_verb(JobAction.CANCEL, "Cancel jobs that have not ended; handlers that run are interrupted.")
_verb(JobAction.DELETE, "Delete sequences that have ended, with all their jobs.")
_verb(JobAction.TRIGGER, "Run scheduled jobs now.")


async def find(session: Session, which: JobFilter, cursor: str | None, limit: int) -> Page:
    """As many as `limit`; a page may be short where a filter has to read many jobs."""
    found: list[JobRecord] = []
    while True:
        wanted = min(limit - len(found), MAX_PAGE)
        page = await session.questions.jobs(which, cursor=cursor, limit=wanted)
        found += page.jobs
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return Page(found, cursor)
        if not page.jobs and watched():
            say("searching …")
