"""Claims from a queue with limits.

    lock the queue's row     one claim of the queue at a time, in all workers
    count running jobs       in a fresh snapshot: the running jobs are the permits
    claim                    no more than are left
    keep the rate            the moment until which starts are paid for

The permits are the running jobs themselves, so that nothing has to be given back: a job that ends,
is lost or is cancelled is not running any more. Settlements take no lock of the queue. A queue that
is only fair is claimed from without its lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import structs

from headway.domain.job import ClaimedJob
from headway.domain.limits.permits import Limit, PermitWait, full_keys, next_key, permits
from headway.domain.limits.queue_limits import QueueLimits, QueueState
from headway.domain.orders import ClaimOrder
from headway.limits.key_claim import LOOKED_AT, KeyTurns, claim_by_key
from headway.ports.statement import Operation, atomic_from_lock
from headway.ports.store import Operations

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LimitedClaim(msgspec.Struct, kw_only=True):
    """The answer of a claim from a queue with limits."""

    jobs: list[ClaimedJob]
    permits: bool = False
    """The queue has limits that jobs wait for until another one ends."""
    rated: bool = False
    """The queue has a rate."""
    limited: bool = True
    """False: the queue has no limits any more, and was claimed from as any other."""
    wait: PermitWait | None = None
    """The limit that kept the claim from more."""
    more: bool = False
    """Another claim may find more at once."""
    due: bool = False
    """Jobs are due that can be claimed only when the worker can start them at once."""
    others: int = 0
    """Permits that this claim left, and that other workers found missing before."""


@atomic_from_lock
def claim_limited(
    store: Operations, order: ClaimOrder, turns: KeyTurns, *, now: datetime | None = None
) -> Operation[LimitedClaim]:
    """Claim from the one queue of the order, within its limits."""
    (share,) = order.queues
    lock = turns.locked.get(share.name, True)
    state = yield from store.queue_state(share.name, lock=lock)
    limits = QueueLimits() if state is None else state.effective
    if not lock and _needs_lock(state):
        state = yield from store.queue_state(share.name, lock=True)
        limits = QueueLimits() if state is None else state.effective
    turns.locked[share.name] = _needs_lock(state)
    if order.again:
        taken = yield from store.claim(structs.replace(order, limit=0), now=now)
        if taken:
            return _answer(limits, taken)
    if state is None or not state.limited:
        jobs = yield from store.claim(order, now=now)
        more = len(jobs) >= order.limit > 0
        return LimitedClaim(jobs=jobs, limited=False, more=more)
    if state.paused_at is not None:
        return _answer(limits, [])
    return (yield from _claim(store, order, state, limits, turns, now))


def _needs_lock(state: QueueState | None) -> bool:
    """Whether a claim counts permits, or may have to change the state."""
    return state is not None and (
        state.effective.need_permits
        or state.held_until is not None
        or bool(state.held_keys)
        or state.refused
    )


def _answer(
    limits: QueueLimits,
    jobs: list[ClaimedJob],
    wait: PermitWait | None = None,
    *,
    more: bool = False,
    others: int = 0,
) -> LimitedClaim:
    return LimitedClaim(
        jobs=jobs,
        permits=limits.running is not None or limits.per_key is not None,
        rated=limits.rate is not None,
        wait=wait,
        more=more,
        others=others,
    )


def _claim(
    store: Operations,
    order: ClaimOrder,
    state: QueueState,
    limits: QueueLimits,
    turns: KeyTurns,
    now: datetime | None,
) -> Operation[LimitedClaim]:
    (share,) = order.queues
    timed = limits.rate is not None or state.held_until is not None or bool(state.held_keys)
    time = (yield from store.time(now=now)) if timed else None
    running: Mapping[str | None, int] = {}
    if limits.running is not None or limits.per_key is not None:
        by_key = limits.per_key is not None
        running = yield from store.running_keys(share.name, by_key=by_key)
    moment = time or EPOCH  # which nothing is compared with
    state_now = _let_go(state, time)
    wanted = min(order.limit, share.limit)
    at_once = wanted if share.at_once is None else min(share.at_once, wanted)
    granted = permits(state_now, limits, sum(running.values()), wanted, at_once, moment)
    # Under a rate the claim bears the time that the rate was reckoned with.
    at = time if limits.rate is not None else now
    order = structs.replace(order, limit=granted.granted, limited=True, again=False)
    jobs: list[ClaimedJob] = []
    wait, more = granted.wait, False
    full: set[str] = set()
    if granted.granted > 0:
        if limits.by_key or state_now.held_keys:
            full = full_keys(state_now, limits, running, moment)
            jobs, more = yield from claim_by_key(store, order, limits, running, full, turns, at)
        else:
            jobs = yield from store.claim(order, now=at)
    again = turns.keyless_in(share.name)
    if len(jobs) < granted.granted:
        wait = None  # nothing more is due, but for jobs of full keys
        if again is not None or (
            full and not more and (yield from _is_due(store, order, full, at))
        ):
            wait = _key_wait(state_now, limits, full, time, again)
    elif wait is not None:
        more = False
        if not jobs and not (yield from _is_due(store, order, None, at)):
            wait = None
    elif jobs:
        more = True
    answer = yield from _keep(
        store, state, state_now, limits, jobs, granted.free, wait, time, more=more
    )
    if granted.granted == 0 < wanted and granted.wait is None:
        answer.due = yield from _is_due(store, order, None, at)
    return answer


def _is_due(
    store: Operations, order: ClaimOrder, keys: set[str] | None, now: datetime | None
) -> Operation[bool]:
    """Whether a job of these keys, or of any, is due: among the first ones, if keys are given."""
    for priority in (yield from store.priorities(order.queues[0].name)):
        reach = 1 if keys is None else LOOKED_AT
        found = yield from store.keys_in_order(order, priority, reach, now=now)
        if found and (keys is None or not keys.isdisjoint(found)):
            return True
    return False


def _let_go(state: QueueState, now: datetime | None) -> QueueState:
    """The state without holds that are over."""
    if now is None:
        return state
    keys = {key: until for key, until in state.held_keys.items() if until > now}
    held = state.held_until if state.held_until is not None and state.held_until > now else None
    return structs.replace(state, held_until=held, held_keys=keys)


def _keep(
    store: Operations,
    before: QueueState,
    state: QueueState,
    limits: QueueLimits,
    jobs: list[ClaimedJob],
    free: int | None,
    wait: PermitWait | None,
    now: datetime | None,
    *,
    more: bool,
) -> Operation[LimitedClaim]:
    """Keep what the claim changed in the queue's state, if anything."""
    others = 0
    if jobs and limits.rate is not None and now is not None:
        paid = limits.rate.paid(state.paid_until, now, len(jobs))
        state = structs.replace(state, paid_until=paid)
    if wait is not None and wait.limit in (Limit.RUNNING, Limit.PER_KEY):
        state = structs.replace(state, refused=True)
    elif state.refused and not more and wait is None:
        others = 1 if free is None else max(free - len(jobs), 0)
        if others:
            state = structs.replace(state, refused=False)
    if state != before:
        yield from store.save_queue(state)
    return _answer(limits, jobs, wait, more=more, others=others)


def _key_wait(
    state: QueueState,
    limits: QueueLimits,
    full: set[str],
    now: datetime | None,
    again: float | None,
) -> PermitWait:
    """What jobs of full keys wait for; `again`: seconds until the next look for other reasons."""
    held = None if now is None else next_key(state, now)
    soonest = min((each for each in (held, again) if each is not None), default=None)
    key = min(full, default=None)
    if held is not None and full <= state.held_keys.keys():
        return PermitWait(limit=Limit.HELD, again_in=soonest, key=key)
    return PermitWait(limit=Limit.PER_KEY, most=limits.per_key, again_in=soonest, key=key)
