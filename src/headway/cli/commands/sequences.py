"""`headway sequences`: list and show sequences, and the jobs around one."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.commands.sequences_tree import print_tree
from headway.cli.filters import filter_argument, read_filter
from headway.cli.job_text import moment_now, note_on
from headway.cli.json_results import SequenceResult
from headway.cli.output import (
    Column,
    json_option,
    print_fields,
    print_json,
    print_table,
    say,
)
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, target_option
from headway.domain.lifecycle import shown_state
from headway.domain.queries import MAX_GRAPH, MAX_PAGE, JobFilter
from headway.domain.text import ago
from headway.domain.views import SequencePage, SequenceView

COLUMNS = (
    Column("ID"),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("AT", shrinks=True),
    Column("STEPS", right=True),
    Column("CREATED"),
)
STEPS = (
    Column("STEP", right=True),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("ID"),
    Column("NOTE", shrinks=True),
)


@click.group()
def sequences() -> None:
    """List sequences, show one, or the tree of jobs around it."""


@sequences.command("list")
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
    """List sequences whose current job matches, newest first."""

    async def run(session: Session) -> SequencePage:
        return await _find(session, read_filter(words), cursor, limit)

    page = in_session(target, run)
    if as_json:
        print_json(page)
        return
    now = moment_now()
    rows = [
        (each.id, each.type, each.state, each.job_type, each.steps, ago(each.created_at, now))
        for each in page.sequences
    ]
    print_table(COLUMNS, rows)
    if not rows:
        say("no sequences match")
    if page.cursor is not None:
        say(f"there may be more: --cursor {page.cursor}")


@sequences.command()
@click.argument("id")
@target_option
@json_option
def show(id: str, target: Headway | DashboardUrl, as_json: bool) -> None:
    """Show one sequence, job by job; ID is its own or that of one of its jobs."""

    async def run(session: Session) -> SequenceResult:
        sequence_id = (await session.questions.job(id)).job.sequence_id
        page = await session.questions.jobs(JobFilter(sequence_id=sequence_id), limit=MAX_PAGE)
        jobs = sorted(page.jobs, key=lambda job: job.position)
        return SequenceResult(
            id=sequence_id,
            type=jobs[0].sequence_type,
            state=shown_state(jobs[-1], moment_now()),
            root_id=jobs[0].root_id,
            jobs=jobs,
            explanation=await session.questions.why(jobs[-1].id),
        )

    shown = in_session(target, run)
    if as_json:
        print_json(shown)
        return
    now = moment_now()
    print_fields(
        [
            ("id", shown.id),
            ("type", shown.type),
            ("state", shown.state),
            ("why", shown.explanation.sentence),
            ("root", shown.root_id if shown.root_id != shown.id else None),
        ]
    )
    click.echo()
    print_table(
        STEPS,
        [
            (job.position, job.type, shown_state(job, now), job.id, note_on(job, now))
            for job in shown.jobs
        ],
    )


@sequences.command()
@click.argument("id")
@target_option
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_GRAPH),
    default=500,
    show_default=True,
    help="Most jobs to show.",
)
@json_option
def tree(id: str, target: Headway | DashboardUrl, limit: int, as_json: bool) -> None:
    """Show all jobs under the root of a job or sequence: continuations, started jobs, blockers."""
    graph = in_session(target, lambda session: session.questions.graph(id, at_most=limit))
    if as_json:
        print_json(graph)
        return
    print_tree(graph)
    if not graph.complete:
        say(f"there are more than {limit:,} jobs; --limit shows more of them")


async def _find(session: Session, which: JobFilter, cursor: str | None, limit: int) -> SequencePage:
    found: list[SequenceView] = []
    while True:
        wanted = min(limit - len(found), MAX_PAGE)
        page = await session.questions.sequences(which, cursor=cursor, limit=wanted)
        found += page.sequences
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return SequencePage(found, cursor)
