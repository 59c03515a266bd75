"""The commands and their options; what they do is in the modules beside this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import click

from headway.app import Headway
from headway.cli.benching.command import run_bench
from headway.cli.migrations import migrate_up, print_script, print_status
from headway.cli.running import run_worker
from headway.cli.supervising import supervise
from headway.cli.target import Target

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "HEADWAY"}


def target(function: F) -> F:
    """The app: an argument, or the environment's HEADWAY_APP."""
    return click.argument("target", type=Target(), envvar="HEADWAY_APP")(function)


@click.group(context_settings=CONTEXT)
@click.version_option(package_name="headway", prog_name="headway")
def headway() -> None:
    """A job queue that lives in your database.

    TARGET is `module:app`, a file, or (where no job code is needed) a DSN; the environment's
    HEADWAY_APP is used when it is left out.
    """


@headway.command()
@target
@click.option("--queues", help="Queues to work on, in order: a,b or with limits a=10,b=2.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Jobs run at once per process.  [default: 50]"
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Worker processes; one that dies is replaced.",
)
@click.option("--drain", is_flag=True, help="Stop when there is nothing left to do.")
@click.option("--lease", type=float, help="Seconds a lease lasts.  [default: 30]")
@click.option("--grace", type=float, help="Seconds running jobs get to finish.  [default: 30]")
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
def worker(
    target: Headway,
    queues: str | None,
    concurrency: int | None,
    processes: int,
    drain: bool,
    lease: float | None,
    grace: float | None,
    verbose: bool,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C stops claiming, lets running jobs finish within the grace time and gives the
    rest back; a second one stops at once.
    """
    if processes > 1:
        raise SystemExit(supervise(processes))
    raise SystemExit(
        run_worker(
            target,
            queues=queues,
            concurrency=concurrency,
            drain=drain,
            lease=lease,
            grace=grace,
            verbose=verbose,
        )
    )


@headway.group()
def migrate() -> None:
    """Create the schema and keep it up to date."""


@migrate.command("up")
@target
def up(target: Headway) -> None:
    """Apply what is missing. Safe to repeat, and from several places at once."""
    asyncio.run(migrate_up(target))


@migrate.command("status")
@target
def status(target: Headway) -> None:
    """Show which steps are applied; exits with 1 if one is missing."""
    raise SystemExit(asyncio.run(print_status(target)))


@migrate.command("sql")
@target
def sql(target: Headway) -> None:
    """Print the schema as SQL, to be applied by hand."""
    print_script(target)


@headway.command()
@click.argument("dsn", envvar="HEADWAY_APP")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    help="Jobs started in bulk and drained.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON.")
def bench(dsn: str, jobs: int, as_json: bool) -> None:
    """Measure Headway on your own database.

    On PostgreSQL in a schema of its own (headway_bench), on SQLite in a file beside the one that is
    named; both are removed afterwards, also on Ctrl-C. Your jobs are not touched.
    """
    run_bench(dsn, jobs=jobs, as_json=as_json)
