"""`headway bench`: measures Headway on your database."""

from __future__ import annotations

import click

from headway.cli.bench.command import run_bench
from headway.cli.target import Target, unloaded_argument


@click.command()
@unloaded_argument
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Jobs started in bulk and drained.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def bench(target: Target, jobs: int, as_json: bool) -> None:
    """Measure Headway on your own database; TARGET is its DSN.

    On PostgreSQL in a schema of its own (headway_bench), on SQLite in a file beside the one that is
    named; both are removed afterwards, also on Ctrl-C. Your jobs are not touched.
    """
    run_bench(target.text, jobs=jobs, as_json=as_json)
