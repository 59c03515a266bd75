"""`headway check`: finds waiting jobs that this code cannot run."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.errors import Exit
from headway.cli.json_results import CheckReport
from headway.cli.output import Column, json_option, print_json, print_table, say, wide_option
from headway.cli.session import Session, in_session
from headway.cli.target import app_argument
from headway.domain.views import IncompatibleJob

COLUMNS = (
    Column("JOB", id=True),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("PROBLEM", below=True),
)
BATCH = 1_000


@click.command()
@app_argument
@wide_option
@json_option
def check(app: Headway, as_json: bool) -> None:
    """Find waiting jobs that this code cannot run.

    Compares the inputs of jobs that have not ended with the job types of this code, and exits with
    1 if some do not fit. Run it before a deployment.
    """
    if not list(app.registry):
        raise click.UsageError("name the app itself, for its job types: app.py or module:app")

    async def run(session: Session) -> CheckReport:
        examined = 0
        incompatible: list[IncompatibleJob] = []
        cursor: str | None = None
        while True:
            checked = await session.questions.check(cursor=cursor, limit=BATCH)
            examined += checked.examined
            incompatible += checked.incompatible
            cursor = checked.cursor
            if cursor is None:
                return CheckReport(examined=examined, incompatible=incompatible)

    report = in_session(app, run)
    if as_json:
        print_json(report)
    else:
        rows = [(each.job_id, each.type, each.state, each.problem) for each in report.incompatible]
        print_table(COLUMNS, rows)
        say(f"{report.examined:,} waiting jobs checked, {len(report.incompatible):,} do not fit")
    if report.incompatible:
        raise SystemExit(Exit.PROBLEM)
