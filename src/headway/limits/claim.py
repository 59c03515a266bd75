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
from operator import attrgetter
from time import monotonic

import msgspec
from msgspec import structs

from headway.domain.job import ClaimedJob
from headway.domain.limits.permits import Limit, PermitWait, full_keys, next_key, permits
from headway.domain.limits.queue_limits import QueueLimits, QueueState
from headway.domain.limits.turns import KeyShare, in_order, in_turn, interleaved
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation
from headway.ports.store import Operations

MOST_KEYS = 100
"""Keys that one claim takes jobs of."""
LOOKED_AT = 200
"""Jobs that a claim looks at in their order, besides four times those that it wants, before keys
take turns."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYLESS_EVERY = 1.0
"""Seconds between looks for jobs without a key in a queue whose keys take turns; at least twenty
times as long as a look takes."""


class LimitedClaim(msgspec.Struct, kw_only=True):
    """The answer of a claim from a queue with limits."""

    jobs: list[ClaimedJob]
    rated: bool = False
    """The queue has a rate."""
    counted: bool = True
    """Running jobs are counted: one that ends leaves its permit to another."""
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


class KeyTurns:
    """What a worker remembers between its claims. Losing it does no harm."""

    def __init__(self) -> None:
        self.locked: dict[str, bool] = {}
        """Whether claims of a queue needed its lock the last time."""
        self.last: dict[tuple[str, int], str] = {}
        """The key that was served last, by queue and priority."""
        self._keyless_at: dict[tuple[str, int], float] = {}

    def looks_for_keyless(self, queue: str, priority: int) -> bool:
        return monotonic() >= self._keyless_at.get((queue, priority), 0.0)

    def looked_for_keyless(self, queue: str, priority: int, took: float, *, found: bool) -> None:
        pause = 20 * took if found else max(KEYLESS_EVERY, 20 * took)
        self._keyless_at[queue, priority] = monotonic() + pause


def claim_limited(
    store: Operations, order: ClaimOrder, turns: KeyTurns, *, now: datetime | None = None
) -> Operation[LimitedClaim]:
    """Claim from the one queue of the order, within its limits."""
    (share,) = order.queues
    lock = turns.locked.get(share.name, True)
    state = yield from store.queue_state(share.name, lock=lock)
    limits = QueueLimits() if state is None else state.effective
    if not lock and limits.need_permits:
        state = yield from store.queue_state(share.name, lock=True)
        limits = QueueLimits() if state is None else state.effective
    turns.locked[share.name] = limits.need_permits
    if order.again:
        taken = yield from store.claim(structs.replace(order, limit=0), now=now)
        if taken:
            return LimitedClaim(jobs=taken)
    if state is None or not state.limited:
        jobs = yield from store.claim(order, now=now)
        more = len(jobs) >= order.limit > 0
        return LimitedClaim(jobs=jobs, limited=False, counted=False, more=more)
    if state.paused_at is not None:
        return LimitedClaim(jobs=[])
    return (yield from _claim(store, order, state, limits, turns, now))


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
        running = yield from store.running_keys(share.name)
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
            jobs, more = yield from _claim_by_key(store, order, limits, running, full, turns, at)
        else:
            jobs = yield from store.claim(order, now=at)
            more = len(jobs) >= granted.granted and wait is None
    if len(jobs) < granted.granted:
        wait = None  # nothing more is due, but for jobs of full keys
        if full and not more and (yield from _is_due(store, order, full, at)):
            wait = _key_wait(state_now, limits, running, full, time)
    elif wait is not None:
        more = False
        if not jobs and not (yield from _is_due(store, order, None, at)):
            wait = None
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
    if wait is not None and wait.again_in is None:
        state = structs.replace(state, refused=True)
    elif state.refused and not more and wait is None:
        others = 1 if free is None else max(free - len(jobs), 0)
        if others:
            state = structs.replace(state, refused=False)
    if state != before:
        yield from store.save_queue(state)
    return LimitedClaim(
        jobs=jobs,
        rated=limits.rate is not None,
        counted=limits.running is not None or limits.per_key is not None,
        wait=wait,
        more=more,
        others=others,
    )


def _key_wait(
    state: QueueState,
    limits: QueueLimits,
    running: Mapping[str | None, int],
    full: set[str],
    now: datetime | None,
) -> PermitWait:
    """What jobs of full keys wait for."""
    counted = [key for key in full if limits.per_key is not None and key in running]
    again = None if now is None else next_key(state, now)
    if not counted and again is not None:
        return PermitWait(limit=Limit.HELD, again_in=again, key=min(full))
    return PermitWait(
        limit=Limit.PER_KEY, most=limits.per_key, again_in=again, key=min(counted, default=None)
    )


def _claim_by_key(
    store: Operations,
    order: ClaimOrder,
    limits: QueueLimits,
    running: Mapping[str | None, int],
    full: set[str],
    turns: KeyTurns,
    now: datetime | None,
) -> Operation[tuple[list[ClaimedJob], bool]]:
    """Claim from the highest priority first; the jobs, and whether there may be more."""
    queue = order.queues[0].name
    jobs: list[ClaimedJob] = []
    more = False
    for priority in (yield from store.priorities(queue)):
        wanted = order.limit - len(jobs)
        if wanted <= 0:
            return jobs, True
        here = structs.replace(order, limit=wanted)
        found: list[ClaimedJob] = []
        if not limits.fair:
            found, again = yield from _claim_in_order(
                store, here, limits, running, full, priority, now
            )
            more = more or again
        if not found:
            found, again = yield from _claim_in_turn(
                store, here, limits, running, full, turns, priority, now
            )
            more = more or again
        jobs += found
    return jobs, more


def _claim_in_order(
    store: Operations,
    order: ClaimOrder,
    limits: QueueLimits,
    running: Mapping[str | None, int],
    full: set[str],
    priority: int,
    now: datetime | None,
) -> Operation[tuple[list[ClaimedJob], bool]]:
    """Keys do not take turns: jobs in their order, but for those of full keys. Only the first jobs
    are looked at. If all of them have full keys, keys take turns after all."""
    reach = LOOKED_AT + 4 * order.limit
    keys = yield from store.keys_in_order(order, priority, reach, now=now)
    most = order.limit if limits.per_key is None else limits.per_key
    free = [key for key in keys if key not in full]
    shares = in_order(free, order.limit, most, running)
    if not shares:
        return [], False
    jobs = yield from store.claim_keys(order, priority, shares, now=now)
    return jobs, bool(jobs) and len(keys) >= reach


def _claim_in_turn(
    store: Operations,
    order: ClaimOrder,
    limits: QueueLimits,
    running: Mapping[str | None, int],
    full: set[str],
    turns: KeyTurns,
    priority: int,
    now: datetime | None,
) -> Operation[tuple[list[ClaimedJob], bool]]:
    """Each key in turn, beginning after the one that was served last."""
    queue = order.queues[0].name
    place = queue, priority
    last = turns.last.get(place, "")
    reach = min(order.limit, MOST_KEYS)
    found = yield from store.keys_in_turn(order, priority, reach, after=last, without=full, now=now)
    keys: list[str | None] = [*found]
    if len(found) < reach and last:
        first = yield from store.keys_in_turn(
            order, priority, reach - len(found), upto=last, without=full, now=now
        )
        keys += first
    keyless = turns.looks_for_keyless(queue, priority)
    if keyless:
        keys.append(None)
    if not keys:
        return [], False

    def room(key: str) -> int | None:
        return None if limits.per_key is None else limits.per_key - running.get(key, 0)

    shares, served = in_turn(keys, order.limit, limits.weights, room)
    if keyless and shares[-1].key is not None:
        shares.append(KeyShare(None, 1))
    began = monotonic()
    jobs = yield from store.claim_keys(order, priority, shares, now=now)
    if keyless:
        without_key = any(job.key is None for job in jobs)
        turns.looked_for_keyless(queue, priority, monotonic() - began, found=without_key)
    if served is not None:
        turns.last[place] = served
    # A key with fewer jobs than its share leaves room for others: look again.
    more = bool(jobs) and len(jobs) < order.limit
    return interleaved(jobs, attrgetter("key"), limits.weights), more
