"""The SQLite store: one file, a writing thread, a reading thread, and handlers' transactions."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from headway.domain.validation import check_identifier
from headway.drivers.sqlite import execute
from headway.errors import (
    ConfigurationError,
    DataRefused,
    SchemaMissing,
    SchemaOutdated,
    StoreClosed,
    StoreError,
    StoreRefused,
)
from headway.ports.provider import Provider
from headway.ports.statement import Operation, Statement, only_reads
from headway.ports.store import Capabilities, MigrationStatus
from headway.ports.transfer import Transfer
from headway.runtime.forks import Forkable
from headway.stores.drive import drive_sync
from headway.stores.sql.audit import SqlAudit
from headway.stores.sql.caller_transaction import CallerTransactions
from headway.stores.sql.dialect import maybe_time
from headway.stores.sql.find import SqlFind
from headway.stores.sql.insert import JobRows, SqlInsert
from headway.stores.sql.limits import SqlLimits
from headway.stores.sql.read import SqlRead
from headway.stores.sql.schedules import SqlSchedules
from headway.stores.sql.sql_files import load_migrations
from headway.stores.sql.statistics import SqlStatistics
from headway.stores.sql.transfer import SqlTransfer
from headway.stores.sql.workers import SqlWorkers
from headway.stores.sqlite.claim import SqliteClaim
from headway.stores.sqlite.dialect import SqliteDialect
from headway.stores.sqlite.insert import SqliteJobRows
from headway.stores.sqlite.manage import SqliteManage
from headway.stores.sqlite.migrate import applied_migrations, apply_migrations, script
from headway.stores.sqlite.settle import SqliteSettle
from headway.stores.sqlite.threads import ConnectionThread, in_own_thread
from headway.stores.sqlite.write_lock import (
    begin_immediate,
    is_busy,
    retry_while_busy,
    wait_while_busy,
)
from headway.stores.sqlite.write_turns import WriteTurns

P = ParamSpec("P")
T = TypeVar("T")

REFUSALS = (sqlite3.DataError, sqlite3.IntegrityError, UnicodeError, OverflowError)
"""Errors by the data: text that SQLite cannot hold, a number out of range, too much data."""
WAIT_BEFORE_FORK = 5.0
"""Seconds that a fork waits for running operations."""
OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING

_spoiled: set[str] = set()
"""Files to which connections were open when this process was forked."""


class SqliteStore(
    SqlInsert,
    SqliteClaim,
    SqlLimits,
    SqliteSettle,
    SqlRead,
    SqlFind,
    SqlStatistics,
    SqliteManage,
    SqlAudit,
    SqlWorkers,
    SqlSchedules,
    CallerTransactions,
    Forkable,
):
    """Jobs in an SQLite file, under a table prefix of their own."""

    capabilities = Capabilities(
        durable=True, across_processes=True, transactions=True, one_writer=True
    )
    transactions: int | None = 1

    def __init__(
        self,
        path: str | Path,
        *,
        prefix: str = "headway_",
        busy_for: float = 30.0,
        providers: Sequence[Provider] = (),
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise ConfigurationError(
                f"Python's SQLite is {sqlite3.sqlite_version}; Headway needs 3.35 or later"
            )
        self._dialect = SqliteDialect(check_identifier("table prefix", prefix) if prefix else "")
        self._sql = self._dialect.sql
        self._rows: JobRows = SqliteJobRows(self._dialect)
        CallerTransactions.__init__(
            self,
            "sqlite",
            providers,
            "a sqlite3, aiosqlite, SQLAlchemy or Django connection to the same file, "
            "or a SQLAlchemy session",
        )
        self.name = f"SQLite file {path}"
        self.path = str(path)
        self._prefix = prefix
        self._busy_for = busy_for
        self._migrations = load_migrations("headway.stores.sqlite", prefix)
        self._turns = WriteTurns()
        self._writer: ConnectionThread | None = None
        self._reader: ConnectionThread | None = None
        self._others: set[sqlite3.Connection] = set()
        """Connections that do not belong to one of the threads."""
        self._leaving: list[ConnectionThread] = []
        """Threads of a closed store that may still run operations."""
        self._rests = True
        """Whether no connection is open while the process is forked."""
        self._migrates = False
        self._schema_checked = True
        """False while a store is open that found its file locked and could not look."""
        self._forget_forks()
        self.watch_forks()

    # SQLite keeps the locks of its connections in the process's memory. A forked child would take
    # its parent's locks for its own and write without locking, so no connection may be open.

    def _forget_forks(self) -> None:
        self._may_connect = threading.Condition()
        self._forking = False
        self._connecting = 0
        """Number of connections that are being opened, besides those of the threads."""

    def before_fork(self) -> None:
        with self._may_connect:  # else one could be opened between this and the fork
            self._forking = True
        resting = [thread.rest(WAIT_BEFORE_FORK) for thread in self._threads()]
        self._rests = all(resting) and not self._connecting and not self._others

    def after_fork(self) -> None:
        for thread in self._threads():
            thread.go_on()
        with self._may_connect:
            self._forking = False
            self._may_connect.notify_all()

    def in_child(self) -> None:
        self._turns = WriteTurns()
        self._writer = self._reader = None
        self._others = set()
        self._leaving = []
        self._forget_forks()
        if not self._rests:
            _spoiled.add(os.path.realpath(self.path))

    def _threads(self) -> list[ConnectionThread]:
        known = (self._writer, self._reader, *self._leaving)
        return [thread for thread in known if thread is not None]

    @property
    def transfer(self) -> Transfer:
        return SqlTransfer(self, self._dialect, partial(asyncio.to_thread, self._identity))

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}>"

    async def open(self, *, migrate: bool = False) -> None:
        """Waits for no lock: the caller may hold it, in a transaction of its own."""
        if self._writer is None:
            self._migrates, self._schema_checked = migrate, False
            await asyncio.to_thread(self._check_schema_at_once)
            self._writer, self._reader = (
                ConnectionThread(self._connect_checked, self.name, self._busy_for, turns)
                for turns in (self._turns, None)
            )

    async def close(self) -> None:
        threads = [thread for thread in (self._writer, self._reader) if thread is not None]
        self._leaving += threads
        self._writer = self._reader = None
        for thread in threads:
            await asyncio.to_thread(self._end, thread)

    def _end(self, thread: ConnectionThread) -> None:
        thread.close()
        self._leaving.remove(thread)

    async def migrate(self) -> list[str]:
        def migrate() -> list[str]:
            with self._connected(self._busy_for) as connection:
                return self._migrate(connection, self._busy_for)

        return await asyncio.to_thread(migrate)

    async def migration_status(self) -> list[MigrationStatus]:
        return await asyncio.to_thread(self._status)

    def migration_script(self, *, after: int = 0) -> str:
        return script(self._prefix, [each for each in self._migrations if each.version > after])

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            return await asyncio.wrap_future(self._submit(operation, *args, **kwargs))
        except REFUSALS as error:
            raise DataRefused(self.name, str(error)) from error

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            return self._submit(operation, *args, **kwargs).result()
        except REFUSALS as error:
            raise DataRefused(self.name, str(error)) from error

    def _submit(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        thread = self._reader if only_reads(operation, kwargs.get("lock")) else self._writer
        if thread is None:
            raise StoreClosed(self.name)
        return thread.submit(partial(operation, *args, **kwargs))

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[sqlite3.Connection]:
        """A connection of its own that holds the write lock until the block is left."""
        if self._writer is None:
            raise StoreClosed(self.name)
        connecting = asyncio.get_running_loop().run_in_executor(
            None, self._connect_apart, self._connect_checked
        )
        try:
            connection = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(self._put_away)  # the thread goes on, and opens it
            raise
        try:
            # Waiting in threads could use all of them, and leave none for the commit.
            async with self._turns.awaited(self._busy_for):
                await wait_while_busy(lambda: connection.execute("begin immediate"), self._busy_for)
                try:
                    yield connection
                except BaseException:
                    if connection in self._others:  # else it is our parent's, who goes on with it
                        connection.rollback()
                    raise
                await in_own_thread(lambda: retry_while_busy(connection.commit, self._busy_for))
        finally:
            self._let_go(connection)

    def _put_away(self, connecting: asyncio.Future[sqlite3.Connection]) -> None:
        """Close a connection whose caller was cancelled."""
        if not connecting.cancelled() and connecting.exception() is None:
            self._let_go(connecting.result())

    def _let_go(self, connection: sqlite3.Connection) -> None:
        if connection in self._others:
            connection.close()
            self._others.discard(connection)

    @contextmanager
    def _connected(self, busy_for: float) -> Generator[sqlite3.Connection]:
        """A connection for a moment."""
        connection = self._connect_apart(partial(self._connect, busy_for))
        try:
            yield connection
        finally:
            connection.close()
            self._others.discard(connection)

    def _connect_apart(self, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
        with self._may_connect:
            while self._forking:
                self._may_connect.wait()
            self._connecting += 1
        try:
            connection = connect()
            self._others.add(connection)
            return connection
        finally:
            with self._may_connect:
                self._connecting -= 1

    def _connect_checked(self, give_up_at: Callable[[], float] | None = None) -> sqlite3.Connection:
        """A connection to a file with an up-to-date schema."""
        connection = self._connect(self._busy_for, give_up_at)
        try:
            self._check_schema(connection, self._busy_for, give_up_at)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(
        self, busy_for: float, give_up_at: Callable[[], float] | None = None
    ) -> sqlite3.Connection:
        if os.path.realpath(self.path) in _spoiled:
            raise StoreError(
                f"the {self.name} was in use when this process was forked, and SQLite does not "
                "survive that; fork while no transaction is open, or start the process afresh "
                '(multiprocessing.get_context("spawn"))'
            )
        try:
            self._make_file()
            connection = sqlite3.connect(
                self.path, isolation_level=None, timeout=0, check_same_thread=False
            )
        except (sqlite3.Error, OSError) as error:
            raise self._refused(error) from None
        try:
            retry_while_busy(
                lambda: connection.execute("pragma journal_mode = wal"), busy_for, give_up_at
            )
        except sqlite3.Error as error:
            connection.close()
            raise self._refused(error) from None
        except BaseException:
            connection.close()
            raise
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        return connection

    def _identity(self) -> tuple[object, ...]:
        """Device and inode of the file, the same for all its links; the path of a file that does
        not exist yet."""
        path = Path(self.path)
        try:
            file = path.stat()
        except OSError:
            return str(path.resolve()), self._prefix
        return file.st_dev, file.st_ino, self._prefix

    def _make_file(self) -> None:
        """Create a missing file, readable by its owner alone, because it holds payloads. SQLite's
        files beside it get the same permissions."""
        path = os.path.realpath(self.path)
        with suppress(FileExistsError):  # closing one that is there would let go of its locks
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def _refused(self, error: sqlite3.Error | OSError) -> StoreRefused:
        """The error that says why the file cannot be opened."""
        path = Path(self.path)
        directory = path.absolute().parent
        if not directory.is_dir():
            cause = f"there is no directory {directory}"
            advice = "create it, or name another path"
        elif path.is_dir():
            cause, advice = "it is a directory", "name a file in it"
        elif getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            cause, advice = "it is not an SQLite database", "name another file"
        elif path.exists() and not os.access(path, os.R_OK | os.W_OK):
            cause = "this process may not read and write it"
            advice = "change the permissions of the file"
        elif not os.access(directory, os.W_OK | os.X_OK):
            cause = f"this process may not create files in {directory}"
            advice = "change the permissions of the directory"
        else:
            cause, advice = str(error), "check the path and the disk"
        return StoreRefused(self.name, cause, advice)

    def _check_schema_at_once(self) -> None:
        """Unless the file is locked: then the first connection checks the schema, or the
        operation in the transaction that has the lock."""
        try:
            with self._connected(0) as connection:
                self._check_schema(connection, 0)
        except (sqlite3.OperationalError, StoreError) as error:
            if not is_busy(error) and not is_busy(error.__cause__):
                raise

    def _check_schema(
        self,
        connection: sqlite3.Connection,
        busy_for: float,
        give_up_at: Callable[[], float] | None = None,
    ) -> None:
        if self._schema_checked:
            return
        if self._migrates:
            self._migrate(connection, busy_for, give_up_at)
        found = max(self._applied(connection), default=0)
        needed = self._migrations[-1].version
        if found == 0:
            raise SchemaMissing(self.name)
        if found < needed:
            raise SchemaOutdated(self.name, found, needed)
        self._schema_checked = True

    def _prepared(self, operation: Operation[T]) -> Operation[T]:
        must_migrate = self._migrates and not self._schema_checked
        return self._migrated_first(operation) if must_migrate else operation

    def _migrated_first(self, operation: Operation[T]) -> Operation[T]:
        """In the caller's transaction: after a rollback the next operation migrates again."""
        ((file,),) = yield Statement("select file from pragma_database_list where name = 'main'")
        if not (file and Path(file).samefile(self.path)):
            raise ConfigurationError(
                f"tx= is a connection to {file or 'a database in memory'}, and the jobs are in "
                f"{self.name}; pass a connection to that file"
            )
        yield from self._apply_migrations()
        return (yield from operation)

    def _explain(self, error: Exception) -> None:
        try:
            super()._explain(error)
        except SchemaMissing as missing:
            if self._writer is None or not self._schema_checked:
                raise
            raise StoreError(
                f"tx= does not see Headway's tables in {self.name}: its transaction began before "
                "they were made, or it is a connection to another file; roll back and begin again, "
                "or pass a connection to that file"
            ) from missing.__cause__

    def _migrate(
        self,
        connection: sqlite3.Connection,
        busy_for: float,
        give_up_at: Callable[[], float] | None = None,
    ) -> list[str]:
        if self._applied(connection).keys() >= {step.version for step in self._migrations}:
            return []  # without the lock, which somebody may hold for long
        begin_immediate(connection, busy_for, give_up_at)
        try:
            applied = drive_sync(self._apply_migrations(), partial(execute, connection))
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
        return applied

    def _apply_migrations(self) -> Operation[list[str]]:
        return apply_migrations(self._prefix, self._migrations, self._dialect.now(None))

    def _applied(self, connection: sqlite3.Connection) -> dict[int, int]:
        return drive_sync(applied_migrations(self._prefix), partial(execute, connection))

    def _status(self) -> list[MigrationStatus]:
        applied: dict[int, int] = {}
        if Path(self.path).exists():  # asking must not make the file
            with self._connected(self._busy_for) as connection:
                applied = self._applied(connection)
        return [
            MigrationStatus(
                migration.version,
                migration.name,
                maybe_time(self._dialect, applied.get(migration.version)),
            )
            for migration in self._migrations
        ]
