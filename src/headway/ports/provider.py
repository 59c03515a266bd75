"""Runs a store's statements on a connection that belongs to the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headway.ports.statement import Row, Statement


class AsyncProvider(Protocol):
    """Runs statements on one kind of awaitable connection, inside the transaction the user opened.

    It never commits or rolls back, begins a transaction only where the driver would at its first
    statement, and leaves settings, row factories and cursors of the connection unchanged. It
    refuses a connection in autocommit mode, where writes could not be undone, with
    ConfigurationError. `headway.testing.conformance.provider` checks all of it.
    """

    def accepts(self, tx: object) -> bool:
        """Whether this provider can use `tx`."""
        ...

    async def execute(self, tx: Any, statement: Statement) -> Sequence[Row]:
        """Run one statement and return its rows, if any. List parameters are arrays on PostgreSQL
        (`headway.drivers.postgres_statement_parameters`) and JSON on SQLite
        (`headway.drivers.sqlite`), where a batch without result rows returns one row: the number of
        changed rows."""
        ...

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        """Call `callback` after the commit of the transaction, and never if it, or the savepoint
        that is open now, is rolled back. False if the driver does not show commits: then the
        notifier publishes inside the transaction, or polling finds the jobs."""
        ...


class SyncProvider(Protocol):
    """The same for sync connections."""

    def accepts(self, tx: object) -> bool: ...

    def execute(self, tx: Any, statement: Statement) -> Sequence[Row]: ...

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool: ...


Provider = AsyncProvider | SyncProvider
"""An AsyncProvider if `execute` is a coroutine function, else a SyncProvider."""
