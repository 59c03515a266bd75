"""The PostgreSQL store: its parts, and pools of connections that run their operations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.errors import QueryCanceled
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from headway.domain.failure import first_line
from headway.domain.validation import check_identifier
from headway.drivers.postgres_dsn import connect_arguments, describe, unreachable
from headway.errors import (
    DataRefused,
    SchemaMissing,
    SchemaOutdated,
    StoreClosed,
    StoreError,
    StoreRefused,
    StoreUnreachable,
)
from headway.ports.provider import Provider
from headway.ports.statement import Operation, only_reads
from headway.ports.store import Capabilities, MigrationStatus
from headway.ports.transfer import Transfer
from headway.runtime.cancellation import Cancels
from headway.runtime.forks import Forkable
from headway.stores.drive import drive, drive_sync
from headway.stores.operation_retry import OperationRetry, once_more
from headway.stores.postgres.claim import PostgresClaim
from headway.stores.postgres.connection_reuse import ReusedConnections
from headway.stores.postgres.connection_timeouts import ConnectionTimeouts
from headway.stores.postgres.connections import (
    DRIVERS_ERRORS,
    WAIT_FOR_CONNECTION,
    PostgresRunner,
    PostgresSyncRunner,
    handler_pool,
    is_dead,
    is_lost_connection,
    is_refusal,
    is_transient,
    own_pool,
    sync_pool,
)
from headway.stores.postgres.dialect import PostgresDialect
from headway.stores.postgres.insert import PostgresInsert, PostgresJobRows
from headway.stores.postgres.manage import PostgresManage
from headway.stores.postgres.migrate import (
    PATIENCE,
    PATIENCE_AT_OPENING,
    TablesLocked,
    applied_migrations,
    apply_migrations,
    script,
)
from headway.stores.postgres.prune_bounds import PruneBounds
from headway.stores.postgres.reap_bounds import ReapBounds
from headway.stores.postgres.settle import PostgresSettle
from headway.stores.sql.audit import SqlAudit
from headway.stores.sql.caller_transaction import CallerTransactions, layers
from headway.stores.sql.find import SqlFind
from headway.stores.sql.insert import JobRows
from headway.stores.sql.limits import SqlLimits
from headway.stores.sql.read import SqlRead
from headway.stores.sql.schedules import SqlSchedules
from headway.stores.sql.sql_files import load_migrations
from headway.stores.sql.statistics import SqlStatistics
from headway.stores.sql.transfer import SqlTransfer
from headway.stores.sql.workers import SqlWorkers
from headway.stores.time_limits import LONGEST, TimeLimits

P = ParamSpec("P")
T = TypeVar("T")


class PostgresStore(
    PostgresInsert,
    PostgresClaim,
    SqlLimits,
    PostgresSettle,
    SqlRead,
    SqlFind,
    SqlStatistics,
    PostgresManage,
    SqlAudit,
    SqlWorkers,
    SqlSchedules,
    CallerTransactions,
    Forkable,
):
    """Jobs in a PostgreSQL schema of their own.

    A restarted server has ended all its connections, and a read-only one has become a standby. When
    a statement finds that, all pooled connections are dropped, and new ones go to the server that
    the DSN names now.
    """

    capabilities = Capabilities(durable=True, across_processes=True, transactions=True)

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "headway",
        connections: int = 8,
        retry: OperationRetry | None = None,
        providers: Sequence[Provider] = (),
    ) -> None:
        self._dialect = PostgresDialect(check_identifier("schema name", schema))
        self._sql = self._dialect.sql
        self._rows: JobRows = PostgresJobRows(self._dialect)
        self._claim_bounds = {}
        self._reap_bounds = ReapBounds()
        self._prune_bounds = PruneBounds()
        CallerTransactions.__init__(
            self,
            "postgresql",
            providers,
            "a psycopg, asyncpg, SQLAlchemy or Django connection, or a SQLAlchemy session",
        )
        self.name = describe(dsn)
        self._dsn = dsn
        self._schema = schema
        self._connections = connections
        self.transactions: int | None = connections
        self._operation_retry = retry or OperationRetry()
        self._migrations = load_migrations("headway.stores.postgres", f'"{schema}".')
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._own_pool: ReusedConnections | None = None
        self._handler_pool: AsyncConnectionPool[AsyncConnection[TupleRow]] | None = None
        self._sync_pool: ConnectionPool[Connection[TupleRow]] | None = None
        self._timeouts = ConnectionTimeouts()
        self._time_limits = TimeLimits()

    @property
    def transfer(self) -> Transfer:
        return SqlTransfer(self, self._dialect, self._identity)

    def __repr__(self) -> str:
        return f"<PostgresStore {self.name}, schema {self._schema}>"

    async def open(self, *, migrate: bool = False) -> None:
        if self._own_pool is not None:
            return
        if migrate:
            await self._migrate(PATIENCE_AT_OPENING)
        found = max(await self._applied(), default=0)
        needed = self._migrations[-1].version
        if found == 0:
            raise SchemaMissing(self.name)
        if found < needed:
            raise SchemaOutdated(self.name, found, needed)
        self._own_pool = ReusedConnections(own_pool(self._dsn, self._connections))
        self._handler_pool = handler_pool(self._dsn, self._connections)
        self._sync_pool = sync_pool(self._dsn, self._connections)
        await self._own_pool.open()
        await self._handler_pool.open()
        self._sync_pool.open()
        self._timeouts.start()

    async def close(self) -> None:
        own, handlers, sync = self._own_pool, self._handler_pool, self._sync_pool
        self._own_pool = self._handler_pool = self._sync_pool = None
        if own is not None:
            await own.close()
        if handlers is not None:
            await handlers.close()
        if sync is not None:
            sync.close()
        self._timeouts.stop()

    async def migrate(self) -> list[str]:
        return await self._migrate(PATIENCE)

    async def _migrate(self, patience: float) -> list[str]:
        try:
            return await apply_migrations(
                self._connect, self._schema, self._migrations, patience=patience
            )
        except psycopg.errors.InsufficientPrivilege as error:
            found = max(await self._applied(), default=0)
            command = f"headway migrate sql --after {found}" if found else "headway migrate sql"
            advice = f"grant that right, or have the output of `{command}` applied"
            raise StoreRefused(self.name, first_line(error), advice) from None
        except TablesLocked as error:
            raise StoreError(
                f"the Headway schema in {self.name} could not be brought up to date: {error}; "
                "end that transaction, or run `headway migrate up` before it begins"
            ) from error

    async def migration_status(self) -> list[MigrationStatus]:
        applied = await self._applied()
        return [
            MigrationStatus(migration.version, migration.name, applied.get(migration.version))
            for migration in self._migrations
        ]

    async def _applied(self) -> dict[int, datetime]:
        try:
            async with await self._connect() as connection:
                return await applied_migrations(connection, self._schema)
        except psycopg.errors.InsufficientPrivilege as error:
            raise self._explained(error) from None

    async def _identity(self) -> tuple[object, ...]:
        """A running server is identified by its start time, to the microsecond."""
        async with await self._connect() as connection:
            cursor = await connection.execute(
                "select pg_postmaster_start_time(), oid from pg_database"
                " where datname = current_database()"
            )
            return *(await cursor.fetchone() or ()), self._schema

    def migration_script(self, *, after: int = 0) -> str:
        return script(self._schema, [each for each in self._migrations if each.version > after])

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        limit = self._time_limits.of(operation, args) or LONGEST
        made = partial(operation, *args, **kwargs)

        async def attempt() -> T:
            nonlocal made
            if (pool := self._own_pool) is None:
                raise StoreClosed(self.name)
            connection = await pool.take(min(limit, WAIT_FOR_CONNECTION))
            try:
                with self._timeouts.within(limit, connection):
                    runner = PostgresRunner(connection, is_verb=self._is_verb(operation))
                    answer = await drive(made(), runner.execute)
                    await runner.end()
                return answer
            except BaseException as error:
                made = once_more(made)
                await connection.__aexit__(type(error), error, error.__traceback__)
                if is_dead(error):
                    await pool.drain()
                raise
            finally:
                await pool.put(connection)

        try:
            return await self._operation_retry.run(attempt, is_transient)
        except DRIVERS_ERRORS as error:
            raise self._explained(error) from error

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        limit = self._time_limits.of(operation, args) or LONGEST
        made = partial(operation, *args, **kwargs)

        def attempt() -> T:
            nonlocal made
            if (pool := self._sync_pool) is None:
                raise StoreClosed(self.name)
            try:
                with pool.connection(timeout=min(limit, WAIT_FOR_CONNECTION)) as connection:
                    with self._timeouts.within(limit, connection):
                        runner = PostgresSyncRunner(connection, is_verb=self._is_verb(operation))
                        answer = drive_sync(made(), runner.execute)
                        runner.end()
                    return answer
            except Exception as error:
                made = once_more(made)
                if is_dead(error):
                    pool.drain()
                raise

        try:
            return self._operation_retry.run_sync(attempt, is_transient)
        except DRIVERS_ERRORS as error:
            raise self._explained(error) from error

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        if (pool := self._handler_pool) is None:
            raise StoreClosed(self.name)
        ours = True  # whether an error comes from the store's begin or commit
        with Cancels() as cancels:
            try:
                async with AsyncExitStack() as opened:

                    async def attempt() -> AsyncConnection[TupleRow]:
                        try:
                            async with AsyncExitStack() as this:
                                connection = await this.enter_async_context(pool.connection())
                                await this.enter_async_context(connection.transaction())
                                opened.push_async_exit(this.pop_all())
                        except psycopg.Error as error:
                            if is_dead(error):
                                await pool.drain()
                            raise
                        return connection

                    connection = await self._operation_retry.run(attempt, is_transient)
                    ours = False
                    try:
                        yield connection
                    finally:
                        cancels.forget()
                    ours = True
            except (psycopg.Error, StoreUnreachable) as error:
                if is_dead(error) or (error.__cause__ is not None and is_dead(error.__cause__)):
                    await pool.drain()
                if ours and isinstance(error, psycopg.Error):
                    raise self._explained(error) from error
                raise

    def _is_verb(self, operation: Callable[..., Operation[Any]]) -> bool:
        """Whether the operation is a verb of the store: an operation that combines several verbs
        needs a transaction around them."""
        owner = getattr(operation, "__self__", None)
        return (
            owner is self
            or isinstance(owner, SqlTransfer)
            or only_reads(operation, lock=False)
            or hasattr(operation, "atomic_from_lock")
        )

    async def _connect(self) -> AsyncConnection[TupleRow]:
        try:
            return await AsyncConnection.connect(
                self._dsn,
                autocommit=True,
                prepare_threshold=None,  # a pooler would keep prepared statements for other clients
                **connect_arguments(self._dsn),
            )
        except psycopg.OperationalError as error:
            raise unreachable(self.name, error) from None

    def _explain(self, error: Exception) -> None:
        super()._explain(error)
        if any(map(is_lost_connection, layers(error))) and not isinstance(error, QueryCanceled):
            raise StoreUnreachable(self.name, first_line(error)) from error

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
            return SchemaMissing(self.name)
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return StoreRefused(self.name, first_line(error), "grant the user that right")
        if is_lost_connection(error):
            return StoreUnreachable(self.name, first_line(error))
        if is_refusal(error):
            return DataRefused(self.name, first_line(error))
        return error
