"""Permits: how many jobs of a queue may be claimed now, and what the others wait for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from headway.domain.limits.queue_limits import QueueLimits, QueueState


class Limit(StrEnum):
    """What keeps a due job from being claimed."""

    RUNNING = "running"
    PER_KEY = "per_key"
    RATE = "rate"
    HELD = "held"


class PermitWait(msgspec.Struct, frozen=True, kw_only=True):
    """The limit that jobs of a queue wait for."""

    limit: Limit
    again_in: float | None = None
    """Seconds until the next start is allowed; None: when a running job ends."""
    used: int | None = None
    most: int | None = None
    """`used` of `most` permits are in use."""
    key: str | None = None
    """The key that waits; None: the whole queue."""


class Permits(msgspec.Struct, frozen=True):
    """How many jobs a claim may take."""

    granted: int
    wait: PermitWait | None = None
    """What keeps the claim from more."""
    free: int | None = None
    """Permits that are free before the claim, whenever a rate lets them be used; None: any
    number."""


def permits(
    state: QueueState,
    limits: QueueLimits,
    running: int,
    wanted: int,
    at_once: int,
    now: datetime,
) -> Permits:
    """Grant up to `wanted` permits. `at_once` of them can be started at once; the others would be
    claimed ahead, which is done only while enough permits are left for other workers, and never
    under a rate, which counts claims as starts."""
    if state.held_until is not None and state.held_until > now:
        seconds = (state.held_until - now).total_seconds()
        return Permits(0, PermitWait(limit=Limit.HELD, again_in=seconds), 0)
    free: int | None = None
    granted, wait = wanted, None
    if limits.running is not None:
        free = max(limits.running - running, 0)
        if free < min(granted, at_once):
            wait = PermitWait(limit=Limit.RUNNING, used=running, most=limits.running)
        granted = min(granted, free, at_once + max(free - at_once, 0) // 2)
    if limits.rate is not None:
        allowed = limits.rate.allowed(state.paid_until, now)
        if allowed < min(granted, at_once):
            # After the allowed ones, when the next is.
            paid = limits.rate.paid(state.paid_until, now, allowed)
            seconds = limits.rate.next_start(paid, now)
            wait = PermitWait(limit=Limit.RATE, again_in=seconds)
        granted = min(granted, at_once, allowed)
    return Permits(granted, wait, free)


def full_keys(
    state: QueueState, limits: QueueLimits, running: Mapping[str | None, int], now: datetime
) -> set[str]:
    """Keys of which no job may be claimed now."""
    full = {key for key, until in state.held_keys.items() if until > now}
    if (most := limits.per_key) is not None:
        full.update(key for key, count in running.items() if key is not None and count >= most)
    return full


def next_key(state: QueueState, now: datetime) -> float | None:
    """Seconds until the first of the held keys is let go."""
    ahead = [until for until in state.held_keys.values() if until > now]
    return (min(ahead) - now).total_seconds() if ahead else None
