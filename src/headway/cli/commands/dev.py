"""`headway dev`: a worker and the dashboard, restarted when files change."""

from __future__ import annotations

import click

from headway.cli.dev.reloader import develop
from headway.cli.target import Target, code_argument


@click.command()
@code_argument
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    help="Port of the dashboard.  [default: 8420, or a free one]",
)
@click.option("--no-dashboard", is_flag=True, help="Only run jobs.")
def dev(target: Target, port: int | None, no_dashboard: bool) -> None:
    """Run jobs and serve the dashboard while you write them.

    Creates the schema, runs a worker, prints a line per job, and starts again whenever a Python
    file beside the app changes. Ctrl-C ends it.
    """
    if port is not None and no_dashboard:
        raise click.UsageError("--port and --no-dashboard do not go together")
    raise SystemExit(develop(target, port=port, dashboard=not no_dashboard))
