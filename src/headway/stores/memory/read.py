"""Reads of single jobs and sequences, as the current operation may see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import AttemptRecord, JobRecord
from headway.ports.statement import Operation
from headway.stores.memory.row import JobRow, to_record
from headway.stores.memory.table import JobTable, moment
from headway.stores.memory.transaction import Locked


class MemoryRead(JobTable):
    def get(self, ids: Sequence[str]) -> Operation[list[JobRecord | None]]:
        yield from ()
        return [
            to_record(row) if (row := self._read(job_id)) is not None else None for job_id in ids
        ]

    def attempts(self, job_id: str) -> Operation[list[AttemptRecord]]:
        yield from ()
        row = self._read(job_id)
        return [] if row is None else list(row.history)

    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        yield from ()
        now = moment(now)
        late = [
            (row.until, row.id, row)
            for row in self._running.values()
            if row.until is not None
            and row.until <= now
            and (row.owner is None or row.owner is self._tx)
            and not row.deleted
        ]
        late.sort()
        return [to_record(row) for _, _, row in late[: max(limit, 0)]]

    def current(
        self, sequence_ids: Sequence[str], *, lock: bool = False, wait: bool = True
    ) -> Operation[list[JobRecord | None]]:
        yield from ()
        reach = self._lock_last if lock else self._read_last
        lasts: list[JobRow | None] = []
        for sequence_id in sequence_ids:
            try:
                lasts.append(reach(sequence_id))
            except Locked:
                if wait:
                    raise
                lasts.append(None)
        return [None if row is None else to_record(row) for row in lasts]

    def blocker_outputs(self, job_ids: Sequence[str]) -> Operation[dict[str, list[str | None]]]:
        yield from ()
        outputs: dict[str, list[str | None]] = {}
        for job_id in job_ids:
            row = self._read(job_id)
            if row is not None:
                lasts = [self._read_last(blocker) for blocker in row.blockers]
                outputs[job_id] = [None if last is None else last.output for last in lasts]
        return outputs

    def dependents(
        self, sequence_ids: Sequence[str], *, limit: int | None = None
    ) -> Operation[list[JobRecord]]:
        yield from ()
        waiting: dict[str, JobRow] = {}
        for sequence_id in sequence_ids:
            first = self._read(sequence_id)
            for waiter in (first.waiters if first is not None else None) or ():
                seen = self._seen(waiter)
                if seen is not None:
                    waiting[seen.id] = seen
        return [to_record(row) for _, row in sorted(waiting.items())[:limit]]
