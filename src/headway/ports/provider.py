"""Runs a store's statements on a connection that belongs to the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headway.ports.statement import Row, Statement


class AsyncProvider(Protocol):
    """Runs statements on one kind of awaitable connection, inside the transaction the user opened.

    It never begins, commits or rolls back, and leaves the connection's settings as they were.
    """

    def accepts(self, tx: object) -> bool: ...

    async def execute(self, tx: Any, statement: Statement) -> Sequence[Row]: ...

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        """Have `callback` called once the transaction has committed; False if this driver does not
        let us see that (then polling finds the jobs)."""
        ...


class SyncProvider(Protocol):
    """The same for connections that block."""

    def accepts(self, tx: object) -> bool: ...

    def execute(self, tx: Any, statement: Statement) -> Sequence[Row]: ...

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool: ...
