"""The limits of a queue, and what is used of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import structs

from headway.domain.limits.limit_views import SHOWN_KEYS, KeyUse, QueuePermits
from headway.domain.limits.queue_limits import QueueState, StoredLimits
from headway.domain.queries import WorkerRecord
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations


@reading
def read_permits(
    store: Operations, queue: str, workers: Iterable[WorkerRecord], now: datetime
) -> Operation[QueuePermits | None]:
    """With the keys of running jobs. `workers` are the living ones."""
    state = yield from store.queue_state(queue)
    if state is None or not has_permits(state, now):
        return None
    running = yield from store.running_keys(queue)
    return permits_of(state, sum(running.values()), workers, now, running)


def has_permits(state: QueueState, now: datetime) -> bool:
    """Whether the queue has limits, declared or overridden, or is held."""
    stored = state.limits
    limited = stored is not None and (stored.declared.any or stored.override is not None)
    return limited or any(holds(state, now))


def permits_of(
    state: QueueState,
    running: int,
    workers: Iterable[WorkerRecord],
    now: datetime,
    running_keys: Mapping[str | None, int] | None = None,
) -> QueuePermits:
    """`running`: the number of running jobs, `running_keys` the same by key; None: for a list."""
    stored = state.limits or StoredLimits()
    fingerprint = stored.declared.fingerprint
    if running_keys is None:  # thousands of weights are not for a list
        stored = structs.replace(stored, declared=structs.replace(stored.declared, weights={}))
    limits = stored.effective
    held_until, held_keys = holds(state, now)
    counts = {key: count for key, count in (running_keys or {}).items() if key is not None}
    keys = [
        KeyUse(key, counts.get(key, 0), held_keys.get(key)) for key in held_keys.keys() | counts
    ]
    keys.sort(key=lambda use: (use.held_until is None, -use.running, use.key))
    return QueuePermits(
        declared=stored.declared,
        override=stored.override,
        overridden_at=stored.overridden_at,
        effective=limits,
        running=running,
        free=None if limits.running is None else max(limits.running - running, 0),
        next_start_in=None
        if limits.rate is None
        else limits.rate.next_start(state.paid_until, now),
        held_until=held_until,
        keys=tuple(keys[:SHOWN_KEYS]),
        declared_by=sum((worker.limits or {}).get(state.name) == fingerprint for worker in workers),
    )


def holds(state: QueueState, now: datetime) -> tuple[datetime | None, dict[str, datetime]]:
    """The holds of the queue and of its keys that are not over."""
    held_until = state.held_until
    return (
        held_until if held_until is not None and held_until > now else None,
        {key: until for key, until in state.held_keys.items() if until > now},
    )
