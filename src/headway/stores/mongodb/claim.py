"""Handing out jobs. Whoever changes a pending job to a running one has it; that is one document,
and MongoDB changes a document for one writer at a time.

1. Look for ids, in the order of claims, by index.
2. Take those that are still pending.
3. Read what was taken: what bears the token of this claim.

However many jobs, that makes three round trips. If others were quicker for all of them, it looks
again, further, and takes some at random, so that many claimers do not all run after the same jobs.
A job that somebody's open transaction has changed would keep the claim waiting; it is given a
quarter of a second, and then left out for a while.
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
from headway.drivers.mongodb import Command, Document, Try, WhichTry
from headway.ports.statement import Operation
from headway.stores.mongodb.commands import MongoPart
from headway.stores.mongodb.documents import (
    ORDER,
    Collections,
    literal,
    micros,
    present,
    to_claimed,
)

TRIES = 6
FURTHEST = 5_000
"""Jobs of a queue that a claim looks at, at most, unless it wants more."""
LEFT_OUT_FOR = 2.0
"""Seconds for which a job is left out that could not be had."""

FIELDS: Document = dict.fromkeys(
    (
        "type", "queue", "priority", "input", "run_at", "created_at", "attempts", "losses",
        "max_attempts", "max_losses", "timeout", "token", "version", "until", "sequence_id",
        "sequence_type", "root_id", "origin_id", "position", "blockers", "trace",
    ),
    1,
)  # fmt: skip


class MongoClaims(MongoPart):
    def __init__(self, names: Collections) -> None:
        super().__init__(names)
        self._left_out: dict[str, float] = {}
        """Ids of jobs that could not be had, and until when they are not tried again."""

    def claim(
        self, order: ClaimOrder, *, now: datetime | None = None
    ) -> Operation[list[ClaimedJob]]:
        check_lease_for(order.lease_for)
        claimed: list[ClaimedJob] = []
        this: Try = yield WhichTry()
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
        """Ids of jobs to take, no more than the shares of their queues; all queues at once."""
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
        """What an earlier try of this claim took, whose answer was lost: the leases begin anew."""
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
            FIELDS,
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
            at_once=True,
        )
        blocked = "blocked" in reply
        if not reply["n"] and not blocked:
            return []
        documents = yield self._commands.find(
            {"_id": {"$in": ids}, "token": order.token}, FIELDS, after=reply.get("operationTime")
        )
        if blocked:
            # They are taken in the order of their ids: the first that is missing was in the way.
            missing = set(ids) - set(map(itemgetter("_id"), documents))
            if missing:
                self._left_out[min(missing)] = time.monotonic() + LEFT_OUT_FOR
        return [to_claimed(document) for document in documents]


def _reach(wanted: int, further: int) -> int:
    return max(wanted, min(wanted << 2 * further, FURTHEST))
