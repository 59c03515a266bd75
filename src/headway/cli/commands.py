"""The `headway` command: its commands, each in a module of its own name."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.bench import bench
from headway.cli.check import check
from headway.cli.completion import completion
from headway.cli.config import config
from headway.cli.copy import copy
from headway.cli.dashboard import dashboard
from headway.cli.dev import dev
from headway.cli.doctor import doctor
from headway.cli.failing import Exit
from headway.cli.health import health
from headway.cli.jobs import jobs
from headway.cli.migrate import migrate
from headway.cli.output import colours_wanted, say
from headway.cli.queues import queues
from headway.cli.sequences import sequences
from headway.cli.start import start
from headway.cli.stats import stats, why
from headway.cli.worker import worker
from headway.cli.workers import workers

CONTEXT = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "HEADWAY"}


class Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted")
            ctx.exit(Exit.INTERRUPTED)


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(package_name="headway", prog_name="headway")
@click.pass_context
def headway(context: click.Context) -> None:
    """A job queue that lives in your database.

    TARGET is a file, `module:app`, a DSN, or the address of a dashboard (http://host:port, with its
    token in HEADWAY_TOKEN). Left out, it is HEADWAY_APP, or the app.py, main.py, jobs.py or
    headway.db in this folder.
    """
    context.color = colours_wanted()


for command in (
    bench,
    check,
    completion,
    config,
    copy,
    dashboard,
    dev,
    doctor,
    health,
    jobs,
    migrate,
    queues,
    sequences,
    start,
    stats,
    why,
    worker,
    workers,
):
    headway.add_command(command)
