"""The memory store: its parts, its transactions, and the execution of its operations."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar

from headway.errors import ConfigurationError, StoreClosed, StoreError
from headway.ports.statement import Operation
from headway.ports.store import Capabilities, MigrationStatus
from headway.ports.transfer import Transfer
from headway.runtime.forks import Forkable
from headway.stores.memory.audit import MemoryAudit
from headway.stores.memory.find import MemoryFind
from headway.stores.memory.insert import MemoryInsert
from headway.stores.memory.limits import MemoryLimits
from headway.stores.memory.manage import MemoryManage
from headway.stores.memory.read import MemoryRead
from headway.stores.memory.schedules import MemorySchedules
from headway.stores.memory.settle import MemorySettle
from headway.stores.memory.statistics import MemoryStatistics
from headway.stores.memory.transaction import Locked, MemoryTransaction
from headway.stores.memory.workers import MemoryWorkers

P = ParamSpec("P")
T = TypeVar("T")


class MemoryStore(
    MemoryInsert,
    MemoryLimits,
    MemorySettle,
    MemoryRead,
    MemoryFind,
    MemoryStatistics,
    MemoryManage,
    MemoryAudit,
    MemoryWorkers,
    MemorySchedules,
    Forkable,
):
    """Keeps jobs in this process, for tests, trials and work that may be lost.

    Safe to use from any number of tasks, event loops and threads. Operations run one at a time; an
    operation on a job that an open transaction has changed waits for the end of that transaction.
    Jobs stay when the store is closed and opened again.
    """

    name = "memory"
    capabilities = Capabilities(durable=False, across_processes=False, transactions=True)
    transactions: int | None = None
    transfer: Transfer | None = None

    def __init__(self) -> None:
        super().__init__()
        self.data: dict[str, Any] = {}
        """The committed `data` of transactions."""
        self._mutex = threading.RLock()
        self._is_open = False
        self._is_copy = False
        """In a forked process, of a store that was open."""
        self._transactions: set[MemoryTransaction] = set()
        self.watch_forks()

    def in_child(self) -> None:
        self._mutex = threading.RLock()
        self._is_copy, self._is_open = self._is_open, False

    async def open(self, *, migrate: bool = False) -> None:
        if self._is_copy:
            raise StoreError(
                "the memory store was open when this process was forked, and its jobs stay in the "
                "parent; use a SQLite file or a server for jobs that several processes share"
            )
        self._is_open = True

    async def close(self) -> None:
        with self._mutex:
            self._is_open = False

    async def migrate(self) -> list[str]:
        return []

    async def migration_status(self) -> list[MigrationStatus]:
        return []

    def migration_script(self, *, after: int = 0) -> str:
        return ""

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        start = partial(operation, *args, **kwargs)
        is_verb = getattr(operation, "__self__", None) is self
        await asyncio.sleep(0)  # let other tasks run, as a store with a connection would
        while True:
            try:
                return self._drive_verb(start) if is_verb else self._drive(None, start)
            except Locked as locked:
                # Shielded: a cancelled waiter must not cancel the future for the others.
                await asyncio.shield(asyncio.wrap_future(locked.owner.ended))

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        start = partial(operation, *args, **kwargs)
        is_verb = getattr(operation, "__self__", None) is self
        while True:
            try:
                return self._drive_verb(start) if is_verb else self._drive(None, start)
            except Locked as locked:
                locked.owner.ended.result()

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        own = self._checked(tx)
        await asyncio.sleep(0)
        while True:
            try:
                return self._drive(own, partial(operation, *args, **kwargs))
            except Locked as locked:
                with own.waiting_for(locked.owner):
                    await asyncio.shield(asyncio.wrap_future(locked.owner.ended))

    def run_in_sync(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        own = self._checked(tx)
        while True:
            try:
                return self._drive(own, partial(operation, *args, **kwargs))
            except Locked as locked:
                with own.waiting_for(locked.owner):
                    locked.owner.ended.result()

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        self._checked(tx).callbacks.append(callback)
        return True

    def begin(self) -> AbstractAsyncContextManager[MemoryTransaction]:
        """A transaction, for `async with` or plain `with`."""
        return MemoryTransaction(self._begin_transaction, self._end_transaction, self.data)

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """Nothing to do: every claim looks at all pending jobs."""

    def _drive(self, tx: MemoryTransaction | None, start: Callable[[], Operation[T]]) -> T:
        """Run an operation to its end; if it raises, its changes are undone."""
        with self._mutex:
            if not self._is_open:
                raise StoreClosed(self.name)
            if tx is not None and tx not in self._transactions:
                raise StoreError(
                    "the transaction has ended, or belongs to another store; begin another one"
                )
            outer = self._tx, self._journal
            self._tx, self._journal = tx, None
            try:
                with self._journaled():
                    return _result(start())
            finally:
                self._tx, self._journal = outer

    def _drive_verb(self, start: Callable[[], Operation[T]]) -> T:
        """The same for a single verb outside of transactions: without a journal, unless a
        transaction is open."""
        with self._mutex:
            if self._transactions or self._journal is not None or not self._is_open:
                return self._drive(None, start)
            return _result(start())

    def _begin_transaction(self, tx: MemoryTransaction) -> None:
        with self._mutex:
            if not self._is_open:
                raise StoreClosed(self.name)
            self._transactions.add(tx)

    def _end_transaction(self, tx: MemoryTransaction, commit: bool) -> None:
        with self._mutex:
            if commit:
                self._commit(tx.journal)
                tx.data.apply()
            else:
                self._roll_back(tx.journal)
            self._transactions.discard(tx)
        tx.ended.set_result(None)
        if commit:
            for callback in tx.callbacks:
                callback()

    def _checked(self, tx: object) -> MemoryTransaction:
        """The transaction; raises if it is not one of the memory store."""
        if not self._is_open:
            raise StoreClosed(self.name)
        if not isinstance(tx, MemoryTransaction):
            raise ConfigurationError(
                "the memory store runs only in transactions of its own (`async with store.begin()`)"
                f", not in a {type(tx).__name__}"
            )
        return tx


def _result(operation: Operation[T]) -> T:
    try:
        wanted = next(operation)
    except StopIteration as stop:
        result: T = stop.value
        return result
    operation.close()
    raise TypeError(f"the memory store cannot execute {wanted!r}; run operations of its own")
