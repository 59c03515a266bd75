"""`headway migrate`: data on stdout, the rest on stderr."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.failing import clean_errors


@clean_errors
async def migrate_up(app: Headway) -> None:
    applied = await app.store.migrate()
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo(f"{app.store.name} is up to date", err=True)


@clean_errors
async def print_status(app: Headway) -> int:
    steps = await app.store.migration_status()
    for step in steps:
        when = step.applied_at.isoformat(" ", "seconds") if step.applied_at else "missing"
        click.echo(f"{step.name}\t{when}")
    return 1 if any(step.applied_at is None for step in steps) else 0


def print_script(app: Headway) -> None:
    click.echo(app.store.migration_script(), nl=False)
