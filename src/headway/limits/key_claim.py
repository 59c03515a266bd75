"""Claims from a queue that looks at keys: jobs in their order but for those of full keys, or keys
in turn. Priorities come first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from time import monotonic

from msgspec import structs

from headway.domain.job import ClaimedJob
from headway.domain.limits.queue_limits import QueueLimits
from headway.domain.limits.turns import KeyShare, Turn, in_order, in_turn, interleaved
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation
from headway.ports.store import Operations

FEWEST_KEYS, MOST_KEYS = 100, 500
"""Keys that one claim takes jobs of, at most; the more, the fewer jobs each of them has."""
LOOKED_AT = 200
"""Jobs that a claim looks at in their order, besides as many as it wants; then keys take turns."""
PRIORITIES_FOR = 1.0
"""Seconds for which the priorities of a queue are remembered, unless a notification comes."""
KEYS_FOR = 0.2
"""Seconds for which the keys of a queue are remembered if they are few, unless a notification
comes."""
KEYLESS_EVERY = 1.0
"""Seconds between looks for jobs without a key in a queue whose keys take turns, while none are
found."""
COSTLY = 0.01
"""Seconds that a look for them takes if it has to pass over many jobs with keys. The next one is
made after as long, or after twenty times as long if none were found."""
COSTLY_TIMES = 10
"""A costly look also takes so many times as long as the search for keys: the database may be slow
or far away."""


class KeyTurns:
    """What a worker remembers between its claims. Losing it does no harm."""

    def __init__(self) -> None:
        self.locked: dict[str, bool] = {}
        """Whether claims of a queue needed its lock the last time."""
        self.next: dict[tuple[str, int], Turn] = {}
        """By queue and priority."""
        self._keyless_at: dict[tuple[str, int], float] = {}
        self._costly_until: dict[tuple[str, int], float] = {}
        self._put_off: dict[str, float] = {}
        self._reach: dict[tuple[str, int], int] = {}
        self._priorities: dict[str, tuple[float, list[int]]] = {}
        self._keys: dict[tuple[str, int], tuple[float, list[str]]] = {}
        self._since: dict[tuple[str, int], tuple[float, dict[str, datetime]]] = {}

    def hint(self) -> None:
        """Jobs of any priority, key and age may have appeared."""
        self._priorities.clear()
        self._keys.clear()
        self._since.clear()

    def known_keys(self, place: tuple[str, int]) -> list[str] | None:
        """All keys of a queue and priority, if they were found a moment ago."""
        until, keys = self._keys.get(place, (0.0, []))
        return keys if monotonic() < until else None

    def remember_keys(self, place: tuple[str, int], keys: list[str]) -> None:
        if self.known_keys(place) is None:
            self._keys[place] = monotonic() + KEYS_FOR, sorted(keys)

    def since(self, place: tuple[str, int], share: KeyShare) -> KeyShare:
        """The share with the bound of its key, so that a claim does not read what is claimed."""
        until, bounds = self._since.get(place, (0.0, {}))
        if share.key is None or monotonic() >= until or share.key not in bounds:
            return share
        return structs.replace(share, since=bounds[share.key])

    def claimed(self, place: tuple[str, int], jobs: list[ClaimedJob], *, enough: bool) -> None:
        """Raise the bounds to these jobs. Jobs that land below are found by notifications, and
        within a second; and at once if the claim got less than it wanted."""
        until, bounds = self._since.get(place, (0.0, {}))
        if not enough:
            self._since.pop(place, None)
            self._keys.pop(place, None)
            return
        if monotonic() >= until:
            until, bounds = monotonic() + PRIORITIES_FOR, {}
            self._since[place] = until, bounds
        for job in jobs:
            if job.key is not None:
                bounds[job.key] = max(job.run_at, bounds.get(job.key, job.run_at))

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

    def looks_for_keyless(self, queue: str, priority: int, *, idle: bool, full: bool) -> bool:
        """`idle`: no job with a key can be claimed; `full`: there may be such that wait."""
        if idle and not full:
            return True
        at = (self._costly_until if idle else self._keyless_at).get((queue, priority), 0.0)
        if monotonic() >= at:
            return True
        if idle:
            self._put_off[queue] = min(at, self._put_off.get(queue, at))
        return False

    def looked_for_keyless(self, queue: str, priority: int, took: float, *, found: bool) -> None:
        """`took`: seconds, 0 if the look was not costly."""
        place, now = (queue, priority), monotonic()
        self._costly_until[place] = 0.0 if found else now + 20 * took
        self._keyless_at[place] = now + (took if found else max(KEYLESS_EVERY, 20 * took))

    def keyless_in(self, queue: str) -> float | None:
        """Seconds until jobs without a key are looked for, if this claim put that off."""
        at = self._put_off.pop(queue, None)
        return None if at is None else max(at - monotonic(), 0.0)


def claim_by_key(
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
    known = turns.known_keys(place) if now is None else None
    if known is None:
        after, upto = yield from _keys_from(
            store, order, priority, turn.after, reach + 1, full, now
        )
    else:
        free = [key for key in known if key not in full]
        after = [key for key in free if key > turn.after]
        upto = [key for key in free if key <= turn.after]
    searched = monotonic() - began
    is_all = len(after) + len(upto) <= reach or known is not None
    if is_all and not full:
        turns.remember_keys(place, [*after, *upto])
    elif not is_all:  # one more than wanted, to know that
        after, upto = after[:reach], upto[: max(reach - len(after), 0)]
    keys: list[str | None] = [*after, *upto]
    if len(after) < reach and turns.looks_for_keyless(
        queue, priority, idle=not keys, full=bool(full)
    ):
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
        if now is None:
            shares = [turns.since(place, share) for share in shares]
        others = structs.replace(order, limit=order.limit - len(jobs))
        jobs += yield from store.claim_keys(others, priority, shares, now=now)
    turns.claimed(place, jobs, enough=len(jobs) >= order.limit)
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
