"""Claims: due jobs are handed out with a lease, in three commands.

1. Find ids of due jobs by index, in the order of claims.
2. Change the jobs that are still pending to running. MongoDB changes a document for one writer at a
   time, so only one claim gets a job.
3. Read the jobs that bear the token of this claim.

If other claims took all of these jobs, the claim looks further and takes jobs at random, so that
many claimers do not compete for the same jobs. A job that an open transaction has changed would
make the claim wait; after a quarter of a second the job is left out for a while.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter

from headway.domain.job import ClaimedJob
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

    def claim(
        self, order: ClaimOrder, *, now: datetime | None = None
    ) -> Operation[list[ClaimedJob]]:
        check_lease_for(order.lease_for)
        claimed: list[ClaimedJob] = []
        this: Try = yield TryRequest()
        if order.again or this.again:
            claimed = yield from self._taken_before(order, now)
        wanting = not claimed and order.limit > 0 and order.types
        for further in range(TRIES if wanting else 0):
            ids = yield from self._candidates(order, now, further)
            if not ids:
                break
            claimed = yield from self._take(ids, order, now)
            if claimed:
                break
        place = {queue.name: place for place, queue in enumerate(order.queues)}
        claimed.sort(key=lambda job: (place[job.queue], -job.priority, job.run_at, job.id))
        return claimed

    def _candidates(
        self, order: ClaimOrder, now: datetime | None, further: int
    ) -> Operation[list[str]]:
        """Ids of jobs to take, within the limits of their queues; one command for all queues."""
        names = [queue.name for queue in order.queues]
        looks: dict[str, Sequence[Document]] = {
            f"queue{place}": [
                {"$match": self._due(queue.name, order, now)},
                {"$sort": ORDER},
                {"$limit": _reach(min(queue.limit, order.limit), further)},
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
                    "pipeline": [{"$match": {"_id": {"$in": names}, "paused_at": {"$gt": 0}}}],
                    "as": "paused",
                }
            }
        )
        (found,) = yield survey
        paused = {document["_id"] for document in found["paused"]}
        ids: list[str] = []
        for place, queue in enumerate(order.queues):
            if queue.name in paused or queue.limit <= 0:
                continue
            due = [document["_id"] for document in found[f"queue{place}"]]
            wanted = min(queue.limit, order.limit - len(ids))
            ids += random.sample(due, wanted) if further and len(due) > wanted else due[:wanted]
        return ids

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
        self, ids: Sequence[str], order: ClaimOrder, now: datetime | None
    ) -> Operation[list[ClaimedJob]]:
        reply: Document = yield Command(
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
        blocked = "blocked" in reply
        if not reply["n"] and not blocked:
            return []
        documents = yield self._commands.find(
            {"_id": {"$in": ids}, "token": order.token},
            CLAIMED_FIELDS,
            after=reply.get("operationTime"),
        )
        if blocked:
            # Jobs are taken in the order of their ids: the first missing one stopped the command.
            missing = set(ids) - set(map(itemgetter("_id"), documents))
            if missing:
                self._left_out[min(missing)] = time.monotonic() + LEFT_OUT_FOR
        return [to_claimed(document) for document in documents]


def _reach(wanted: int, further: int) -> int:
    return max(wanted, min(wanted << 2 * further, FURTHEST))
