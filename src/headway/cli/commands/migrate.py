"""`headway migrate`: creates and updates the schema."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.errors import Exit
from headway.cli.event_loop import run_loop
from headway.cli.output import (
    Column,
    json_option,
    print_json,
    print_table,
    printed_by,
    say,
    tell,
    wide_option,
)
from headway.cli.target import app_argument, command_line
from headway.ports.store import MigrationStatus


@click.group()
def migrate() -> None:
    """Create the schema and keep it up to date."""


@migrate.command()
@app_argument
@json_option
def up(app: Headway, as_json: bool) -> None:
    """Apply the missing steps. Safe to repeat, and to run several times at once."""
    applied = run_loop(app.store.migrate())
    if as_json:
        print_json(applied)
        return
    for name in applied:
        tell(f"applied {name}")
    if not applied:
        say(f"{app.store.name} is up to date")


def _print_steps(steps: list[MigrationStatus]) -> None:
    rows = [
        (step.name, step.applied_at.isoformat(" ", "seconds") if step.applied_at else "missing")
        for step in steps
    ]
    print_table((Column("STEP", shrinks=True), Column("APPLIED AT")), rows)


@migrate.command()
@app_argument
@wide_option
@printed_by(_print_steps)
def status(app: Headway) -> list[MigrationStatus]:
    """Show which steps are applied, and which are missing."""
    return run_loop(app.store.migration_status())


@migrate.command()
@app_argument
def check(app: Headway) -> None:
    """Exit with 0 if the schema is current, with 1 if a step is missing. For deployments."""
    missing = [
        step.name for step in run_loop(app.store.migration_status()) if step.applied_at is None
    ]
    if missing:
        say(f"{app.store.name} lacks {', '.join(missing)}; run: {command_line('migrate up')}")
        raise SystemExit(Exit.PROBLEM)
    say(f"{app.store.name} is up to date")


@migrate.command()
@app_argument
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="VERSION",
    help="Only the steps after this one: 1 if 0001_initial is applied.",
)
def sql(app: Headway, after: int) -> None:
    """Print the schema as SQL, to be applied by hand."""
    click.echo(app.store.migration_script(after=after), nl=False)
