"""A queue in the terminal, in full, and its limits in short."""

from __future__ import annotations

import click

from headway.cli.commands.queues_limit import overridden
from headway.cli.job_text import INDENT, moment_now, when_text
from headway.cli.output import print_fields, say
from headway.cli.safe_text import harmless
from headway.domain.limits.limit_views import SHOWN_KEYS, KeyUse, QueuePermits
from headway.domain.limits.queue_limits import QueueLimits
from headway.domain.text import ago, moment, number, plural, span
from headway.domain.views import QueueDetail, ShownState


def in_short(permits: QueuePermits) -> str:
    """`40 running; 2 per key (overridden: running), held for 20 s`."""
    held = ""
    if permits.held_until is not None:
        held = f", held for {span((permits.held_until - moment_now()).total_seconds())}"
    return f"{permits.effective}{overridden(permits.override)}{held}"


def print_queue(detail: QueueDetail) -> None:
    queue, now = detail.queue, moment_now()
    print_fields(
        [
            ("name", queue.name),
            ("paused", when_text(queue.paused_at, now)),
            *((state, _count(detail, state)) for state in ShownState),
            ("oldest", None if queue.oldest_waiting is None else span(queue.oldest_waiting)),
            ("per second", f"{queue.per_second:,.1f}"),
            ("workers", queue.workers),
            *(_permits(queue.permits) if queue.permits is not None else ()),
        ]
    )
    if queue.permits is not None:
        _print_keys(queue.permits)
    if detail.warning is not None:
        say(f"Warning: {detail.warning}")


def _count(detail: QueueDetail, state: ShownState) -> str | None:
    counted = detail.queue.states.get(state)
    return None if counted is None or (not counted.value and counted.exact) else number(counted)


def _permits(permits: QueuePermits) -> list[tuple[str, object]]:
    limits = permits.effective
    return [
        ("limits", f"{limits}{overridden(permits.override)}"),
        ("permits", _used(permits)),
        ("next start", _next_start(permits.next_start_in)),
        ("held", _held(permits)),
        ("declared", _declared(permits)),
        ("overridden", when_text(permits.overridden_at, moment_now())),
    ]


def _used(permits: QueuePermits) -> str | None:
    most = permits.effective.running
    if most is None:
        return None
    return f"{permits.running:,} of {most:,} used, {permits.free:,} free"


def _next_start(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return f"in {span(seconds)}, by the rate" if seconds > 0 else "now, by the rate"


def _held(permits: QueuePermits) -> str | None:
    until = permits.held_until
    return None if until is None else f"until {moment(until)} ({ago(until, moment_now())})"


def _declared(permits: QueuePermits) -> str:
    if not permits.declared_by and permits.declared == QueueLimits():
        return "no limits"
    who = (
        plural(permits.declared_by, "living worker") if permits.declared_by else "no living worker"
    )
    return f"{permits.declared}, by {who}"


def _print_keys(permits: QueuePermits) -> None:
    if not permits.keys:
        return
    first = f" (the first {SHOWN_KEYS})" if len(permits.keys) == SHOWN_KEYS else ""
    click.echo()
    click.echo(click.style(f"keys{first}", bold=True))
    for use in permits.keys:
        click.echo(f"{INDENT}{harmless(use.key)}  {_use(use, permits.effective.per_key)}")


def _use(use: KeyUse, most: int | None) -> str:
    running = f"{use.running:,} running" if most is None else f"{use.running:,} of {most:,} running"
    if use.held_until is None:
        return running
    return f"{running}, held until {moment(use.held_until)} ({ago(use.held_until, moment_now())})"
