"""Queues that are paused, and workers that are alive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from headway.domain.queries import QueueRecord, WorkerRecord
from headway.ports.statement import Operation
from headway.stores.memory.claim import Claiming
from headway.stores.memory.table import moment

T = TypeVar("T")


class RollCall(Claiming):
    """These are no rows: others see a change at once, though a rollback undoes it."""

    def __init__(self) -> None:
        super().__init__()
        self._workers: dict[str, WorkerRecord] = {}

    def pause(self, queue: str, paused: bool, *, now: datetime | None = None) -> Operation[None]:
        yield from ()
        if not paused:
            self._set(self._paused, queue, None)
        elif self._paused.get(queue) is None:
            self._set(self._paused, queue, moment(now))

    def queues(self) -> Operation[list[QueueRecord]]:
        yield from ()
        names = {row.spec.queue for row in self._rows.values() if self._seen(row) is not None}
        return [
            QueueRecord(name, self._paused.get(name)) for name in sorted(names | set(self._paused))
        ]

    def save_worker(self, worker: WorkerRecord, *, now: datetime | None = None) -> Operation[None]:
        yield from ()
        now = moment(now)
        known = self._workers.get(worker.id)
        started_at = now if known is None else known.started_at
        self._set(
            self._workers,
            worker.id,
            msgspec.structs.replace(worker, started_at=started_at, seen_at=now),
        )

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
            self._note(self._workers, name)
            del self._workers[name]
        return len(gone)

    def _set(self, kept: dict[str, T], key: str, value: T) -> None:
        self._note(kept, key)
        kept[key] = value

    def _note(self, kept: dict[str, T], key: str) -> None:
        """Have the journal remember what is kept under a key."""
        if self._journal is None:
            return
        if key in kept:
            before = kept[key]
            self._journal.undo.append(lambda: kept.update({key: before}))
        else:
            self._journal.undo.append(lambda: _remove(kept, key))


def _remove(kept: dict[str, T], key: str) -> None:
    kept.pop(key, None)
