"""Connections to PostgreSQL: the store's own, those handed to handlers, and what can go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from headway.ports.statement import Row, Statement
from headway.providers.batches import with_literals

# Planning a claim takes longer than running a small one, so plans are made once per connection. A
# plan made while the table was empty must still be right when it is full: what such a plan would
# be tempted by is switched off, and what remains is the index, in order, from nested loops.
SETTINGS = (
    "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_sort = off;"
    " set enable_hashjoin = off; set enable_mergejoin = off; set jit = off; set timezone = 'UTC'"
)


WAIT_FOR_CONNECTION = 5.0
"""Seconds that an operation waits for a connection before it says that the server is away."""


def own_pool(dsn: str, max_size: int) -> AsyncConnectionPool[AsyncConnection[TupleRow]]:
    """Connections for the store's own statements."""

    async def configure(connection: AsyncConnection[TupleRow]) -> None:
        connection.adapters.register_loader("uuid", TextLoader)
        await connection.execute(SETTINGS)

    return AsyncConnectionPool(
        dsn,
        kwargs=_arguments(autocommit=True),
        min_size=min(2, max_size),
        max_size=max_size,
        configure=configure,
        open=False,
        timeout=WAIT_FOR_CONNECTION,
        reconnect_timeout=5,
    )


def guest_pool(dsn: str, max_size: int) -> AsyncConnectionPool[AsyncConnection[TupleRow]]:
    """Connections for transactions that handlers write in: nothing is set on them."""
    return AsyncConnectionPool(
        dsn,
        kwargs=_arguments(autocommit=False),
        min_size=0,
        max_size=max_size,
        open=False,
        timeout=WAIT_FOR_CONNECTION,
        reconnect_timeout=5,
    )


def blocking_pool(dsn: str, max_size: int) -> ConnectionPool[Connection[TupleRow]]:
    """Connections for callers without an event loop."""

    def configure(connection: Connection[TupleRow]) -> None:
        connection.adapters.register_loader("uuid", TextLoader)
        connection.execute(SETTINGS)

    return ConnectionPool(
        dsn,
        kwargs=_arguments(autocommit=True),
        min_size=0,
        max_size=max_size,
        configure=configure,
        open=False,
        timeout=WAIT_FOR_CONNECTION,
        reconnect_timeout=5,
    )


def _arguments(*, autocommit: bool) -> dict[str, Any]:
    return {
        "autocommit": autocommit,
        "application_name": "headway",
        "connect_timeout": 10,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }


class AsyncRunner:
    """Runs an operation's statements on one of the store's connections; begins a transaction
    before the first statement that needs one. `is_verb`: the operation is one of the store's own,
    so what it says to be atomic by itself needs none; a flow made of several always does."""

    def __init__(self, connection: AsyncConnection[TupleRow], *, is_verb: bool) -> None:
        self._connection = connection
        self._is_verb = is_verb
        self._cursor = AsyncRawCursor(connection, row_factory=tuple_row)
        self._began = False

    async def execute(self, statement: Statement) -> Sequence[Row]:
        if not self._began and not (statement.alone and self._is_verb):
            await self._connection.execute("begin")
            self._began = True
        await self._cursor.execute(
            statement.sql.encode(), with_literals(statement), prepare=not statement.varied
        )
        return await self._cursor.fetchall() if self._cursor.description else ()

    async def end(self) -> None:
        if self._began:
            await self._connection.execute("commit")


class BlockingRunner:
    """The same without an event loop."""

    def __init__(self, connection: Connection[TupleRow], *, is_verb: bool) -> None:
        self._connection = connection
        self._is_verb = is_verb
        self._cursor = RawCursor(connection, row_factory=tuple_row)
        self._began = False

    def execute(self, statement: Statement) -> Sequence[Row]:
        if not self._began and not (statement.alone and self._is_verb):
            self._connection.execute("begin")
            self._began = True
        self._cursor.execute(
            statement.sql.encode(), with_literals(statement), prepare=not statement.varied
        )
        return self._cursor.fetchall() if self._cursor.description else ()

    def end(self) -> None:
        if self._began:
            self._connection.execute("commit")


def is_lost_connection(error: BaseException) -> bool:
    """The server is away, going away, or does not answer."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state[:2] in ("08", "57") or state in ("53300", "25006")


def is_transient(error: BaseException) -> bool:
    """Trying the whole operation again may help. Having waited for a connection in vain, it has
    been tried for long enough."""
    if isinstance(error, psycopg.errors.QueryCanceled | PoolTimeout):
        return False
    return is_lost_connection(error) or isinstance(
        error, psycopg.errors.SerializationFailure | psycopg.errors.DeadlockDetected
    )
