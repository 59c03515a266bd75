"""The schedules in memory, and the transactions that have locked them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from headway.domain.schedules.schedule import ScheduleRecord, ScheduleRun
from headway.stores.memory.table import JobTable
from headway.stores.memory.transaction import Record

_Content = tuple[ScheduleRecord | None, tuple[ScheduleRun, ...]]
"""A schedule, None if it is deleted, and its runs, oldest first."""


class ScheduleTable(JobTable):
    """The base of the parts that know schedules."""

    def __init__(self) -> None:
        super().__init__()
        self._schedules: dict[str, Record[_Content]] = {}

    def _seconds_to_next(self, declared: Collection[str], now: datetime) -> float | None:
        next_at = min((record.next_at for record in self._fireable(declared)), default=None)
        return None if next_at is None else (next_at - now).total_seconds()

    def _fireable(self, declared: Collection[str]) -> list[ScheduleRecord]:
        """Schedules that a worker with these declarations may fire."""
        seen = (self._seen_schedule(name)[0] for name in self._schedules)
        return [
            record
            for record in seen
            if record is not None
            and record.paused_at is None
            and (record.declaration is None or record.name in declared)
        ]

    def _seen_schedule(self, name: str) -> _Content:
        """A schedule as the current operation may see it: without uncommitted changes of others."""
        row = self._schedules.get(name)
        return (None, ()) if row is None else self._seen_record(row)

    def _lock_schedule(self, name: str) -> Record[_Content]:
        """The row of a schedule, for changing: the current transaction owns it from now on."""
        return self._lock_record(self._schedules.setdefault(name, Record[_Content]((None, ()))))
