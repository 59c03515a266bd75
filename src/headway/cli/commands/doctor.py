"""`headway doctor`: checks for common problems."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.doctor.environment import examine_environment
from headway.cli.doctor.store import examine_store
from headway.cli.errors import Exit
from headway.cli.event_loop import run_loop
from headway.cli.json_results import Diagnosis
from headway.cli.output import in_colour, json_option, print_json
from headway.cli.safe_text import harmless
from headway.cli.target import app_argument


@click.command()
@app_argument
@json_option
def doctor(app: Headway, as_json: bool) -> None:
    """Check for common problems.

    Prints ok, warn or fail and what to do. Exits with 1 if a check failed; changes nothing.
    """
    found = [*examine_environment(app), *run_loop(examine_store(app))]
    if as_json:
        print_json(found)
    else:
        for each in found:
            _print(each)
    if any(each.level == "fail" for each in found):
        raise SystemExit(Exit.PROBLEM)


def _print(found: Diagnosis) -> None:
    level = in_colour(found.level) + " " * (4 - len(found.level))
    click.echo(f"{level}  {harmless(found.subject)}: {harmless(found.finding)}")
    if found.advice:
        click.echo(f"      {harmless(found.advice)}")
