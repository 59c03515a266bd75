"""Records of workers and of paused queues."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from headway.domain.queries import QueueRecord, WorkerRecord
from headway.ports.statement import Operation
from headway.stores.memory.schedule_table import ScheduleTable
from headway.stores.memory.table import moment


class MemoryWorkers(ScheduleTable):
    def queues(self) -> Operation[list[QueueRecord]]:
        yield from ()
        names = {row.spec.queue for row in self._visible()}
        names.update(self._managed())
        return [QueueRecord(name, self._paused.get(name)) for name in sorted(names)]

    def managed_queues(self) -> Operation[list[QueueRecord]]:
        yield from ()
        return [QueueRecord(name, self._paused.get(name)) for name in self._managed()]

    def save_worker(
        self, worker: WorkerRecord, *, now: datetime | None = None
    ) -> Operation[float | None]:
        yield from ()
        now = moment(now)
        known = self._workers.get(worker.id)
        started_at = now if known is None else known.started_at
        self._set(
            self._workers,
            worker.id,
            msgspec.structs.replace(worker, started_at=started_at, seen_at=now),
        )
        return None if worker.schedules is None else self._seconds_to_next(worker.schedules, now)

    def workers(self) -> Operation[list[WorkerRecord]]:
        yield from ()
        return sorted(self._workers.values(), key=lambda worker: (worker.started_at, worker.id))

    def delete_workers(
        self,
        ids: Sequence[str] = (),
        *,
        unseen_for: float | None = None,
        now: datetime | None = None,
    ) -> Operation[int]:
        yield from ()
        gone = self._workers.keys() & set(ids)
        if unseen_for is not None:
            since = moment(now) - timedelta(seconds=unseen_for)
            gone |= {name for name, worker in self._workers.items() if worker.seen_at < since}
        for name in gone:
            self._unset(self._workers, name)
        return len(gone)
