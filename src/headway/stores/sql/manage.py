"""Levers: cancel, retry, trigger, pause; what workers and operators leave behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.orders import ProgressReport
from headway.domain.queries import WorkerRecord
from headway.domain.views import AuditRecord
from headway.ports.statement import Operation, Statement
from headway.stores.sql.settle import Settling


class Managing(Settling):
    def cancel(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        rows = yield Statement(self._sql["cancel"], (list(ids), self._dialect.now(now)))
        return (yield from self._verdicts(ids, {str(row[0]) for row in rows}, JobState.CANCELLED))

    def retry(
        self,
        ids: Sequence[str],
        *,
        input: str | None = None,
        now: datetime | None = None,
    ) -> Operation[list[Verdict]]:
        rows = yield Statement(self._sql["retry"], (list(ids), input, self._dialect.now(now)))
        return (yield from self._verdicts(ids, {str(row[0]) for row in rows}, None))

    def trigger(
        self, ids: Sequence[str], *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        rows = yield Statement(self._sql["trigger"], (list(ids), self._dialect.now(now)))
        return (yield from self._verdicts(ids, {str(row[0]) for row in rows}, None))

    def _verdicts(
        self, ids: Sequence[str], applied: set[str], already: JobState | None
    ) -> Operation[list[Verdict]]:
        if applied.issuperset(ids):
            return [Verdict.APPLIED] * len(ids)
        rows = yield Statement(self._sql["states"], (list(ids),))
        states = {str(row[0]): row[1] for row in rows}
        return [
            Verdict.APPLIED
            if id in applied
            else Verdict.NOT_FOUND
            if id not in states
            else Verdict.ALREADY
            if states[id] == already
            else Verdict.WRONG_STATE
            for id in ids
        ]

    def pause(self, queue: str, paused: bool, *, now: datetime | None = None) -> Operation[None]:
        yield Statement(self._sql["pause"], (queue, paused, self._dialect.now(now)), alone=True)

    def save_progress(
        self, reports: Sequence[ProgressReport], *, now: datetime | None = None
    ) -> Operation[None]:
        newest = {said.job_id: said for said in reports}
        if newest:
            yield Statement(
                self._sql["save_progress"],
                (self._dialect.now(now),),
                [(said.job_id, said.token, said.fraction, said.note) for said in newest.values()],
                alone=True,
            )

    def add_audit(self, record: AuditRecord, *, now: datetime | None = None) -> Operation[None]:
        yield Statement(
            self._sql["add_audit"],
            (
                record.id,
                self._dialect.now(now),
                record.actor,
                record.action,
                record.target,
                record.count,
                record.before,
                record.after,
            ),
            alone=True,
        )

    def prune_audit(self, older_than: float, *, now: datetime | None = None) -> Operation[int]:
        rows = yield Statement(
            self._sql["prune_audit"], (older_than, self._dialect.now(now)), alone=True
        )
        return len(rows)

    def save_worker(self, worker: WorkerRecord, *, now: datetime | None = None) -> Operation[None]:
        yield Statement(
            self._sql["save_worker"],
            (
                worker.id,
                worker.host,
                worker.pid,
                "\n".join(worker.queues),
                "\n".join(worker.types),
                worker.concurrency,
                worker.running,
                self._dialect.now(now),
            ),
            alone=True,
        )

    def delete_workers(
        self,
        ids: Sequence[str] = (),
        *,
        unseen_for: float | None = None,
        now: datetime | None = None,
    ) -> Operation[int]:
        rows = yield Statement(
            self._sql["delete_workers"],
            (list(ids), unseen_for, self._dialect.now(now)),
            alone=True,
        )
        return len(rows)
