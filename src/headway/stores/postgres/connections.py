"""Connections to PostgreSQL: the store's own, those handed to handlers, and what can go wrong."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.errors import FeatureNotSupported, ReadOnlySqlTransaction, UniqueViolation
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from headway.drivers.postgres_connection import WHO_ANSWERS, connect_arguments, is_pooled
from headway.drivers.postgres_parameters import text_parameters
from headway.ports.statement import Row, Statement
from headway.stores.postgres.copy_rows import CopyStatement

# Planning a claim takes longer than running a small one, so plans are made once per connection. A
# plan made while the table was empty must still be right when it is full: what such a plan would
# be tempted by is switched off, and what remains is the index, in order, from nested loops.
SETTINGS = (
    "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_sort = off;"
    " set enable_hashjoin = off; set enable_mergejoin = off; set jit = off; set timezone = 'UTC'"
)


# Behind a pooler the next transaction may run on another connection, and what was set on this one
# may meet somebody else: settings go with the transaction, and nothing is prepared.
BEGIN_POOLED = "begin; " + SETTINGS.replace("set ", "set local ")

NO_COPY = (UniqueViolation, FeatureNotSupported)
"""An earlier try has stored the jobs, or row-level security is on: only an insert will do."""
DRIVERS_ERRORS = (psycopg.Error, UnicodeError, OverflowError)
"""What psycopg raises; the last two are Python's, about values that cannot be sent."""
_DATAS_FAULT = ("22", "23")
"""Classes of errors: data exception, integrity constraint violation."""
WAIT_FOR_CONNECTION = 5.0
"""Seconds that an operation waits for a connection before it says that the server is away."""


def own_pool(dsn: str, max_size: int) -> AsyncConnectionPool[AsyncConnection[TupleRow]]:
    """Connections for the store's own statements."""

    async def configure(connection: AsyncConnection[TupleRow]) -> None:
        connection.adapters.register_loader("uuid", TextLoader)
        if not await _find_pooler(connection):
            await connection.execute(SETTINGS)

    return AsyncConnectionPool(
        dsn,
        kwargs={**connect_arguments(dsn), "autocommit": True},
        min_size=min(2, max_size),
        max_size=max_size,
        configure=configure,
        open=False,
        timeout=WAIT_FOR_CONNECTION,
        reconnect_timeout=5,
    )


def guest_pool(dsn: str, max_size: int) -> AsyncConnectionPool[AsyncConnection[TupleRow]]:
    """Connections for transactions that handlers write in: nothing is set on them."""

    async def configure(connection: AsyncConnection[TupleRow]) -> None:
        await connection.set_autocommit(True)
        await _find_pooler(connection)
        await connection.set_autocommit(False)

    return AsyncConnectionPool(
        dsn,
        kwargs={**connect_arguments(dsn), "autocommit": False},
        min_size=0,
        max_size=max_size,
        configure=configure,
        open=False,
        timeout=WAIT_FOR_CONNECTION,
        reconnect_timeout=5,
    )


def blocking_pool(dsn: str, max_size: int) -> ConnectionPool[Connection[TupleRow]]:
    """Connections for callers without an event loop."""

    def configure(connection: Connection[TupleRow]) -> None:
        connection.adapters.register_loader("uuid", TextLoader)
        if is_pooled(connection, connection.execute(WHO_ANSWERS).fetchone()):
            connection.prepare_threshold = None
        else:
            connection.execute(SETTINGS)

    return ConnectionPool(
        dsn,
        kwargs={**connect_arguments(dsn), "autocommit": True},
        min_size=0,
        max_size=max_size,
        configure=configure,
        open=False,
        timeout=WAIT_FOR_CONNECTION,
        reconnect_timeout=5,
    )


async def _find_pooler(connection: AsyncConnection[TupleRow]) -> bool:
    """If there is one, the connection prepares nothing, by which its runner knows."""
    cursor = await connection.execute(WHO_ANSWERS)
    pooled = is_pooled(connection, await cursor.fetchone())
    if pooled:
        connection.prepare_threshold = None
    return pooled


class AsyncRunner:
    """Runs an operation's statements on one of the store's connections; begins a transaction
    before the first statement that needs one. `is_verb`: the operation is one of the store's own,
    so what it says to be atomic by itself needs none; a flow made of several always does."""

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
            await self._connection.execute(BEGIN_POOLED if self._pooled else "begin")
            self._began = True
        await self._cursor.execute(
            statement.sql.encode(), text_parameters(statement), prepare=not statement.varied
        )
        return await self._cursor.fetchall() if self._cursor.description else ()

    async def _copy(self, statement: CopyStatement) -> Sequence[Row]:
        await self._connection.execute(BEGIN_POOLED if self._pooled else "begin")
        self._began = True
        async with self._cursor.copy(statement.into.encode()) as data:
            await data.write(statement.lines())
        count = self._cursor.rowcount
        await self._cursor.execute(b"select now()")
        return [(count, *row) for row in await self._cursor.fetchall()]

    async def end(self) -> None:
        if self._began:
            await self._connection.execute("commit")


class BlockingRunner:
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
            self._connection.execute(BEGIN_POOLED if self._pooled else "begin")
            self._began = True
        self._cursor.execute(
            statement.sql.encode(), text_parameters(statement), prepare=not statement.varied
        )
        return self._cursor.fetchall() if self._cursor.description else ()

    def _copy(self, statement: CopyStatement) -> Sequence[Row]:
        self._connection.execute(BEGIN_POOLED if self._pooled else "begin")
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
    """The server is away, going away, does not answer, or is no longer the one that writes."""
    if isinstance(error, PoolTimeout | ReadOnlySqlTransaction):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = error.sqlstate
    return state is None or state[:2] in ("08", "57") or state == "53300"


def is_refusal(error: BaseException) -> bool:
    """The data is at fault: text that PostgreSQL cannot hold, a number out of range."""
    if isinstance(error, psycopg.Error):
        return (error.sqlstate or "")[:2] in _DATAS_FAULT or isinstance(error, psycopg.DataError)
    return isinstance(error, UnicodeError | OverflowError)


def is_dead(error: BaseException) -> bool:
    """The connection that was used is of no use any more, and neither may be those of its age."""
    return is_lost_connection(error) and not isinstance(
        error, psycopg.errors.QueryCanceled | PoolTimeout
    )


def is_transient(error: BaseException) -> bool:
    """Trying the whole operation again may help. Having waited for a connection in vain, it has
    been tried for long enough."""
    if isinstance(error, psycopg.errors.QueryCanceled | PoolTimeout):
        return False
    return is_lost_connection(error) or isinstance(
        error, psycopg.errors.SerializationFailure | psycopg.errors.DeadlockDetected
    )
