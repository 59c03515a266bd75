"""The states of queues, and claims by key.

A transaction locks a queue by writing to its document. Others that want the lock end at once, and
try again after a short pause. Such transactions are brief (see `runners`): the lock of a process
that was killed or frozen is taken from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from bson import MaxKey, MinKey

from headway.domain.job import ClaimedJob
from headway.domain.lease import check_lease_for
from headway.domain.limits.queue_limits import (
    QueueState,
    decode_held_keys,
    decode_limits,
    encode_held_keys,
    encode_limits,
)
from headway.domain.limits.turns import KeyShare
from headway.domain.orders import ClaimOrder
from headway.drivers.mongodb import Command, Document
from headway.ports.statement import Operation, reading
from headway.stores.mongodb.claim import TRIES, MongoClaim, chosen, in_order, reach
from headway.stores.mongodb.documents import assignment, literal, maybe_moment, maybe_stamp, present

HOPS = 100
"""Keys that one command finds, each by a lookup."""
PRIORITIES = 4
"""Priorities that one command finds."""
FEW = 20
NO_KEY: Document = {"$exists": False}
BY_KEY: Document = {"key": 1, "run_at": 1, "_id": 1}
"""The order of the index `keyed`."""
SEEN: Document = dict.fromkeys(("priority", "key", "run_at", "type", "losses"), 1)


class MongoLimits(MongoClaim):
    @reading
    def queue_state(self, name: str, *, lock: bool = False) -> Operation[QueueState | None]:
        if not lock:
            documents = yield self._commands.find({"_id": name}, collection=self._names.queue)
            return _to_state(documents[0]) if documents else None
        reply = yield Command(
            {
                "findAndModify": self._names.queue,
                "query": {"_id": name},
                "update": {"$inc": {"locks": 1}},
                "upsert": True,
                "new": True,
            },
            brief=True,
        )
        return _to_state(reply["value"])

    @reading
    def queue_states(self) -> Operation[list[QueueState]]:
        documents = yield self._commands.find({}, sort={"_id": 1}, collection=self._names.queue)
        return [_to_state(document) for document in documents]

    def save_queue(self, state: QueueState) -> Operation[None]:
        values: Document = {
            "limits": encode_limits(state.limits),
            "limited": state.limited or None,
            "paid_until": maybe_stamp(state.paid_until),
            "held_until": maybe_stamp(state.held_until),
            "held_keys": encode_held_keys(state.held_keys),
            "refused": state.refused or None,
        }
        change = {"q": {"_id": state.name}, "u": assignment(values), "upsert": True}
        yield self._commands.update([change], collection=self._names.queue, alone=True)

    @reading
    def running_keys(
        self, queue: str, *, by_key: bool = True
    ) -> Operation[Mapping[str | None, int]]:
        # Few jobs run, so all of them are read.
        groups = yield self._commands.aggregate(
            {"$match": {"state": "running", "queue": queue}},
            {"$group": {"_id": "$key" if by_key else None, "count": {"$sum": 1}}},
            hint="running",
        )
        return {group["_id"]: group["count"] for group in groups}

    @reading
    def priorities(self, queue: str) -> Operation[list[int]]:
        which: Document = {"state": "pending", "queue": queue}
        found: list[int] = []
        while True:
            start = found[-1] if found else MaxKey()
            firsts, _ = yield from self._hop(which, {"priority": -1}, start, PRIORITIES)
            found += [first["priority"] for first in firsts]
            if len(firsts) < PRIORITIES:
                return found

    @reading
    def keys_in_order(
        self, order: ClaimOrder, priority: int, limit: int, *, now: datetime | None = None
    ) -> Operation[list[str | None]]:
        which = self._due(order.queues[0].name, order, now) | {"priority": priority}
        documents: list[Document] = yield self._commands.find(
            which, {"key": 1}, sort={"run_at": 1, "_id": 1}, limit=limit, hint="pending"
        )
        return [document.get("key") for document in documents]

    @reading
    def keys_in_turn(
        self,
        order: ClaimOrder,
        priority: int,
        limit: int,
        *,
        after: str = "",
        upto: str | None = None,
        without: Collection[str] = (),
        now: datetime | None = None,
    ) -> Operation[list[str]]:
        # The first job of a key tells most often whether the key has a job that is due. If keys
        # have few jobs each, one look finds many of them.
        queue = order.queues[0].name
        keys: Document = {"$gt": ""} if upto is None else {"$gt": "", "$lte": upto}
        which: Document = {"state": "pending", "queue": queue, "priority": priority, "key": keys}
        found: list[str] = []
        is_first, is_all = True, False
        while len(found) < limit and not is_all:
            wanted = limit - len(found)
            if is_first:
                firsts, time, is_all = yield from self._scan(which, after, wanted, now)
            else:
                hops = min(wanted, HOPS)
                firsts, time = yield from self._hop(which, BY_KEY, after, hops, now)
                is_all = len(firsts) < hops
            is_first = False
            due = [each for each in firsts if each["key"] not in without and each["run_at"] <= time]
            others = [each["key"] for each in due if not self._is_claimable(each, order)]
            later: Collection[str] = ()
            if others:
                shares = [KeyShare(key, 1) for key in others]
                jobs = yield from self._first_jobs(order, priority, shares, 0, now)
                later = {each["key"] for each in jobs}
            found += [
                each["key"]
                for each in due
                if each["key"] in later or self._is_claimable(each, order)
            ]
            after = firsts[-1]["key"] if firsts else after
        return found

    def claim_keys(
        self,
        order: ClaimOrder,
        priority: int,
        shares: Sequence[KeyShare],
        *,
        now: datetime | None = None,
    ) -> Operation[list[ClaimedJob]]:
        check_lease_for(order.lease_for)
        this = yield from self._begin_try()
        for further in range(TRIES):
            jobs = yield from self._first_jobs(order, priority, shares, further, now)
            ids = [job["_id"] for job in jobs][: order.limit]
            claimed = (yield from self._take(ids, order, this, now)) if ids else []
            if claimed or not ids:
                return in_order(claimed, order)
        return []

    def _first_jobs(
        self,
        order: ClaimOrder,
        priority: int,
        shares: Sequence[KeyShare],
        further: int,
        now: datetime | None,
    ) -> Operation[list[Document]]:
        """The first jobs of each key that are due, up to its share; random ones if others took the
        first ones before."""
        due = self._due(order.queues[0].name, order, now) | {"priority": priority}
        known: dict[str | None, list[Document]] = {}
        if len(shares) > FEW and not further:
            known = yield from self._first_of_many(due, shares, now)
        first = [job for share in shares for job in known.get(share.key, ())[: share.limit]]
        shares = [share for share in shares if share.key not in known]
        if not shares:
            return first
        looks: dict[str, Sequence[Document]] = {
            f"share{place}": [
                {"$match": due | {"key": NO_KEY if share.key is None else share.key}},
                {"$sort": {"run_at": 1, "_id": 1}},
                {"$limit": reach(share.limit, further)},
                {"$project": {"key": 1}},
            ]
            for place, share in enumerate(shares)
        }
        (found,) = yield self._commands.lookups(now, looks)
        for place, share in enumerate(shares):
            first += chosen(found[f"share{place}"], share.limit, further)
        return first

    def _first_of_many(
        self, due: Document, shares: Sequence[KeyShare], now: datetime | None
    ) -> Operation[dict[str | None, list[Document]]]:
        """The first due jobs by key, in one look: of all keys if they have few jobs each, else of
        some."""
        limits = {share.key: share.limit for share in shares if share.key is not None}
        jobs, _, is_all = yield from self._look(
            due | {"key": {"$in": list(limits)}}, sum(limits.values()), now
        )
        found: dict[str | None, list[Document]] = {key: [] for key in limits} if is_all else {}
        for job in jobs:
            found.setdefault(job["key"], []).append(job)
        if not is_all and len(found[jobs[-1]["key"]]) < limits[jobs[-1]["key"]]:
            del found[jobs[-1]["key"]]  # it may have more
        return found

    def _scan(
        self, which: Document, after: str, wanted: int, now: datetime | None
    ) -> Operation[tuple[list[Document], int, bool]]:
        """The first job of each of the next keys, the time, and whether there are no more keys."""
        beyond = which | {"key": which["key"] | {"$gt": after}}
        jobs, time, is_all = yield from self._look(beyond, wanted, now)
        firsts: dict[str, Document] = {}
        for job in jobs:
            firsts.setdefault(job["key"], job)
        return list(firsts.values())[:wanted], time, is_all and len(firsts) <= wanted

    def _look(
        self, which: Document, wanted: int, now: datetime | None
    ) -> Operation[tuple[list[Document], int, bool]]:
        """The first jobs by key, some more than are wanted; the time, and whether these are all."""
        most = 2 * wanted + FEW
        pipeline: list[Document] = [
            {"$match": which},
            {"$sort": BY_KEY},
            {"$limit": most},
            {"$project": SEEN},
        ]
        (found,) = yield self._commands.lookups(now, {"jobs": pipeline})
        return found["jobs"], found["now"], len(found["jobs"]) < most

    def _hop(
        self,
        which: Document,
        order: Document,
        start: Any,
        hops: int,
        now: datetime | None = None,
    ) -> Operation[tuple[list[Document], int]]:
        """Hop from value to value of the first field of `order`, by its index: the first job of
        each value after `start`, and the time. The number of jobs does not matter."""
        field, direction = next(iter(order.items()))
        compare, end = ("$gt", MaxKey()) if direction > 0 else ("$lt", MinKey())
        beyond = {"$expr": {compare: [f"${field}", "$$last"]}}
        stages: list[Document] = [
            {"$documents": [{"last": literal(start)}]},
            {"$set": {"now": present(now)}},
        ]
        for hop in range(hops):
            name = f"hop{hop}"
            look = {
                "from": self._names.job,
                "let": {"last": "$last"},
                "pipeline": [
                    {"$match": which | beyond},
                    {"$sort": order},
                    {"$limit": 1},
                    {"$project": SEEN},
                ],
                "as": name,
            }
            last = {"$ifNull": [{"$first": f"${name}.{field}"}, literal(end)]}
            stages += [{"$lookup": look}, {"$set": {"last": last}}]
        (found,) = yield Command({"aggregate": 1, "pipeline": stages, "cursor": {}}, alone=True)
        return [first for hop in range(hops) for first in found[f"hop{hop}"]], found["now"]

    def _is_claimable(self, job: Document, order: ClaimOrder) -> bool:
        """Whether `claim` would hand out a due job."""
        return (
            job["type"] in order.types
            and (order.most_losses is None or job["losses"] <= order.most_losses)
            and job["_id"] not in self._left_out
        )


def _to_state(document: Document) -> QueueState:
    get = document.get
    return QueueState(
        name=document["_id"],
        paused_at=maybe_moment(get("paused_at")),
        limits=decode_limits(get("limits")),
        paid_until=maybe_moment(get("paid_until")),
        held_until=maybe_moment(get("held_until")),
        held_keys=decode_held_keys(get("held_keys")),
        refused=get("refused", False),
    )
