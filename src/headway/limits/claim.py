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

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from operator import attrgetter
from time import monotonic

import msgspec
from msgspec import structs

from headway.domain.job import ClaimedJob
from headway.domain.limits.permits import Limit, PermitWait, full_keys, next_key, permits
from headway.domain.limits.queue_limits import QueueLimits, QueueState
from headway.domain.limits.turns import KeyShare, Turn, in_order, in_turn, interleaved
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation, atomic_from_lock
from headway.ports.store import Operations

FEWEST_KEYS, MOST_KEYS = 100, 500
"""Keys that one claim takes jobs of, at most; the more, the fewer jobs each of them has."""
LOOKED_AT = 200
"""Jobs that a claim looks at in their order, besides as many as it wants; then keys take turns."""
PRIORITIES_FOR = 1.0
"""Seconds for which the priorities of a queue are remembered, unless a notification comes."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYLESS_EVERY = 1.0
"""Seconds between looks for jobs without a key in a queue whose keys take turns, while none are
found."""
COSTLY = 0.01
"""Seconds that a look for them takes if it has to pass over many jobs with keys. The next one is
made after twenty times as long."""
COSTLY_TIMES = 10
"""A costly look also takes so many times as long as the search for keys: the database may be slow
or far away."""


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


class KeyTurns:
    """What a worker remembers between its claims. Losing it does no harm."""

    def __init__(self) -> None:
        self.locked: dict[str, bool] = {}
        """Whether claims of a queue needed its lock the last time."""
        self.next: dict[tuple[str, int], Turn] = {}
        """By queue and priority."""
        self._keyless_at: dict[tuple[str, int], float] = {}
        self._costly_until: dict[tuple[str, int], float] = {}
        self._reach: dict[tuple[str, int], int] = {}
        self._priorities: dict[str, tuple[float, list[int]]] = {}

    def hint(self) -> None:
        """Jobs of any priority may have appeared."""
        self._priorities.clear()

    def priorities(self, store: Operations, queue: str) -> Operation[list[int]]:
        """The priorities of the queue's pending jobs, highest first."""
        until, known = self._priorities.get(queue, (0.0, []))
        if monotonic() >= until or not known:
            known = yield from store.priorities(queue)
            self._priorities[queue] = monotonic() + PRIORITIES_FOR, known
        return known

    def reach(self, queue: str, priority: int, wanted: int) -> int:
        """How many keys a claim looks at."""
        return min(wanted, self._reach.get((queue, priority), FEWEST_KEYS))

    def reached(self, queue: str, priority: int, *, enough: bool) -> None:
        """Whether the jobs of these keys were as many as were wanted."""
        reach = self._reach.get((queue, priority), FEWEST_KEYS)
        reach = max(reach // 2, FEWEST_KEYS) if enough else min(reach * 2, MOST_KEYS)
        self._reach[queue, priority] = reach

    def looks_for_keyless(self, queue: str, priority: int, *, idle: bool) -> bool:
        """`idle`: no job with a key can be claimed."""
        at = self._costly_until if idle else self._keyless_at
        return monotonic() >= at.get((queue, priority), 0.0)

    def looked_for_keyless(self, queue: str, priority: int, took: float, *, found: bool) -> None:
        """`took`: seconds, 0 if the look was not costly."""
        place, now = (queue, priority), monotonic()
        until = now + 20 * took if took else 0.0
        self._costly_until[place] = until
        self._keyless_at[place] = until if found else max(now + KEYLESS_EVERY, until)

    def keyless_in(self, queue: str) -> float | None:
        """Seconds until jobs without a key are looked for, if that was put off."""
        now = monotonic()
        ahead = [at - now for (name, _), at in self._costly_until.items() if name == queue]
        return min((seconds for seconds in ahead if seconds > 0), default=None)


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
            jobs, more = yield from _claim_by_key(store, order, limits, running, full, turns, at)
        else:
            jobs = yield from store.claim(order, now=at)
    if len(jobs) < granted.granted:
        wait = None  # nothing more is due, but for jobs of full keys
        if full and not more and (yield from _is_due(store, order, full, at)):
            again = turns.keyless_in(share.name)
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
    key = min(full)
    if held is not None and full <= state.held_keys.keys():
        return PermitWait(limit=Limit.HELD, again_in=soonest, key=key)
    return PermitWait(limit=Limit.PER_KEY, most=limits.per_key, again_in=soonest, key=key)


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
    running = Counter(running)
    for priority in (yield from turns.priorities(store, queue)):
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
        running.update(job.key for job in found)
        if (most := limits.per_key) is not None:
            full |= {job.key for job in found if job.key is not None and running[job.key] >= most}
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
    reach = LOOKED_AT + order.limit
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
    """Each key in turn, beginning with the one that is next."""
    queue = order.queues[0].name
    place = queue, priority
    turn = turns.next.get(place, Turn())
    reach = turns.reach(queue, priority, order.limit)
    began = monotonic()
    after, upto = yield from _keys_from(store, order, priority, turn.after, reach, full, now)
    searched = monotonic() - began
    keys: list[str | None] = [*after, *upto]
    is_all = len(keys) < reach
    if len(after) < reach and turns.looks_for_keyless(queue, priority, idle=not keys):
        keys.insert(len(after), None)
    if not keys:
        return [], False

    def room(key: str) -> int | None:
        return None if limits.per_key is None else limits.per_key - running.get(key, 0)

    shares, then = in_turn(keys, order.limit, limits.weights, room, turn)
    jobs = yield from _claim_keyless(store, order, shares, turns, priority, searched, now)
    if None in keys and len(jobs) < sum(share.limit for share in shares if share.key is None):
        keys.remove(None)  # the others get what they leave
        shares, then = in_turn(keys, order.limit - len(jobs), limits.weights, room, turn)
    if not is_all and len(shares) == len(keys) and then.key is None:
        then = Turn(keys[-1] or "")  # each of these was served, and there may be more keys
    shares = [share for share in shares if share.key is not None]
    if shares:
        others = structs.replace(order, limit=order.limit - len(jobs))
        jobs += yield from store.claim_keys(others, priority, shares, now=now)
    turns.next[place] = then
    if not is_all:
        turns.reached(queue, priority, enough=len(jobs) >= order.limit)
    if shares and not jobs:
        jobs = yield from _claim_of_any(store, order, full, turns, priority, now)
    # A key with fewer jobs than its share leaves room for others: look again.
    more = bool(jobs) and len(jobs) < order.limit
    return interleaved(jobs, attrgetter("key"), limits.weights), more


def _claim_keyless(
    store: Operations,
    order: ClaimOrder,
    shares: list[KeyShare],
    turns: KeyTurns,
    priority: int,
    searched: float,
    now: datetime | None,
) -> Operation[list[ClaimedJob]]:
    """Jobs without a key, if it is their turn; the search for keys took `searched` seconds."""
    wanted = [share for share in shares if share.key is None]
    if not wanted:
        return []
    began = monotonic()
    order = structs.replace(order, limit=wanted[0].limit)
    jobs = yield from store.claim_keys(order, priority, wanted, now=now)
    took = monotonic() - began
    costly = took > max(COSTLY, COSTLY_TIMES * searched)
    queue = order.queues[0].name
    turns.looked_for_keyless(queue, priority, took if costly else 0.0, found=bool(jobs))
    return jobs


def _claim_of_any(
    store: Operations,
    order: ClaimOrder,
    full: set[str],
    turns: KeyTurns,
    priority: int,
    now: datetime | None,
) -> Operation[list[ClaimedJob]]:
    """The keys whose turn it was had no job left, because other claims took them at the same time:
    one job of each of many keys."""
    place = order.queues[0].name, priority
    last = turns.next[place].after
    after, upto = yield from _keys_from(store, order, priority, last, MOST_KEYS, full, now)
    keys = [*after, *upto]
    if not keys:
        return []
    shares = [KeyShare(key, 1) for key in keys]
    jobs = yield from store.claim_keys(order, priority, shares, now=now)
    if jobs:
        taken = {job.key for job in jobs}
        turns.next[place] = Turn([key for key in keys if key in taken][-1])
    return jobs


def _keys_from(
    store: Operations,
    order: ClaimOrder,
    priority: int,
    last: str,
    reach: int,
    full: set[str],
    now: datetime | None,
) -> Operation[tuple[list[str], list[str]]]:
    """The keys after `last`, and then those up to it."""
    after = yield from store.keys_in_turn(order, priority, reach, after=last, without=full, now=now)
    if len(after) >= reach or not last:
        return after, []
    upto = yield from store.keys_in_turn(
        order, priority, reach - len(after), upto=last, without=full, now=now
    )
    return after, upto
