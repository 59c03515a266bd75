"""Changes of a queue's limits: declared by workers, overridden by operators, held and charged by
handlers. Each locks the queue's row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import structs

from headway.domain.due_time import After, At, due
from headway.domain.limits.queue_limits import (
    LimitsOverride,
    QueueLimits,
    QueueState,
    StoredLimits,
)
from headway.domain.queries import WorkerRecord, is_alive
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations

MOST_REPLACED = 20
"""Earlier declarations of a queue that are remembered."""
MOST_HELD_KEYS = 1_000
SHORTEST_HOLD = timedelta(seconds=0.1)
"""A service that says "again in 0 seconds" is not called again and again."""


@reading
def is_declared(store: Operations, declared: Mapping[str, QueueLimits]) -> Operation[bool]:
    """Whether the stored limits are those that the code declares."""
    for name, limits in declared.items():
        state = yield from store.queue_state(name)
        stored = QueueLimits() if state is None or state.limits is None else state.limits.declared
        if stored != limits:
            return False
    return True


def declare(
    store: Operations,
    worker: WorkerRecord,
    declared: Mapping[str, QueueLimits],
    *,
    now: datetime | None = None,
) -> Operation[list[str]]:
    """Store the declared limits, and the record of the worker that declares them; the names of the
    queues that changed. As with schedules, a declaration that was replaced comes back only when no
    living worker declares the stored one."""
    yield from store.save_worker(worker, now=now)
    time = yield from store.time(now=now)
    changed: list[str] = []
    workers = yield from store.workers()
    living = {
        (name, fingerprint)
        for other in workers
        if is_alive(other, time)
        for name, fingerprint in (other.limits or {}).items()
    }
    for name in sorted(declared):
        limits = declared[name]
        state = (yield from store.queue_state(name, lock=True)) or QueueState(name=name)
        stored = state.limits or StoredLimits()
        present, fingerprint = stored.declared.fingerprint, limits.fingerprint
        if present == fingerprint and state.limits is not None:
            continue
        if fingerprint in stored.replaced and (name, present) in living:
            continue
        replaced = tuple(one for one in stored.replaced if one != fingerprint)
        if replaced == stored.replaced and state.limits is not None:
            replaced = (present, *replaced)[:MOST_REPLACED]
        kept = structs.replace(stored, declared=limits, replaced=replaced)
        yield from store.save_queue(_limited(state, kept, time))
        changed.append(name)
    return changed


def override(
    store: Operations,
    name: str,
    change: LimitsOverride | None,
    *,
    exactly: bool = False,
    now: datetime | None = None,
) -> Operation[tuple[QueueState, QueueState]]:
    """Set limits over the declared ones, besides those that were set before (`exactly`: in their
    place); None takes all back. The state before and after."""
    before = (yield from store.queue_state(name, lock=True)) or QueueState(name=name)
    stored = before.limits or StoredLimits()
    merged: LimitsOverride | None = None
    if change is not None:
        known = {} if exactly or stored.override is None else stored.override.changes
        merged = LimitsOverride(**{**known, **change.changes})
    time = yield from store.time(now=now)
    kept = structs.replace(stored, override=merged, overridden_at=None if merged is None else time)
    after = _limited(before, kept, time)
    yield from store.save_queue(after)
    return before, after


def _limited(state: QueueState, limits: StoredLimits, now: datetime) -> QueueState:
    """The state with these limits. Under another rate the same number of starts is paid for. Raises
    InvalidOption if the limits do not go together."""
    before, after = state.effective.rate, limits.effective.rate
    paid_until = state.paid_until
    if after is not None and after != before:
        paid_until = after.converted(paid_until, now, before)
    return structs.replace(state, limits=limits, paid_until=paid_until)


def hold(
    store: Operations,
    name: str,
    key: str | None,
    schedule: At | After,
    *,
    now: datetime | None = None,
) -> Operation[datetime]:
    """Start no job of the queue, or of the key, before then; until when. A longer hold stays."""
    state = (yield from store.queue_state(name, lock=True)) or QueueState(name=name)
    time = yield from store.time(now=now)
    until = max(due(schedule, time), time + SHORTEST_HOLD)
    if key is None:
        if state.held_until is not None:
            until = max(until, state.held_until)
        state = structs.replace(state, held_until=until)
    else:
        until = max(until, state.held_keys.get(key, until))
        held = {one: end for one, end in state.held_keys.items() if end > time} | {key: until}
        if len(held) > MOST_HELD_KEYS:  # let go of the one that ends first
            del held[min(held, key=held.__getitem__)]
        state = structs.replace(state, held_keys=held)
    yield from store.save_queue(state)
    return until


def let_go(store: Operations, name: str) -> Operation[QueueState]:
    """End all holds of the queue and of its keys; the state before."""
    state = (yield from store.queue_state(name, lock=True)) or QueueState(name=name)
    yield from store.save_queue(structs.replace(state, held_until=None, held_keys={}))
    return state


def spend(
    store: Operations, spent: Iterable[tuple[str, int]], *, now: datetime | None = None
) -> Operation[None]:
    """Count weights of jobs that have started against the rates of their queues."""
    for name, weight in sorted(spent):
        state = yield from store.queue_state(name, lock=True)
        rate = None if state is None else state.effective.rate
        if state is None or rate is None:  # the rate was taken away since
            continue
        time = yield from store.time(now=now)
        paid = rate.paid(state.paid_until, time, weight)
        yield from store.save_queue(structs.replace(state, paid_until=paid))
