"""`headway queues limit` and `release`: overrides of limits, and the end of holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from msgspec import UNSET, UnsetType

from headway.app import Headway
from headway.cli.job_text import moment_now
from headway.cli.output import printed_by, say, tell
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, target_option
from headway.cli.times import duration
from headway.domain.limits.limit_views import HoldRelease, LimitsChange
from headway.domain.limits.queue_limits import LimitsOverride
from headway.domain.limits.rate import Rate
from headway.domain.text import ago, moment, plural
from headway.errors import InvalidOption

NONE = "none"
_WHOLE = re.compile(r"[+-]?\d+")

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R", LimitsChange, HoldRelease)


def read_cap(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise click.BadParameter(f"{text[:40]!r} is not a whole number; write 40, or {NONE}")
    return int(text)


def read_rate(text: str) -> Rate:
    """`90/60s`, `90/1m`; without a burst."""
    count, slash, per = text.partition("/")
    if not slash or not _WHOLE.fullmatch(count):
        raise click.BadParameter(
            f"{text[:40]!r} is not a rate; write 90/60s for 90 starts in any 60 seconds, or {NONE}"
        )
    return Rate(int(count), duration(per))


def _limit_option(name: str, read: Callable[[str], T], metavar: str, help: str) -> Callable[[F], F]:
    """An option that is a limit: UNSET if it was not given, None for `none`."""

    def convert(_: click.Context, __: click.Parameter, text: str | None) -> T | UnsetType | None:
        if text is None:
            return UNSET
        try:
            return None if text.strip() == NONE else read(text.strip())
        except InvalidOption as error:
            raise click.BadParameter(str(error)) from None

    return click.option(name, metavar=metavar, callback=convert, help=help)


def _print_limits(changed: LimitsChange) -> None:
    tell(f"{changed.queue}: {changed.effective}{overridden(changed.override)}")


def overridden(override: LimitsOverride | None) -> str:
    """` (overridden: running, rate)`."""
    if override is None:
        return ""
    return f" (overridden: {', '.join(name.replace('_', ' ') for name in override.changes)})"


@click.command()
@click.argument("name")
@_limit_option("--running", read_cap, "N|none", "Jobs that run at once, in all workers together.")
@_limit_option("--per-key", read_cap, "N|none", "Jobs of one key that run at once.")
@_limit_option("--rate", read_rate, "N/TIME|none", "Starts in any window of time: 90/60s, 1000/1h.")
@click.option("--burst", type=int, help="Starts of --rate that may come at once.  [default: 1]")
@click.option("--clear", is_flag=True, help="Take all overrides back.")
@target_option
@printed_by(_print_limits)
def limit(
    name: str,
    running: int | UnsetType | None,
    per_key: int | UnsetType | None,
    rate: Rate | UnsetType | None,
    burst: int | None,
    clear: bool,
    target: Headway | DashboardUrl,
) -> LimitsChange:
    """Override limits of a queue, which its code declares.

    They are in force at once, also for running workers, until --clear takes them back. Running jobs
    go on. `none` lifts a limit; limits that are not named stay as they are.
    """
    change = _read_change(running, per_key, rate, burst, clear=clear)

    async def run(session: Session) -> LimitsChange:
        actions = session.actions
        if change is None:
            return _warned(await actions.clear_limits(name))
        return _warned(await actions.limit_queue(name, **change.changes))

    return in_session(target, run)


def _read_change(
    running: int | UnsetType | None,
    per_key: int | UnsetType | None,
    rate: Rate | UnsetType | None,
    burst: int | None,
    *,
    clear: bool,
) -> LimitsOverride | None:
    """The limits to override; None: take all overrides back."""
    try:
        if burst is not None:
            if not isinstance(rate, Rate):
                raise click.UsageError("--burst belongs to a rate: --rate 90/60s --burst 10")
            rate = Rate(rate.limit, rate.per, burst)
        change = LimitsOverride(running=running, per_key=per_key, rate=rate)
    except InvalidOption as error:
        raise click.UsageError(str(error)) from None
    if clear and change.changes:
        raise click.UsageError("--clear takes all overrides back; it goes with no other limit")
    if not clear and not change.changes:
        raise click.UsageError("name a limit to change: --running, --per-key, --rate, or --clear")
    return None if clear else change


def _print_released(results: Sequence[HoldRelease]) -> None:
    for released in results:
        parts: list[str] = []
        if released.held_until is not None:
            until = released.held_until
            parts.append(
                f"released; it was held until {moment(until)} ({ago(until, moment_now())})"
            )
        if released.held_keys:
            parts.append(f"{plural(released.held_keys, 'key')} released")
        tell(f"{released.queue}: {'; '.join(parts) or 'was not held'}")


@click.command()
@click.argument("names", nargs=-1, required=True)
@target_option
@printed_by(_print_released)
def release(names: tuple[str, ...], target: Headway | DashboardUrl) -> list[HoldRelease]:
    """End the holds of these queues and of their keys.

    Handlers hold a queue or a key with job.hold, when a service asks for a pause.
    """

    async def run(session: Session) -> list[HoldRelease]:
        return [_warned(await session.actions.release_hold(each)) for each in names]

    return in_session(target, run)


def _warned(result: R) -> R:
    if result.warning is not None:
        say(f"Warning: {result.warning}")
    return result
