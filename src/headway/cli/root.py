"""The `headway` command and its subcommands."""

from __future__ import annotations

from typing import Any

import click

from headway.cli.commands.bench import bench
from headway.cli.commands.check import check
from headway.cli.commands.completion import completion
from headway.cli.commands.config import config
from headway.cli.commands.copy import copy
from headway.cli.commands.dashboard import dashboard
from headway.cli.commands.dev import dev
from headway.cli.commands.doctor import doctor
from headway.cli.commands.health import health
from headway.cli.commands.jobs import jobs
from headway.cli.commands.migrate import migrate
from headway.cli.commands.move import move
from headway.cli.commands.queues import queues
from headway.cli.commands.schedules import schedules
from headway.cli.commands.sequences import sequences
from headway.cli.commands.start import start
from headway.cli.commands.stats import stats
from headway.cli.commands.why import why
from headway.cli.commands.worker import worker
from headway.cli.commands.workers import workers
from headway.cli.errors import Exit
from headway.cli.output import colours_wanted, say
from headway.cli.target import remember_typed, root_option

CONTEXT = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "HEADWAY"}


class Commands(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        remember_typed(ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            whole = [
                f"headway {group.name} {args[0]}"
                for group in self.commands.values()
                if isinstance(group, click.Group) and args[0] in group.commands
            ]
            if whole:
                ctx.fail(f"there is no command {args[0]!r}; did you mean {' or '.join(whole)}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted")
            ctx.exit(Exit.INTERRUPTED)


@click.group(cls=Commands, context_settings=CONTEXT)
@click.version_option(package_name="headway", prog_name="headway")
@root_option
@click.pass_context
def headway(context: click.Context) -> None:
    """A job queue that lives in your database.

    TARGET is a file, `module:app`, a DSN, or the address of a dashboard (http://host:port, with its
    token in HEADWAY_TOKEN). Left out, it is HEADWAY_APP, `app` of [tool.headway] in pyproject.toml,
    the only app in this folder, or its headway.db.
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
    move,
    queues,
    schedules,
    sequences,
    start,
    stats,
    why,
    worker,
    workers,
):
    headway.add_command(command)
