"""The SQLite store: one file, a thread that writes, one that reads, and handlers' transactions."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from headway.domain.errors import (
    ConfigurationError,
    SchemaMissing,
    SchemaOutdated,
    StoreClosed,
    StoreUnreachable,
)
from headway.domain.names import check_identifier
from headway.ports.provider import Provider
from headway.ports.statement import Operation, only_reads
from headway.ports.store import Capabilities, MigrationStatus
from headway.providers.sqlite3 import Sqlite3
from headway.stores.sql.dialect import maybe_time
from headway.stores.sql.files import Migration, load_migrations
from headway.stores.sql.joining import Joining
from headway.stores.sqlite.busy import begin_immediate, retry_while_busy, wait_while_busy
from headway.stores.sqlite.operations import SqliteOperations
from headway.stores.sqlite.threads import ConnectionThread
from headway.stores.sqlite.turns import Turns

P = ParamSpec("P")
T = TypeVar("T")

OLDEST_SQLITE = (3, 35, 0)  # the first with RETURNING


class SqliteStore(SqliteOperations, Joining):
    """Jobs in an SQLite file, under a table prefix of their own."""

    capabilities = Capabilities(
        durable=True, across_processes=True, transactions=True, one_writer=True, movable=True
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
        SqliteOperations.__init__(self, check_identifier("table prefix", prefix) if prefix else "")
        Joining.__init__(
            self,
            "sqlite",
            (*providers, Sqlite3()),
            "a sqlite3, aiosqlite, SQLAlchemy or Django connection to the same file, "
            "or a SQLAlchemy session",
        )
        self.name = f"SQLite file {path}"
        self._path = str(path)
        self._prefix = prefix
        self._busy_for = busy_for
        self._migrations = load_migrations("headway.stores.sqlite", prefix)
        self._turns = Turns()
        self._writer: ConnectionThread | None = None
        self._reader: ConnectionThread | None = None

    def __repr__(self) -> str:
        return f"<SqliteStore {self._path}>"

    async def open(self) -> None:
        if self._writer is None:
            await asyncio.to_thread(self._check_schema)
            self._writer, self._reader = (
                ConnectionThread(self._connect, self.name, self._busy_for, turns)
                for turns in (self._turns, None)
            )

    async def close(self) -> None:
        threads = (self._writer, self._reader)
        self._writer = self._reader = None
        for thread in threads:
            if thread is not None:
                try:
                    await asyncio.to_thread(thread.close)
                except RuntimeError:  # the interpreter is ending, and starts no more threads
                    thread.close()

    async def migrate(self) -> list[str]:
        return await asyncio.to_thread(self._migrate)

    async def migration_status(self) -> list[MigrationStatus]:
        return await asyncio.to_thread(self._status)

    def migration_script(self) -> str:
        parts = ["begin immediate;", prelude(self._prefix)]
        for migration in self._migrations:
            parts += [
                f"-- {migration.name}",
                migration.sql,
                (
                    f"insert into {self._prefix}migration values "
                    f"({migration.version}, '{migration.name}', unixepoch() * 1000000);"
                ),
            ]
        return "\n".join([*parts, "commit;", ""])

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await asyncio.wrap_future(self._submit(operation, *args, **kwargs))

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return self._submit(operation, *args, **kwargs).result()

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
        connection = await asyncio.to_thread(self._connect)
        try:
            # Waiting in threads would use them all up, and leave none for whoever is to commit.
            async with self._turns.awaited(self._busy_for):
                await wait_while_busy(lambda: connection.execute("begin immediate"), self._busy_for)
                try:
                    yield connection
                except BaseException:
                    connection.rollback()
                    raise
                await asyncio.to_thread(retry_while_busy, connection.commit, self._busy_for)
        finally:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self._path, isolation_level=None, timeout=0, check_same_thread=False
            )
            retry_while_busy(
                lambda: connection.execute("pragma journal_mode = wal"), self._busy_for
            )
        except sqlite3.Error as error:
            raise StoreUnreachable(self.name, str(error)) from None
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        return connection

    def _applied(self, connection: sqlite3.Connection) -> dict[int, int]:
        table = f"{self._prefix}migration"
        exists = connection.execute(
            "select 1 from sqlite_master where type = 'table' and name = ?", (table,)
        ).fetchone()
        if not exists:
            return {}
        return dict(connection.execute(f"select version, applied_at from {table}").fetchall())

    def _check_schema(self) -> None:
        with closing(self._connect()) as connection:
            found = max(self._applied(connection), default=0)
        needed = self._migrations[-1].version
        if found == 0:
            raise SchemaMissing(self.name)
        if found < needed:
            raise SchemaOutdated(self.name, found, needed)

    def _migrate(self) -> list[str]:
        with closing(self._connect()) as connection:
            if self._applied(connection).keys() >= {step.version for step in self._migrations}:
                return []  # without the lock: who opens may hold it, in a transaction of theirs
            begin_immediate(connection, self._busy_for)
            try:
                missing = self._apply_missing(connection)
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
        return [migration.name for migration in missing]

    def _apply_missing(self, connection: sqlite3.Connection) -> list[Migration]:
        for statement in split(prelude(self._prefix)):
            connection.execute(statement)
        done = self._applied(connection)
        missing = [migration for migration in self._migrations if migration.version not in done]
        for migration in missing:
            for statement in split(migration.sql):
                connection.execute(statement)
            connection.execute(
                f"insert into {self._prefix}migration (version, name, applied_at) values (?, ?, ?)",
                (migration.version, migration.name, self._dialect.now(None)),
            )
        return missing

    def _status(self) -> list[MigrationStatus]:
        applied: dict[int, int] = {}
        if Path(self._path).exists():  # asking must not make the file
            with closing(self._connect()) as connection:
                applied = self._applied(connection)
        return [
            MigrationStatus(
                migration.version,
                migration.name,
                maybe_time(self._dialect, applied.get(migration.version)),
            )
            for migration in self._migrations
        ]


def prelude(prefix: str) -> str:
    return (
        f"create table if not exists {prefix}migration (\n"
        "    version integer primary key,\n"
        "    name text not null,\n"
        "    applied_at integer not null\n"
        ");\n"
    )


def split(script: str) -> list[str]:
    """The statements of a script; executescript would commit the transaction under way."""
    statements: list[str] = []
    rest = ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            statements.append(rest)
            rest = ""
    return statements
