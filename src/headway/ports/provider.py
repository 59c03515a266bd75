"""Runs a store's statements on a connection that belongs to the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headway.ports.statement import Row, Statement


class AsyncProvider(Protocol):
    """Runs statements on one kind of awaitable connection, inside the transaction the user opened.

    It never commits or rolls back, begins only what the driver itself would have begun at the first
    statement, and leaves the connection as it found it: its settings, row factories, cursors. A
    connection on which what is written could not be undone is refused with ConfigurationError.
    `headway.testing.conformance.provider` checks all of it.
    """

    def accepts(self, tx: object) -> bool:
        """Whether `tx` is of the kind that this provider knows."""
        ...

    async def execute(self, tx: Any, statement: Statement) -> Sequence[Row]:
        """Run one statement; its rows, or none. Lists among its parameters are arrays on
        PostgreSQL (`headway.drivers.postgres_parameters`) and JSON on SQLite
        (`headway.drivers.sqlite`), where a batch without rows answers with one: the number of rows
        it changed."""
        ...

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        """Have `callback` called once the transaction has committed, and never if it, or the
        savepoint that is open now, is rolled back. False if this driver does not let us see that:
        then the notifier puts its news into the transaction, or polling finds the jobs."""
        ...


class SyncProvider(Protocol):
    """The same for connections that block."""

    def accepts(self, tx: object) -> bool: ...

    def execute(self, tx: Any, statement: Statement) -> Sequence[Row]: ...

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool: ...


Provider = AsyncProvider | SyncProvider
"""Which of the two it is shows in whether `execute` is a coroutine function."""
