"""`headway config show`: the settings in effect; secrets are masked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from typing import cast

import click

from headway.app import Headway
from headway.cli.json_results import Setting
from headway.cli.output import Column, print_table, printed_by, wide_option
from headway.cli.target import DashboardUrl, Target, masked, unloaded_argument
from headway.domain.text import span
from headway.errors import ConfigurationError
from headway.worker.settings import Retention, WorkerSettings

COLUMNS = (Column("SETTING"), Column("FROM", shrinks=True), Column("VALUE", below=True))
IN_SECONDS = frozenset(
    {
        "forget_audit_after",
        "forget_workers_after",
        "grace",
        "heartbeat_every",
        "lease_for",
        "maintain_every",
        "poll_every",
        "poll_when_told",
        "prefetch_for",
        "reap_every",
    }
)
OPTIONS = {"lease_for": "LEASE"}
"""Settings with another name as an option of `headway worker`."""
DERIVED = {
    "heartbeat_every": "a third of the lease",
    "poll_when_told": "up to three times poll_every",
    "reap_every": "a tenth of the lease, at most 1 s",
}


@click.group()
def config() -> None:
    """Show settings."""


def _print_settings(found: list[Setting]) -> None:
    print_table(COLUMNS, [(each.name, each.source, each.value) for each in found])


@config.command()
@unloaded_argument
@wide_option
@printed_by(_print_settings)
def show(target: Target) -> list[Setting]:
    """Show the settings in effect, and where each was set. Secrets are masked."""
    return list(_settings(target))


def _settings(target: Target) -> Iterator[Setting]:
    yield Setting(name="target", value=masked(target.text), source=target.source)
    loaded = target.load()
    token = os.environ.get("HEADWAY_TOKEN")
    yield Setting(
        name="token",
        value="***" if token else "none",
        source="HEADWAY_TOKEN" if token else "default",
    )
    if isinstance(loaded, DashboardUrl):
        return
    own = "default" if "://" in target.text else "the app"
    source = target.source if "://" in target.text else own
    yield Setting(name="store", value=loaded.store.name, source=source)
    yield Setting(name="notifier", value=type(loaded.notifier).__name__, source=own)
    types = sorted(loaded.registry, key=lambda each: each.name)
    yield Setting(
        name="job types", value=", ".join(each.name for each in types) or "none", source=own
    )
    yield from _worker_settings(loaded)


def _worker_settings(app: Headway) -> Iterator[Setting]:
    usual = WorkerSettings()
    try:
        chosen = app.worker().settings
    except ConfigurationError:  # no handlers here: a DSN
        chosen = usual
    for field in fields(WorkerSettings):
        name = field.name
        if name == "worker_id":
            continue
        option = f"HEADWAY_WORKER_{OPTIONS.get(name, name).upper()}"
        given = os.environ.get(option)
        value = getattr(chosen, name)
        if given:
            source, text = option, given
        elif value == getattr(usual, name):
            source, text = "default", _text(name, value)
        else:
            source, text = "the job types", _text(name, value)
        yield Setting(name=f"worker.{name}", value=text, source=source)


def _text(name: str, value: object) -> str:
    match value:
        case None:
            return DERIVED.get(name, "none")
        case Retention():
            return ", ".join(
                f"{state} {'for ever' if kept is None else span(kept.total_seconds())}"
                for state, kept in value.by_state()
            )
        case dict():
            by_name = cast("dict[str, Retention]", value)
            return (
                "; ".join(f"{key}: {_text(name, each)}" for key, each in by_name.items()) or "none"
            )
        case tuple():
            return ", ".join(map(str, cast("tuple[object, ...]", value)))
        case float() if name in IN_SECONDS:
            return span(value)
        case _:
            return str(value)
