"""The schedules in memory, and the transactions that have locked them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import msgspec

from headway.domain.schedules.schedule import ScheduleRecord, ScheduleRun
from headway.stores.memory.table import JobTable
from headway.stores.memory.transaction import Locked, MemoryTransaction

_Content = tuple[ScheduleRecord | None, tuple[ScheduleRun, ...]]
"""A schedule, None if it is deleted, and its runs, oldest first."""


class ScheduleRow(msgspec.Struct, eq=False):
    content: _Content = (None, ())
    owner: MemoryTransaction | None = None
    """The open transaction that has locked it."""
    before: _Content = (None, ())
    """The content that others see meanwhile."""


class ScheduleTable(JobTable):
    """The base of the parts that know schedules."""

    def __init__(self) -> None:
        super().__init__()
        self._schedules: dict[str, ScheduleRow] = {}

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
        if row is None:
            return None, ()
        return row.content if row.owner in (None, self._tx) else row.before

    def _lock_schedule(self, name: str) -> ScheduleRow:
        """The row of a schedule, for changing: the current transaction owns it from now on."""
        row = self._schedules.setdefault(name, ScheduleRow())
        if row.owner is not None and row.owner is not self._tx:
            raise Locked(row.owner)
        journal = self._journal
        if journal is None:
            return row
        content, owner, before = row.content, row.owner, row.before

        def undo() -> None:
            row.content, row.owner, row.before = content, owner, before

        journal.undo.append(undo)
        if owner is None and self._tx is not None:
            row.owner, row.before = self._tx, content

            def release() -> None:
                row.owner = None

            journal.release.append(release)
        return row
