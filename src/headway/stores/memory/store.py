"""The memory store put together, and what runs its operations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar

from headway.errors import ConfigurationError, StoreClosed, StoreError
from headway.ports.statement import Operation
from headway.ports.store import Capabilities, MigrationStatus
from headway.ports.transfer import Transfer
from headway.stores.memory.audit import Notebook
from headway.stores.memory.manage import Tending
from headway.stores.memory.read import Reading
from headway.stores.memory.settle import Settling
from headway.stores.memory.transaction import Locked, MemoryTransaction

P = ParamSpec("P")
T = TypeVar("T")


class MemoryStore(Notebook, Settling, Tending, Reading):
    """Keeps jobs in this process, for tests, trials and work that may be forgotten.

    Safe to use from any number of tasks, event loops and threads. Operations run one at a time;
    one that meets a job which an open transaction has changed waits for its end. What is stored
    stays when the store is closed and opened again.
    """

    capabilities = Capabilities(durable=False, across_processes=False, transactions=True)
    transactions: int | None = None
    transfer: Transfer | None = None

    async def open(self) -> None:
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

    def migration_script(self) -> str:
        return ""

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        start = partial(operation, *args, **kwargs)
        ours = getattr(operation, "__self__", None) is self
        await asyncio.sleep(0)  # let others run, as a store with a connection would
        while True:
            try:
                return self._drive_verb(start) if ours else self._drive(None, start)
            except Locked as locked:
                # Shielded: whoever stops waiting must not end it for the others.
                await asyncio.shield(asyncio.wrap_future(locked.owner.ended))

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        start = partial(operation, *args, **kwargs)
        ours = getattr(operation, "__self__", None) is self
        while True:
            try:
                return self._drive_verb(start) if ours else self._drive(None, start)
            except Locked as locked:
                locked.owner.ended.result()

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        own = self._own(tx)
        await asyncio.sleep(0)
        while True:
            try:
                return self._drive(own, partial(operation, *args, **kwargs))
            except Locked as locked:
                own.wait_for(locked.owner)
                try:
                    await asyncio.shield(asyncio.wrap_future(locked.owner.ended))
                finally:
                    own.waits_for = None

    def run_in_sync(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        own = self._own(tx)
        while True:
            try:
                return self._drive(own, partial(operation, *args, **kwargs))
            except Locked as locked:
                own.wait_for(locked.owner)
                try:
                    locked.owner.ended.result()
                finally:
                    own.waits_for = None

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        self._own(tx).callbacks.append(callback)
        return True

    def begin(self) -> AbstractAsyncContextManager[MemoryTransaction]:
        """A transaction, for `async with` or plain `with`."""
        return MemoryTransaction(self._begin_transaction, self._end_transaction, self.data)

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """Nothing to do: nothing is remembered that could be out of date."""

    def _own(self, tx: object) -> MemoryTransaction:
        """The transaction, if it can be run in."""
        if not self._is_open:
            raise StoreClosed(self.name)
        if not isinstance(tx, MemoryTransaction):
            raise ConfigurationError(
                "the memory store runs only in transactions of its own (`async with store.begin()`)"
                f", not in a {type(tx).__name__}"
            )
        return tx
