"""Audit records of operators' actions, and progress reports of running jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.orders import ProgressReport
from headway.domain.queries import check_page
from headway.domain.views import AuditPage, AuditRecord, Progress
from headway.drivers.mongodb import Command, Document
from headway.ports.statement import Operation, reading
from headway.stores.mongodb.documents import MongoPart, literal, micros, moment, present
from headway.stores.mongodb.settle import holding


class MongoAudit(MongoPart):
    def save_progress(
        self, reports: Sequence[ProgressReport], *, now: datetime | None = None
    ) -> Operation[None]:
        changes: list[Document] = []
        for report in reports:
            which = holding(report.job_id, report.token, now)
            newer = {"$lte": [{"$ifNull": ["$progress.at", literal(0)]}, present(now)]}
            which["$expr"] = {"$and": [which["$expr"], newer]}
            progress = {
                "fraction": literal(report.fraction),
                "note": literal(report.note),
                "at": present(now),
            }
            changes.append({"q": which, "u": [{"$set": {"progress": progress}}]})
        if changes:
            # Progress of a job that is being completed in a transaction does not matter.
            yield self._commands.update(changes, alone=True, no_wait=True)

    @reading
    def progress(self, job_ids: Sequence[str]) -> Operation[list[Progress | None]]:
        documents = yield self._commands.find({"_id": {"$in": list(job_ids)}}, {"progress": 1})
        found = {
            document["_id"]: Progress(
                fraction=progress["fraction"], note=progress["note"], at=moment(progress["at"])
            )
            for document in documents
            if (progress := document.get("progress")) is not None
        }
        return [found.get(job_id) for job_id in job_ids]

    def add_audit(self, record: AuditRecord, *, now: datetime | None = None) -> Operation[None]:
        fields = {
            "at": present(now),
            "actor": literal(record.actor),
            "action": literal(record.action),
            "target": literal(record.target),
            "count": literal(record.count),
            "before": literal(record.before),
            "after": literal(record.after),
        }
        yield self._commands.upsert(self._names.audit, record.id, {"$set": fields})

    def prune_audit(self, older_than: float, *, now: datetime | None = None) -> Operation[int]:
        # By id, which sorts by time: the number of records read is bounded.
        oldest = yield self._commands.find(
            {}, {"_id": 1}, sort={"_id": 1}, limit=1_000, collection=self._names.audit
        )
        which: Document = {
            "_id": {"$in": [document["_id"] for document in oldest]},
            "$expr": {"$lt": ["$at", {"$subtract": [present(now), micros(older_than)]}]},
        }
        reply = yield Command(
            {"delete": self._names.audit, "deletes": [{"q": which, "limit": 0}]}, alone=True
        )
        return int(reply["n"])

    @reading
    def audit_page(self, *, cursor: str | None = None, limit: int = 50) -> Operation[AuditPage]:
        check_page(cursor, limit, "audit records")
        below: Document = {} if cursor is None else {"_id": {"$lt": cursor}}
        documents = yield self._commands.find(
            below, sort={"_id": -1}, limit=limit + 1, collection=self._names.audit
        )
        records = [
            AuditRecord(
                id=document["_id"],
                at=moment(document["at"]),
                actor=document["actor"],
                action=document["action"],
                target=document["target"],
                count=document["count"],
                before=document["before"],
                after=document["after"],
            )
            for document in documents
        ]
        return AuditPage(records[:limit], records[limit - 1].id if len(records) > limit else None)
