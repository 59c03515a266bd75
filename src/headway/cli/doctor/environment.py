"""Checks of Python, the installed packages and the app's code."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click
import msgspec

from headway.app import Headway
from headway.cli.doctor.findings import ok, warn
from headway.cli.json_results import Diagnosis
from headway.ports.notifier import Reach

EXTRAS = {
    "postgres": "psycopg",
    "asyncpg": "asyncpg",
    "mongodb": "pymongo",
    "redis": "redis",
    "nats": "nats-py",
    "schedules": "cronsim",
    "cli": "click",
    "web": "starlette",
    "otel": "opentelemetry-api",
    "prometheus": "prometheus-client",
    "sentry": "sentry-sdk",
}
"""Extras, and the package that shows that one is installed."""


def examine_environment(app: Headway) -> list[Diagnosis]:
    return [_versions(), _extras(), _types(app), _notifier(app)]


def _versions() -> Diagnosis:
    return ok(
        "versions",
        f"headway {version('headway')}, Python {platform.python_version()}, "
        f"msgspec {msgspec.__version__}, click {version(click.__name__)}, "
        f"uvloop {_version('uvloop') or 'not installed: workers run on the slower asyncio loop'}, "
        f"cronsim {_version('cronsim') or 'not installed: schedules with Cron need it'}, "
        f"tzdata {_version('tzdata') or 'not installed: time zones are those of the system'}",
    )


def _extras() -> Diagnosis:
    there = {extra: found for extra, package in EXTRAS.items() if (found := _version(package))}
    missing = [extra for extra in EXTRAS if extra not in there]
    installed = ", ".join(f"{extra} ({found})" for extra, found in there.items()) or "none"
    return ok("extras", installed + (f"; not installed: {', '.join(missing)}" if missing else ""))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _types(app: Headway) -> Diagnosis:
    types, handlers = len(list(app.registry)), len(app.registry.handlers())
    if types:
        return ok("code", f"{types} job types, {handlers} of them with a handler here")
    return warn(
        "code",
        "no job types are known here",
        "Name the app (app.py or module:app) instead of its database to have them looked at.",
    )


def _notifier(app: Headway) -> Diagnosis:
    kind = type(app.notifier).__name__
    if app.notifier.reach > Reach.PROCESS or not app.store.capabilities.across_processes:
        return ok("notifier", f"{kind} wakes workers and waiting clients")
    return warn(
        "notifier",
        f"{kind} does not reach other processes, so workers find jobs by polling",
        "Leave out `notifier` to have the store's own, or name redis:// or nats://.",
    )
