"""The memory store under watch: a checker sees every row that changed, after every operation."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from headway.ports.statement import Operation
from headway.stores.memory.row import JobRow
from headway.stores.memory.store import MemoryStore
from headway.stores.memory.transaction import MemoryTransaction

T = TypeVar("T")
Changed = dict[str, JobRow | None]
"""Rows that were touched, as others see them now."""

_touched: set[str] = set()
_NOBODY = contextvars.Context()


class WatchedRow(JobRow, eq=False):
    """Notes that it was touched, whoever did it and however."""

    def __setattr__(self, name: str, value: Any) -> None:
        _touched.add(self.id)
        super().__setattr__(name, value)


class Watcher(Protocol):
    def operated(
        self,
        operation: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        tx: MemoryTransaction | None,
        answer: Any,
        changed: Changed,
    ) -> None: ...

    def committed(self, tx: MemoryTransaction, changed: Changed) -> None: ...

    def rolled_back(self, tx: MemoryTransaction, changed: Changed) -> None: ...


class WatchedMemory(MemoryStore):
    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        _touched.clear()
        self._watcher = watcher
        self._is_open = True

    def row(self, job_id: str) -> JobRow | None:
        """As others see it: without what is not committed."""
        row = self._rows.get(job_id)
        if row is None:
            return None
        if row.owner is not None:
            return row.owner.journal.images[row]
        return None if row.deleted else row

    def _changed(self) -> Changed:
        changed = {job_id: self.row(job_id) for job_id in sorted(_touched)}
        _touched.clear()
        return changed

    def _drive(self, tx: MemoryTransaction | None, start: Callable[[], Operation[T]]) -> T:
        answer = super()._drive(tx, start)
        self._report(start, tx, answer)
        return answer

    def _drive_verb(self, start: Callable[[], Operation[T]]) -> T:
        answer = super()._drive_verb(start)
        self._report(start, None, answer)
        return answer

    def _add(self, row: JobRow) -> None:
        _touched.add(row.id)
        super()._add(row)

    def _erase(self, row: JobRow) -> None:
        _touched.add(row.id)
        super()._erase(row)

    def _end_transaction(self, tx: MemoryTransaction, commit: bool) -> None:
        if tx not in self._transactions:
            return
        # Whoever waits for the end must hear of it, even if the one who ended it dies just now.
        callbacks, tx.callbacks = tx.callbacks, []
        _NOBODY.run(super()._end_transaction, tx, commit)
        changed = self._changed()
        (self._watcher.committed if commit else self._watcher.rolled_back)(tx, changed)
        if commit:
            for callback in callbacks:
                callback()

    def _report(
        self, start: Callable[[], Operation[Any]], tx: MemoryTransaction | None, answer: Any
    ) -> None:
        if isinstance(start, partial):
            changed = self._changed()
            self._watcher.operated(start.func, start.args, start.keywords, tx, answer, changed)
