"""`headway dev`: everything on one terminal; what it does is in `developing`."""

from __future__ import annotations

import click

from headway.cli.dev.reloader import develop
from headway.cli.target import Target, code_argument


@click.command()
@code_argument
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    help="The dashboard's.  [default: 8420, or a free one]",
)
@click.option("--no-dashboard", is_flag=True, help="Only run jobs.")
def dev(target: Target, port: int | None, no_dashboard: bool) -> None:
    """Run jobs and serve the dashboard while you write them.

    Creates the schema, runs a worker, prints a line per job, and starts again whenever a Python
    file beside the app changes. Ctrl-C ends it.
    """
    if port is not None and no_dashboard:
        raise click.UsageError("--port is the dashboard's")
    raise SystemExit(develop(target.text, port=port, dashboard=not no_dashboard))
