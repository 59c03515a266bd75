"""Records of living workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headway.domain.queries import WorkerRecord
from headway.ports.statement import Operation, Statement, reading
from headway.stores.sql.dialect import SqlPart

_schedules = msgspec.json.Decoder(dict[str, str])


class SqlWorkers(SqlPart):
    def save_worker(
        self, worker: WorkerRecord, *, now: datetime | None = None
    ) -> Operation[float | None]:
        rows = yield Statement(
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
                None
                if worker.schedules is None
                else msgspec.json.encode(worker.schedules).decode(),
                list(worker.schedules or ()),
            ),
            alone=True,
        )
        seconds: float | None = rows[0][0]
        return seconds

    @reading
    def workers(self) -> Operation[list[WorkerRecord]]:
        rows = yield Statement(self._sql["workers"], alone=True)
        return [
            WorkerRecord(
                id=id,
                host=host,
                pid=pid,
                queues=tuple(queues.split("\n")) if queues else (),
                types=tuple(types.split("\n")) if types else (),
                concurrency=concurrency,
                running=running,
                started_at=self._dialect.time(started_at),
                seen_at=self._dialect.time(seen_at),
                schedules=None if schedules is None else _schedules.decode(schedules),
            )
            for (
                *(id, host, pid, queues, types, concurrency, running, started_at, seen_at),
                schedules,
            ) in rows
        ]

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
