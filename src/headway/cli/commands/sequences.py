"""`headway sequences`: list and show sequences, and the jobs around one."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.commands.sequences_tree import print_tree
from headway.cli.job_text import moment_now, note_on
from headway.cli.json_results import SequenceResult
from headway.cli.lists import add_list, print_list
from headway.cli.output import Column, print_fields, print_table, printed_by, wide_option
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, target_option
from headway.domain.lifecycle import shown_state
from headway.domain.queries import MAX_GRAPH, MAX_PAGE, JobFilter
from headway.domain.text import ago
from headway.domain.views import SequenceGraph, SequencePage

COLUMNS = (
    Column("ID", id=True),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("AT", shrinks=True, spare=1),
    Column("JOBS", right=True, spare=2),
    Column("CREATED", spare=3),
)
JOBS = (
    Column("POSITION", right=True, spare=1),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("ID", id=True),
    Column("NOTE", below=True),
)


@click.group()
def sequences() -> None:
    """List sequences, show one, or the tree of jobs around it."""


def _print_sequences(page: SequencePage) -> None:
    now = moment_now()
    rows = [
        (each.id, each.type, each.state, each.job_type, each.length, ago(each.created_at, now))
        for each in page.sequences
    ]
    print_list(COLUMNS, rows, "no sequences match", page.cursor)


add_list(
    sequences,
    "List sequences whose current job matches, newest first.",
    lambda questions: questions.sequences,
    _print_sequences,
)


def _print_sequence(shown: SequenceResult) -> None:
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
    now = moment_now()
    print_table(
        JOBS,
        [
            (job.position, job.type, shown_state(job, now), job.id, note_on(job, now))
            for job in shown.jobs
        ],
    )


@sequences.command()
@click.argument("id")
@target_option
@wide_option
@printed_by(_print_sequence)
def show(id: str, target: Headway | DashboardUrl) -> SequenceResult:
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

    return in_session(target, run)


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
@wide_option
@printed_by(print_tree)
def tree(id: str, target: Headway | DashboardUrl, limit: int) -> SequenceGraph:
    """Show all jobs under the root of a job or sequence: continuations, started jobs, blockers."""
    return in_session(target, lambda session: session.questions.graph(id, at_most=limit))
