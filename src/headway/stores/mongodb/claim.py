"""Claims: due jobs are handed out with a lease, in three commands.

1. Find ids of due jobs by index, in the order of claims.
2. Change the jobs that are still pending to running. MongoDB changes a document for one writer at a
   time, so only one claim gets a job.
3. Read the jobs that bear the token of this claim.

If other claims took all of these jobs, the claim looks further and takes jobs at random, so that
many claimers do not compete for the same jobs. A job that an open transaction has changed would
make the claim wait; after a quarter of a second the job is left out for a while. A claim inside a
transaction does not wait, but ends: the next try takes the jobs one by one, and leaves it out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import TypeVar

from headway.domain.job import ClaimedJob, ClaimedJobs
from headway.domain.lease import check_lease_for
from headway.domain.orders import ClaimOrder
from headway.drivers.mongodb import Command, Document, Try, TryRequest
from headway.ports.statement import Operation
from headway.stores.mongodb.documents import (
    CLAIMED_FIELDS,
    ORDER,
    CollectionNames,
    MongoPart,
    literal,
    micros,
    present,
    to_claimed,
)

T = TypeVar("T")

TRIES = 6
FURTHEST = 5_000
"""Jobs of a queue that a claim looks at, unless it wants more."""
LEFT_OUT_FOR = 2.0
"""Seconds for which a job that could not be claimed is left out."""


class MongoClaim(MongoPart):
    def __init__(self, names: CollectionNames) -> None:
        super().__init__(names)
        self._left_out: dict[str, float] = {}
        """Ids of jobs that could not be claimed, with the time until which they are left out."""

    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        check_lease_for(order.lease_for)
        claimed: list[ClaimedJob] = []
        limited: set[str] = set()
        this = yield from self._begin_try()
        if order.again or this.again:
            claimed = yield from self._taken_before(order, now)
        wanting = not claimed and order.limit > 0 and order.types
        for further in range(TRIES if wanting else 0):
            ids, limited = yield from self._candidates(order, now, further)
            if not ids:
                break
            claimed = yield from self._take(ids, order, this, now)
            if claimed:
                break
        answer = ClaimedJobs(in_order(claimed, order))
        answer.limited = limited
        return answer

    def _begin_try(self) -> Operation[Try]:
        """A try that was rolled back while it took jobs met one that another transaction has
        changed: if it was a single job, leave it out."""
        this: Try = yield TryRequest()
        ended: Sequence[str] = this.memory.pop("taking", ())
        if ended and not this.again:
            this.memory["apart"] = True
            if len(ended) == 1:
                self._leave_out(ended[0])
        return this

    def _candidates(
        self, order: ClaimOrder, now: datetime | None, further: int
    ) -> Operation[tuple[list[str], set[str]]]:
        """Ids of jobs to take, within the shares of their queues, and the queues that are left out
        because they have limits; one command for all queues."""
        names = [queue.name for queue in order.queues]
        looks: dict[str, Sequence[Document]] = {
            f"queue{place}": [
                {"$match": self._due(queue.name, order, now)},
                {"$sort": ORDER},
                {"$limit": reach(min(queue.limit, order.limit), further)},
                {"$project": {"_id": 1}},
            ]
            for place, queue in enumerate(order.queues)
            if queue.limit > 0
        }
        survey = self._commands.lookups(now, looks)
        survey.body["pipeline"].append(
            {
                "$lookup": {
                    "from": self._names.queue,
                    "pipeline": [
                        {
                            "$match": {
                                "_id": {"$in": names},
                                "$or": [{"paused_at": {"$gt": 0}}, {"limited": True}],
                            }
                        },
                        {"$project": {"paused_at": 1, "limited": 1}},
                    ],
                    "as": "managed",
                }
            }
        )
        (found,) = yield survey
        paused: set[str] = {each["_id"] for each in found["managed"] if "paused_at" in each}
        limited: set[str] = set()
        if not order.limited:
            limited = {each["_id"] for each in found["managed"] if each.get("limited")}
        ids: list[str] = []
        for place, queue in enumerate(order.queues):
            if queue.name in paused or queue.name in limited or queue.limit <= 0:
                continue
            due = [document["_id"] for document in found[f"queue{place}"]]
            wanted = min(queue.limit, order.limit - len(ids))
            ids += chosen(due, wanted, further)
        return ids, limited

    def _due(self, queue: str, order: ClaimOrder, now: datetime | None) -> Document:
        due: Document = {
            "state": "pending",
            "queue": queue,
            "type": {"$in": list(order.types)},
            "$expr": {"$lte": ["$run_at", present(now)]},
        }
        if order.most_losses is not None:
            due["losses"] = {"$lte": order.most_losses}
        if self._left_out:
            clock = time.monotonic()
            self._left_out = {id: till for id, till in self._left_out.items() if till > clock}
            due["_id"] = {"$nin": list(self._left_out)}
        return due

    def _taken_before(self, order: ClaimOrder, now: datetime | None) -> Operation[list[ClaimedJob]]:
        """Jobs that an earlier try of this claim took before its answer was lost; new leases."""
        taken: Document = {"state": "running", "token": order.token}
        reply: Document = yield Command(
            {
                "update": self._names.job,
                "updates": [
                    {
                        "q": {**taken, "$expr": {"$gt": ["$until", present(now)]}},
                        "u": [
                            {"$set": {"until": {"$add": [present(now), micros(order.lease_for)]}}}
                        ],
                        "multi": True,
                        "hint": "running",
                    }
                ],
            },
            alone=True,
        )
        if not reply["n"]:
            return []
        documents = yield self._commands.find(
            {**taken, "$expr": {"$gt": ["$until", present(now)]}},
            CLAIMED_FIELDS,
            hint="running",
            latest=True,
        )
        return [to_claimed(document) for document in documents]

    def _take(
        self, ids: Sequence[str], order: ClaimOrder, this: Try, now: datetime | None
    ) -> Operation[list[ClaimedJob]]:
        """Take those of these jobs that are still pending and due."""
        taken, blocked, after = 0, False, None
        for group in [[id] for id in ids] if "apart" in this.memory else [ids]:
            this.memory["taking"] = group
            reply: Document = yield self._taking(group, order, now)
            del this.memory["taking"]
            taken += reply["n"]
            blocked = blocked or "blocked" in reply
            after = reply.get("operationTime") or after
        if not taken and not blocked:
            return []
        documents = yield self._commands.find(
            {"_id": {"$in": ids}, "token": order.token}, CLAIMED_FIELDS, after=after
        )
        if blocked:
            # Jobs are taken in the order of their ids: the first missing one stopped the command.
            missing = set(ids) - set(map(itemgetter("_id"), documents))
            if missing:
                self._leave_out(min(missing))
        return [to_claimed(document) for document in documents]

    def _taking(self, ids: Sequence[str], order: ClaimOrder, now: datetime | None) -> Command:
        return Command(
            {
                "update": self._names.job,
                "updates": [
                    {
                        "q": {
                            "_id": {"$in": ids},
                            "state": "pending",
                            "$expr": {"$lte": ["$run_at", present(now)]},
                        },
                        "u": [
                            {
                                "$set": {
                                    "state": "running",
                                    "token": literal(order.token),
                                    "until": {"$add": [present(now), micros(order.lease_for)]},
                                    "started_at": present(now),
                                    "worker": literal(order.worker),
                                    "version": {"$add": ["$version", 1]},
                                }
                            }
                        ],
                        "multi": True,
                    }
                ],
            },
            alone=True,
            no_wait=True,
        )

    def _leave_out(self, id: str) -> None:
        self._left_out[id] = time.monotonic() + LEFT_OUT_FOR


def in_order(claimed: list[ClaimedJob], order: ClaimOrder) -> list[ClaimedJob]:
    """The jobs as they should be run."""
    place = {queue.name: place for place, queue in enumerate(order.queues)}
    claimed.sort(key=lambda job: (place[job.queue], -job.priority, job.run_at, job.id))
    return claimed


def chosen(due: Sequence[T], wanted: int, further: int) -> Sequence[T]:
    """The first ones, or random ones if others took the first ones before."""
    return random.sample(due, wanted) if further and len(due) > wanted else due[:wanted]


def reach(wanted: int, further: int) -> int:
    """Jobs to look at."""
    return max(wanted, min(wanted << 2 * further, FURTHEST))
