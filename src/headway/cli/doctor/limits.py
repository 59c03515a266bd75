"""Checks of limits: declared by no worker, overridden or held for long, and jobs that wait."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import timedelta

from headway.cli.doctor.findings import ok, warn
from headway.cli.job_text import moment_now
from headway.cli.json_results import Diagnosis
from headway.cli.target import command_line
from headway.domain.limits.limit_views import QueuePermits
from headway.domain.text import ago, moment, plural, span
from headway.domain.views import QueueSummary

LONG_OVERRIDE = timedelta(days=7)
LONG_HOLD = timedelta(minutes=10)
LONG_WAIT = 600.0
"""Seconds after which a job has waited long for a permit."""


def examine_limits(queues: Sequence[QueueSummary], *, working: bool) -> list[Diagnosis]:
    """`working`: workers are alive, and could declare limits."""
    found: list[Diagnosis] = []
    limited = 0
    for queue in queues:
        if (permits := queue.permits) is not None:
            limited += 1
            found += [
                *(_undeclared(queue.name, permits) if working else ()),
                *_overridden(queue.name, permits),
                *_held(queue.name, permits),
                *_starved(queue, permits),
            ]
    if not limited:
        return [ok("limits", "none")]
    counted = plural(limited, "queue")
    return found or [ok("limits", f"{counted} with limits, and no job waits for a permit for long")]


def waits_for_permits(queue: QueueSummary) -> bool:
    """Whether limits or a hold keep the jobs of a queue from being claimed: more workers would not
    help."""
    permits = queue.permits
    return permits is not None and (
        permits.free == 0 or bool(permits.next_start_in) or permits.held_until is not None
    )


def _undeclared(name: str, permits: QueuePermits) -> list[Diagnosis]:
    if permits.declared_by or not permits.declared.any:
        return []
    return [
        warn(
            "limits",
            f"no living worker declares the limits of {name}, which stay in force: "
            f"{permits.declared}",
            f'Start a worker with the code that has them, or declare app.queue("{name}") without '
            "limits.",
        )
    ]


def _overridden(name: str, permits: QueuePermits) -> list[Diagnosis]:
    since, now = permits.overridden_at, moment_now()
    if permits.override is None or since is None or now - since < LONG_OVERRIDE:
        return []
    clear = command_line(f"queues limit {shlex.quote(name)} --clear")
    return [
        ok(
            "limits",
            f"the limits of {name} were overridden {ago(since, now)}: {permits.effective} instead "
            f"of {permits.declared}; to take that back: {clear}",
        )
    ]


def _held(name: str, permits: QueuePermits) -> list[Diagnosis]:
    until = permits.held_until
    if until is None:
        return []
    left = until - moment_now()
    finding = f"{name} is held until {moment(until)} (for {span(left.total_seconds())})"
    if left <= LONG_HOLD:
        return [ok("limits", f"{finding}, because a job asked for it")]
    release = command_line(f"queues release {shlex.quote(name)}")
    return [warn("limits", f"{finding}, because a job asked for it", f"To end it: {release}")]


def _starved(queue: QueueSummary, permits: QueuePermits) -> list[Diagnosis]:
    waited = queue.oldest_waiting
    if waited is None or waited <= LONG_WAIT or queue.paused_at is not None:
        return []
    if permits.held_until is not None or not waits_for_permits(queue):
        return []
    show = command_line(f"queues show {shlex.quote(queue.name)}")
    return [
        ok(
            "limits",
            f"the oldest due job of {queue.name} waits for {span(waited)}, and all permits are "
            f"used ({permits.effective}); see {show}",
        )
    ]
