"""Records of living workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headway.domain.queries import WorkerRecord
from headway.ports.statement import Operation, Statement, reading
from headway.stores.sql.dialect import SqlPart

_declared = msgspec.json.Decoder(dict[str, str])
"""Names and fingerprints."""


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
                _encode(worker.schedules),
                list(worker.schedules or ()),
                _encode(worker.limits),
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
                schedules=None if schedules is None else _declared.decode(schedules),
                limits=None if limits is None else _declared.decode(limits),
            )
            for (
                *(id, host, pid, queues, types, concurrency, running, started_at, seen_at),
                schedules,
                limits,
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


def _encode(declared: dict[str, str] | None) -> str | None:
    return None if declared is None else msgspec.json.encode(declared).decode()
