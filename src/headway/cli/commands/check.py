"""`headway check`: finds waiting jobs and schedules that this code cannot run."""

from __future__ import annotations

import click

from headway.admin.questions import input_problem
from headway.app import Headway
from headway.cli.errors import Exit
from headway.cli.json_results import CheckReport, IncompatibleSchedule
from headway.cli.output import Column, json_option, print_json, print_table, say, wide_option
from headway.cli.session import Session, in_session
from headway.cli.target import app_argument
from headway.domain.schedules.schedule import ScheduleRecord
from headway.domain.text import plural
from headway.domain.views import IncompatibleJob

COLUMNS = (
    Column("JOB", id=True),
    Column("TYPE", shrinks=True),
    Column("STATE"),
    Column("PROBLEM", below=True),
)
SCHEDULE_COLUMNS = (
    Column("SCHEDULE", shrinks=True),
    Column("TYPE", shrinks=True),
    Column("PROBLEM", below=True),
)
BATCH = 1_000
NAMED = 10
"""Names in a sentence."""


@click.command()
@app_argument
@wide_option
@json_option
def check(app: Headway, as_json: bool) -> None:
    """Find waiting jobs and schedules that this code cannot run.

    Compares the inputs of jobs that have not ended, and of schedules, with the job types of this
    code, and exits with 1 if some do not fit. Run it before a deployment.
    """
    if not list(app.registry):
        raise click.UsageError("name the app itself, for its job types: app.py or module:app")
    report = in_session(app, lambda session: _check(session, app))
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report.incompatible or report.incompatible_schedules:
        raise SystemExit(Exit.PROBLEM)


async def _check(session: Session, app: Headway) -> CheckReport:
    examined = 0
    incompatible: list[IncompatibleJob] = []
    cursor: str | None = None
    while True:
        checked = await session.questions.check(cursor=cursor, limit=BATCH)
        examined += checked.examined
        incompatible += checked.incompatible
        cursor = checked.cursor
        if cursor is None:
            break
    schedules = await _schedules(app)
    declared = app.registry.schedules()
    found = [(each, _problem(app, each)) for each in schedules]
    return CheckReport(
        examined=examined,
        incompatible=incompatible,
        schedules_examined=len(schedules),
        incompatible_schedules=[
            IncompatibleSchedule(name=each.name, type=each.type, problem=problem)
            for each, problem in found
            if problem is not None
        ],
        undeclared_schedules=[
            each.name for each in schedules if each.declared and each.name not in declared
        ],
    )


async def _schedules(app: Headway) -> list[ScheduleRecord]:
    found: list[ScheduleRecord] = []
    while True:
        after = found[-1].name if found else None
        page = await app.schedules.list(after=after, limit=BATCH)
        found += page
        if len(page) < BATCH:
            return found


def _problem(app: Headway, schedule: ScheduleRecord) -> str | None:
    """Declared schedules are replaced by those of this code, so the others count."""
    if schedule.declared:
        return None
    if schedule.name in app.registry.schedules():
        return "this code declares a schedule of the same name, which would have no effect"
    return input_problem(app.registry, schedule.type, schedule.definition.job.input)


def _print(report: CheckReport) -> None:
    rows = [(each.job_id, each.type, each.state, each.problem) for each in report.incompatible]
    print_table(COLUMNS, rows)
    say(_counts(report.examined, "waiting job", len(report.incompatible)))
    unfit = report.incompatible_schedules
    print_table(SCHEDULE_COLUMNS, [(each.name, each.type, each.problem) for each in unfit])
    if report.schedules_examined:
        say(_counts(report.schedules_examined, "schedule", len(unfit)))
    if names := report.undeclared_schedules:
        more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
        say(
            "not declared by this code, so not fired once no other worker declares them: "
            f"{', '.join(names[:NAMED])}{more}"
        )


def _counts(examined: int, noun: str, unfit: int) -> str:
    return f"{plural(examined, noun)} checked, {unfit:,} {'does' if unfit == 1 else 'do'} not fit"
