"""Connections to PostgreSQL: the store's own, those of handlers, and kinds of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.errors import (
    FeatureNotSupported,
    IdleInTransactionSessionTimeout,
    ReadOnlySqlTransaction,
    UniqueViolation,
)
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from headway.drivers.postgres_dsn import WHO_ANSWERS, connect_arguments, is_pooled
from headway.drivers.postgres_statement_parameters import text_parameters
from headway.ports.statement import Row, Statement
from headway.stores.postgres.bulk_copy import CopyStatement

# Planning a claim takes longer than running a small one, so plans are made once per connection. A
# plan that was made for an empty table must still be good for a full one: all methods that are good
# only for small tables are switched off, which leaves nested loops along an index.
SETTINGS = (
    "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_sort = off;"
    " set enable_hashjoin = off; set enable_mergejoin = off; set jit = off; set timezone = 'UTC'"
)
BEGIN = "begin isolation level read committed"
"""A statement after a lock must see what was committed meanwhile, whatever the default is."""


# Behind a pooler the next transaction may run on another server connection, and another client may
# get this one: settings last for a transaction only, and no statement is prepared.
BEGIN_POOLED = f"{BEGIN}; " + SETTINGS.replace("set ", "set local ")

NO_COPY = (UniqueViolation, FeatureNotSupported)
"""An earlier try has stored the jobs, or row-level security is on: COPY fails, insert works."""
DRIVERS_ERRORS = (psycopg.Error, UnicodeError, OverflowError)
"""Errors that psycopg raises; the last two are Python's, for values that cannot be sent."""
_DATAS_FAULT = ("22", "23")
"""Classes of error codes: data exception, integrity constraint violation."""
WAIT_FOR_CONNECTION = 5.0
"""Seconds that an operation waits for a connection before it fails."""


def own_pool(dsn: str, max_size: int) -> AsyncConnectionPool[AsyncConnection[TupleRow]]:
    """Connections for the store's own statements."""

    async def configure(connection: AsyncConnection[TupleRow]) -> None:
        connection.adapters.register_loader("uuid", TextLoader)
        if not await _find_pooler(connection):
            await connection.execute(SETTINGS)

    return AsyncConnectionPool(
        dsn, configure=configure, **_pool_arguments(dsn, max_size, min_size=min(2, max_size))
    )


def handler_pool(dsn: str, max_size: int) -> AsyncConnectionPool[AsyncConnection[TupleRow]]:
    """Connections for the transactions of handlers, without settings of ours."""

    async def configure(connection: AsyncConnection[TupleRow]) -> None:
        await connection.set_autocommit(True)
        await _find_pooler(connection)
        await connection.set_autocommit(False)

    return AsyncConnectionPool(
        dsn, configure=configure, **_pool_arguments(dsn, max_size, autocommit=False)
    )


def sync_pool(dsn: str, max_size: int) -> ConnectionPool[Connection[TupleRow]]:
    """Connections for callers without an event loop."""

    def configure(connection: Connection[TupleRow]) -> None:
        connection.adapters.register_loader("uuid", TextLoader)
        if is_pooled(connection, connection.execute(WHO_ANSWERS).fetchone()):
            connection.prepare_threshold = None
        else:
            connection.execute(SETTINGS)

    return ConnectionPool(dsn, configure=configure, **_pool_arguments(dsn, max_size))


def _pool_arguments(
    dsn: str, max_size: int, *, min_size: int = 0, autocommit: bool = True
) -> dict[str, Any]:
    return {
        "kwargs": {**connect_arguments(dsn), "autocommit": autocommit},
        "min_size": min_size,
        "max_size": max_size,
        "open": False,
        "timeout": WAIT_FOR_CONNECTION,
        "reconnect_timeout": 5,
    }


async def _find_pooler(connection: AsyncConnection[TupleRow]) -> bool:
    """Look for a pooler. With one, the connection prepares no statements."""
    cursor = await connection.execute(WHO_ANSWERS)
    pooled = is_pooled(connection, await cursor.fetchone())
    if pooled:
        connection.prepare_threshold = None
    return pooled


class PostgresRunner:
    """Runs an operation's statements on one of the store's connections; begins a transaction before
    the first statement that needs one. `is_verb`: the operation is a verb of the store, so that its
    `alone` statements need none; an operation that combines several verbs always needs one."""

    def __init__(self, connection: AsyncConnection[TupleRow], *, is_verb: bool) -> None:
        self._connection = connection
        self._is_verb = is_verb
        self._cursor = AsyncRawCursor(connection, row_factory=tuple_row)
        self._pooled = connection.prepare_threshold is None
        self._began = False

    async def execute(self, statement: Statement) -> Sequence[Row]:
        if isinstance(statement, CopyStatement) and not self._began:
            try:
                return await self._copy(statement)
            except NO_COPY:
                await self._connection.rollback()
                self._began = False
        if not self._began and (self._pooled or not (statement.alone and self._is_verb)):
            await self._connection.execute(BEGIN_POOLED if self._pooled else BEGIN)
            self._began = True
        await self._cursor.execute(
            statement.sql.encode(), text_parameters(statement), prepare=not statement.varied
        )
        return await self._cursor.fetchall() if self._cursor.description else ()

    async def _copy(self, statement: CopyStatement) -> Sequence[Row]:
        await self._connection.execute(BEGIN_POOLED if self._pooled else BEGIN)
        self._began = True
        async with self._cursor.copy(statement.into.encode()) as data:
            await data.write(statement.lines())
        count = self._cursor.rowcount
        await self._cursor.execute(b"select now()")
        return [(count, *row) for row in await self._cursor.fetchall()]

    async def end(self) -> None:
        if self._began:
            await self._connection.execute("commit")


class PostgresSyncRunner:
    """The same without an event loop."""

    def __init__(self, connection: Connection[TupleRow], *, is_verb: bool) -> None:
        self._connection = connection
        self._is_verb = is_verb
        self._cursor = RawCursor(connection, row_factory=tuple_row)
        self._pooled = connection.prepare_threshold is None
        self._began = False

    def execute(self, statement: Statement) -> Sequence[Row]:
        if isinstance(statement, CopyStatement) and not self._began:
            try:
                return self._copy(statement)
            except NO_COPY:
                self._connection.rollback()
                self._began = False
        if not self._began and (self._pooled or not (statement.alone and self._is_verb)):
            self._connection.execute(BEGIN_POOLED if self._pooled else BEGIN)
            self._began = True
        self._cursor.execute(
            statement.sql.encode(), text_parameters(statement), prepare=not statement.varied
        )
        return self._cursor.fetchall() if self._cursor.description else ()

    def _copy(self, statement: CopyStatement) -> Sequence[Row]:
        self._connection.execute(BEGIN_POOLED if self._pooled else BEGIN)
        self._began = True
        with self._cursor.copy(statement.into.encode()) as data:
            data.write(statement.lines())
        count = self._cursor.rowcount
        self._cursor.execute(b"select now()")
        return [(count, *row) for row in self._cursor.fetchall()]

    def end(self) -> None:
        if self._began:
            self._connection.execute("commit")


def is_lost_connection(error: BaseException) -> bool:
    """The server is away, shuts down, does not answer, or has become read-only."""
    if isinstance(error, PoolTimeout | ReadOnlySqlTransaction | IdleInTransactionSessionTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state[:2] in ("08", "57") or state == "53300"


def is_refusal(error: BaseException) -> bool:
    """The data is refused: text that PostgreSQL cannot hold, a number out of range."""
    if isinstance(error, psycopg.Error):
        return (error.sqlstate or "")[:2] in _DATAS_FAULT or isinstance(error, psycopg.DataError)
    return isinstance(error, UnicodeError | OverflowError)


def is_dead(error: BaseException) -> bool:
    """The connection is broken, and so may be others that were opened at the same time."""
    return is_lost_connection(error) and not isinstance(
        error, psycopg.errors.QueryCanceled | PoolTimeout
    )


def is_transient(error: BaseException) -> bool:
    """Another try of the operation may succeed. There is none after a wait for a connection that
    took too long."""
    if isinstance(error, psycopg.errors.QueryCanceled | PoolTimeout):
        return False
    return is_lost_connection(error) or isinstance(
        error, psycopg.errors.SerializationFailure | psycopg.errors.DeadlockDetected
    )
