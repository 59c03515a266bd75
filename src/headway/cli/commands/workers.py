"""`headway workers`: list workers."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.job_text import moment_now
from headway.cli.output import Column, print_table, printed_by, wide_option
from headway.cli.session import in_session
from headway.cli.target import DashboardUrl, command_line, target_argument
from headway.domain.text import ago, span
from headway.domain.views import WorkerSummary

COLUMNS = (
    Column("WORKER"),
    Column("ALIVE"),
    Column("SEEN", right=True),
    Column("RUNNING", right=True, spare=1),
    Column("STARTED", spare=3),
    Column("QUEUES", shrinks=True, spare=2),
    Column("TYPES", below=True),
)


@click.group()
def workers() -> None:
    """List workers."""


def _print_workers(found: list[WorkerSummary]) -> None:
    now = moment_now()
    rows = [
        (
            each.worker.id,
            "yes" if each.alive else "no",
            f"{span(each.seen_ago)} ago",
            f"{each.worker.running} of {each.worker.concurrency}",
            ago(each.worker.started_at, now),
            ", ".join(each.worker.queues),
            ", ".join(each.worker.types),
        )
        for each in found
    ]
    print_table(
        COLUMNS, rows, f"no worker runs; start one: {command_line('worker', runs_code=True)}"
    )


@workers.command("list")
@target_argument
@wide_option
@printed_by(_print_workers)
def list_(target: Headway | DashboardUrl) -> list[WorkerSummary]:
    """List workers, living or silent."""
    return in_session(target, lambda session: session.questions.workers())
