"""`headway workers`: list workers."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.job_text import moment_now
from headway.cli.output import Column, json_option, print_json, print_table, say
from headway.cli.session import in_session
from headway.cli.target import DashboardUrl, target_argument
from headway.domain.text import ago, span

COLUMNS = (
    Column("WORKER", shrinks=True),
    Column("ALIVE"),
    Column("SEEN", right=True),
    Column("RUNNING", right=True),
    Column("STARTED"),
    Column("QUEUES", shrinks=True),
    Column("TYPES", shrinks=True),
)


@click.group()
def workers() -> None:
    """List workers."""


@workers.command("list")
@target_argument
@json_option
def list_(target: Headway | DashboardUrl, as_json: bool) -> None:
    """List workers, living or silent."""
    found = in_session(target, lambda session: session.questions.workers())
    if as_json:
        print_json(found)
        return
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
    print_table(COLUMNS, rows)
    if not rows:
        say("no worker runs; start one: headway worker")
