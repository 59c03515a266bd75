"""Actions of operators and of maintenance: cancel, retry, trigger, pause, prune, delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.lifecycle import ALLOWED
from headway.domain.orders import PruneRule
from headway.domain.views import JobAction
from headway.drivers.mongodb import Command, Document, Try, TryRequest
from headway.ports.statement import Operation
from headway.stores.mongodb.documents import (
    NOT_COMPLETED,
    OPEN,
    MongoPart,
    literal,
    micros,
    present,
    sequence_of,
)


class MongoManage(MongoPart):
    def cancel(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        change = {"state": "cancelled", "finished_at": present(now)}
        return (yield from self._change(ids, JobAction.CANCEL, change, ["token", "until"]))

    def retry(
        self, ids: Sequence[str], *, input: str | None = None, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        change: Document = {
            "state": {"$cond": [{"$gt": ["$waiting", 0]}, "blocked", "pending"]},
            "run_at": present(now),
            "attempts": 0,
            "losses": 0,
        }
        if input is not None:
            change["input"] = literal(input)
        gone = ["finished_at", "fingerprint"]
        return (yield from self._change(ids, JobAction.RETRY, change, gone))

    def trigger(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        # A job that is due already keeps its place.
        change = {"run_at": {"$min": ["$run_at", present(now)]}}
        return (yield from self._change(ids, JobAction.TRIGGER, change, []))

    def _change(
        self,
        ids: Sequence[str],
        action: JobAction,
        change: Document,
        gone: list[str],
    ) -> Operation[list[Verdict]]:
        """Change the jobs whose state allows the action."""
        if not ids:
            return []
        states = [str(state) for state in ALLOWED[action]]
        already = JobState.CANCELLED if action is JobAction.CANCEL else None
        this: Try = yield TryRequest()
        steps: list[Document] = [{"$set": change | {"mark": this.mark}}]
        if gone:
            steps.append({"$unset": gone})
        distinct = sorted(set(ids))
        reply = yield self._commands.update(
            [
                {
                    "q": {"_id": {"$in": distinct}, "state": {"$in": states}},
                    "u": steps,
                    "multi": True,
                }
            ],
            alone=len(distinct) == 1,
        )
        if reply["n"] == len(distinct):
            return [Verdict.APPLIED] * len(ids)
        documents = yield self._commands.find(
            {"_id": {"$in": distinct}}, {"state": 1, "mark": 1}, after=reply.get("operationTime")
        )
        found: dict[str, Document] = {document["_id"]: document for document in documents}
        return [
            Verdict.NOT_FOUND
            if id not in found
            else Verdict.APPLIED
            if found[id].get("mark") == this.mark
            else Verdict.ALREADY
            if found[id]["state"] == already
            else Verdict.WRONG_STATE
            for id in ids
        ]

    def pause(self, queue: str, paused: bool, *, now: datetime | None = None) -> Operation[None]:
        change: Document = {"$unset": ["paused_at"]}
        if paused:
            change = {"$set": {"paused_at": {"$ifNull": ["$paused_at", present(now)]}}}
        yield self._commands.upsert(self._names.queue, queue, change)

    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        if limit <= 0:
            return 0
        before = {"$subtract": [present(now), micros(rule.older_than)]}
        victims = yield self._commands.aggregate(
            {
                "$match": {
                    "state": str(rule.state),
                    "finished_at": {"$gt": 0},
                    "continued": {"$ne": True},
                    "$expr": {"$lt": ["$finished_at", before]},
                }
            },
            {"$sort": {"finished_at": 1}},
            {
                "$project": {
                    "queue": 1,
                    "began": {"$ifNull": ["$sequence_type", "$type"]},
                    "sequence_id": {"$ifNull": ["$sequence_id", "$_id"]},
                }
            },
            {
                "$match": {
                    "began": _among(rule.types, rule.except_types),
                    "queue": _among(rule.queues, rule.except_queues),
                }
            },
            {
                "$lookup": {
                    "from": self._names.job,
                    "localField": "sequence_id",
                    "foreignField": "blockers",
                    "pipeline": [
                        {"$match": {"state": {"$in": NOT_COMPLETED}}},
                        {"$limit": 1},
                        {"$project": {"_id": 1}},
                    ],
                    "as": "waiting",
                }
            },
            {"$match": {"waiting": {"$size": 0}}},
            {"$limit": limit},
            {"$project": {"sequence_id": 1}},
            alone=False,
        )
        if not victims:
            return 0
        ids = [victim["sequence_id"] for victim in victims]
        reply = yield self._delete([{"_id": {"$in": ids}}, {"sequence_id": {"$in": ids}}])
        return int(reply["n"])

    def delete_jobs(self, ids: Sequence[str]) -> Operation[list[str]]:
        if not ids:
            return []
        documents = yield self._commands.find({"_id": {"$in": list(ids)}}, {"_id": 1}, alone=False)
        gone: list[str] = [document["_id"] for document in documents]
        if gone:
            yield self._delete([{"_id": {"$in": gone}}])
        return gone

    def delete_ended(self, ids: Sequence[str]) -> Operation[list[str]]:
        asked = yield self._commands.find(
            {"_id": {"$in": list(ids)}}, {"sequence_id": 1}, alone=False
        )
        sequences = {sequence_of(document) for document in asked}
        last = yield from self._commands.last_jobs(
            sequences, {"sequence_id": 1, "state": 1}, alone=False
        )
        ended = [id for id, document in last.items() if document["state"] not in OPEN]
        waiting = yield self._commands.find(
            {"blockers": {"$in": ended}, "state": {"$in": NOT_COMPLETED}},
            {"blockers": 1},
            alone=False,
        )
        needed = {blocker for document in waiting for blocker in document["blockers"]}
        free = {"$in": [id for id in ended if id not in needed]}
        documents = yield self._commands.find(
            {"$or": [{"_id": free}, {"sequence_id": free}]}, {"_id": 1}, alone=False
        )
        gone: list[str] = [document["_id"] for document in documents]
        if gone:
            yield self._delete([{"_id": {"$in": gone}}])
        return gone

    def _delete(self, which: list[Document]) -> Command:
        deletes = [{"q": each, "limit": 0} for each in which]
        return Command({"delete": self._names.job, "deletes": deletes})


def _among(names: Sequence[str] | None, but: Sequence[str]) -> Document:
    among: dict[str, Any] = {"$nin": list(but)}
    if names is not None:
        among["$in"] = list(names)
    return among
