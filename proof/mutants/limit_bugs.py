"""Bugs to plant into limits: into the rules of permits, rates and turns, the operations that claim
and change limits, their statements, and the notifications of freed permits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.after_commit.effects import Effects
from headway.after_commit.publisher import Publisher
from headway.domain.limits import permits, turns
from headway.domain.limits.queue_limits import QueueLimits, StoredLimits
from headway.domain.limits.rate import Rate
from headway.domain.settlement import Complete
from headway.limits import changes, claim, key_claim
from headway.stores.memory.claim import MemoryClaim
from headway.stores.memory.limits import MemoryLimits
from headway.stores.sql.limits import SqlLimits
from proof.mutants.core_bugs import judging
from proof.mutants.memory_bugs import rewriting
from proof.mutants.sql_bugs import changed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _of(owner: type, name: str) -> Any:
    """The function of a property."""
    return vars(owner)[name].fget


LINES: list[tuple[Any, str, str]] = [
    # Permits.
    (permits.permits, "limits.running - running", "limits.running"),
    (
        permits.permits,
        "min(granted, at_once, allowed)",
        "min(granted, at_once)",
    ),
    (permits.permits, "state.held_until is not None and state.held_until > now", "False"),
    (permits.full_keys, "if until > now", "if False"),
    (permits.full_keys, "count >= most", "count > most"),
    (turns.in_order, "running.get(key, 0) + taken[key] < most", "taken[key] < most"),
    (_of(QueueLimits, "by_key"), "self.fair or self.per_key is not None", "self.fair"),
    # An operator's override is not read, or takes others with it.
    (_of(StoredLimits, "effective"), "if self.override is None:", "if True:"),
    (changes.override, "{**known, **change.changes}", "change.changes"),
    (
        changes.declare,
        "fingerprint in stored.replaced and (name, present) in living",
        "False",
    ),
    # Rates: a bucket of tokens; paid not at all, twice, or without what was spent.
    (_of(Rate, "interval"), "(self.limit - self.burst + 1)", "self.limit"),
    (claim._keep, "if jobs and limits.rate is not None and now is not None:", "if False:"),
    (claim.claim_limited, "if order.again:", "if False:"),
    (claim.claim_limited, "if taken:", "if False:"),
    (changes.spend, "yield from store.save_queue(", "(lambda _: None)("),
    # Turns.
    (key_claim._claim_in_turn, "turns.next[place] = then", "pass"),
    (key_claim.claim_by_key, "running.update(job.key for job in found)", "pass"),
    # Holds.
    (changes.hold, "yield from store.save_queue(state)", "pass"),
    (changes.hold, "until = max(until, state.held_until)", "pass"),
    # The memory store.
    (
        MemoryClaim.claim,
        "limits is not None and limits.limited and not order.limited",
        "False",
    ),
    (MemoryLimits.running_keys, "and row.spec.queue == queue", ""),
]
"""Where it stands, how it reads, and what is there instead."""


def paid_again() -> None:
    """A claim whose answer was lost is paid for a second time when it is repeated."""
    sound = claim.claim_limited

    def claim_limited(store: Any, order: Any, turns: Any, *, now: Any = None) -> Any:
        answer = yield from sound(store, order, turns, now=now)
        if order.again and answer.jobs:
            spent = [(order.queues[0].name, len(answer.jobs))]
            yield from changes.spend(store, spent, now=now)
        return answer

    _replace_claim(claim_limited)


def _replace_claim(instead: Any) -> None:
    from headway.testing.conformance.store import limited_claims, rates  # noqa: PLC0415
    from headway.worker.claims import fetcher  # noqa: PLC0415

    for module in (claim, fetcher, limited_claims, rates):
        if hasattr(module, "claim_limited"):
            vars(module)["claim_limited"] = instead


def fixed_window() -> None:
    """Starts are counted from the beginning of a minute, or of whatever the window is."""

    def began(self: Any, now: datetime) -> datetime:
        return EPOCH + math.floor((now - EPOCH).total_seconds() / self.per) * timedelta(
            seconds=self.per
        )

    def allowed(self: Any, paid_until: datetime | None, now: datetime) -> int:
        used = 0.0 if paid_until is None else (paid_until - began(self, now)).total_seconds()
        return max(self.limit - round(max(used, 0.0) * self.limit / self.per), 0)

    def paid(self: Any, paid_until: datetime | None, now: datetime, weight: int) -> datetime:
        start = began(self, now)
        since = start if paid_until is None else max(paid_until, start)
        return since + timedelta(seconds=weight * self.per / self.limit)

    type.__setattr__(Rate, "allowed", allowed)
    type.__setattr__(Rate, "paid", paid)


def counted_before_the_lock() -> None:
    """Running jobs are counted when a claim asks for the lock and not when it has it: so does a
    statement that locks, counts and claims at once."""
    locked, count = SqlLimits.queue_state, SqlLimits.running_keys
    counted: dict[Any, Any] = {}

    def queue_state(self: Any, name: str, *, lock: bool = False) -> Any:
        if lock:
            counted[asyncio.current_task()] = yield from count(self, name)
        return (yield from locked(self, name, lock=lock))

    def running_keys(self: Any, queue: str, **_: Any) -> Any:
        yield from ()
        return counted[asyncio.current_task()]

    SqlLimits.queue_state = queue_state
    SqlLimits.running_keys = running_keys


def freed_permits_unannounced() -> None:
    Effects.free_permit = lambda self, queue, since: None


def left_permits_unannounced() -> None:
    """A claim that leaves permits over wakes none of those that found none before."""
    Publisher.wake_others = lambda self, notification: None


SEEN_BY_CONFORMANCE: dict[str, Callable[[], None]] = {
    f"limits: {function.__name__.strip('_')} with `{instead}` for `{line}`": rewriting(
        function, line, instead
    )
    for function, line, instead in LINES
} | {
    "limits: keep pays again for a repeated claim": paid_again,
    "limits: allowed in fixed windows": fixed_window,
}

SEEN_BY_SIMULATION: dict[str, Callable[[], None]] = {
    "limits: a job whose lease has run out has no permit": rewriting(
        MemoryLimits.running_keys,
        "seen.state is JobState.RUNNING",
        "seen.state is JobState.RUNNING and seen.until > moment(None)",
    ),
    "limits: a stale completion frees the permit of another": judging(
        lambda each: isinstance(each, Complete)
    ),
    "limits: fixed windows among workers": fixed_window,
    "limits: overrides not read by workers": rewriting(
        _of(StoredLimits, "effective"), "if self.override is None:", "if True:"
    ),
}

SEEN_BY_CHECKS: dict[str, tuple[Callable[[], None], str]] = {
    "limits: freed permits wake nobody": (freed_permits_unannounced, "freed_permit"),
    "limits: left permits wake nobody": (left_permits_unannounced, "left_permit"),
    "limits: claims by key without the lock": (
        rewriting(_of(QueueLimits, "need_permits"), " or self.per_key is not None", ""),
        "claimers",
    ),
}

SEEN_BY_SQL: dict[str, dict[str, Callable[[], None]]] = {
    "postgres": {
        "limits: queue_state_locked.sql without its lock": changed(
            "postgres", "queue_state_locked", "for no key update", ""
        ),
        "limits: running jobs counted before the lock": counted_before_the_lock,
        "limits: need_permits, and so the lock, without a rate": rewriting(
            _of(QueueLimits, "need_permits"), " or self.rate is not None", ""
        ),
        "limits: plain claims of queues with limits": changed(
            "postgres", "claim", "or (q.limited and not $12::bool)", ""
        ),
        "limits: running_keys.sql of all queues": changed(
            "postgres", "running_keys", "and queue = $1::text", "and $1::text <> ''"
        ),
    },
    "sqlite": {
        "limits: plain claims on SQLite of queues with limits": changed(
            "sqlite", "claim", "or (q.limited and not ?9)", "and ?9 >= 0"
        ),
        "limits: running_keys.sql on SQLite of all queues": changed(
            "sqlite", "running_keys", "and queue = ?1", "and ?1 <> ''"
        ),
    },
}
