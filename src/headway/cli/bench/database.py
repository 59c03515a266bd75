"""The database of a benchmark: a schema, a file or a memory store of its own."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, unquote

from headway.app import Headway
from headway.errors import ConfigurationError

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

SCHEMA = "headway_bench"


class BenchDatabase(Protocol):
    """An empty store. Its methods block; none of them is called while jobs run."""

    dsn: str
    schema: str
    separate: bool
    """Worker processes can reach it."""

    def describe(self) -> dict[str, str]:
        """What it is, and how it keeps what is written."""
        ...

    def settle(self) -> None:
        """Start each measurement from the same state: statistics taken, nothing to flush."""
        ...

    def clear(self) -> None: ...

    def drained(self) -> tuple[int, float]:
        """Jobs completed, and seconds from the first claim to the last completion, by the times
        that the store recorded."""
        ...


def app_on(database: BenchDatabase) -> Headway:
    return Headway(database.dsn, schema=database.schema, migrate=True)


def existing_database(dsn: str, schema: str) -> BenchDatabase:
    """A database that exists already."""
    return SqliteBench(dsn) if dsn.startswith("sqlite:") else PostgresBench(dsn, schema)


@asynccontextmanager
async def bench_database(dsn: str) -> AsyncGenerator[BenchDatabase]:
    """A database in the database that the DSN names; gone afterwards, whatever happens.

    Raises ConfigurationError if it cannot be had.
    """
    scheme, separator, rest = dsn.partition("://")
    if not separator:
        raise ConfigurationError(
            "name the database by a URL: postgresql://…, sqlite:///shop.db or memory://"
        )
    if scheme == "memory":
        yield MemoryBench()
    elif scheme == "sqlite":
        beside = Path(unquote(rest.removeprefix("/"))).parent
        try:
            folder = tempfile.mkdtemp(prefix=".headway-bench-", dir=beside)
        except OSError as error:
            raise ConfigurationError(f"no file can be made in {beside}: {error}") from error
        try:
            yield SqliteBench(f"sqlite:///{quote(folder)}/bench.db")
        finally:
            await asyncio.to_thread(shutil.rmtree, folder)
    else:
        Headway(dsn)  # says what is wrong with it
        from headway.cli.bench.schema import own_schema  # noqa: PLC0415 - its driver is an extra

        async with own_schema(dsn, SCHEMA):
            yield PostgresBench(dsn, SCHEMA)


class PostgresBench:
    separate = True

    def __init__(self, dsn: str, schema: str = "headway") -> None:
        self.dsn = dsn
        self.schema = schema

    def describe(self) -> dict[str, str]:
        names = ("server_version", "fsync", "synchronous_commit", "full_page_writes")
        found = self._ask("select " + ", ".join(f"current_setting('{name}')" for name in names))
        about = {name: str(value) for name, value in zip(names, found, strict=True)}
        return {"store": f"PostgreSQL {about.pop('server_version')}", **about}

    def settle(self) -> None:
        # A checkpoint is the server's business, and not everybody may ask for one.
        self._run(f'vacuum analyze "{self.schema}".job')

    def clear(self) -> None:
        self._run(f'truncate "{self.schema}".job')

    def drained(self) -> tuple[int, float]:
        count, seconds = self._ask(
            "select count(*), extract(epoch from max(finished_at) - min(started_at))::float8"
            f" from \"{self.schema}\".job where state = 'completed'"
        )
        return int(str(count)), float(str(seconds or 0))

    def _run(self, sql: str) -> None:
        with self._connect() as connection:
            connection.execute(sql.encode())

    def _ask(self, sql: str) -> tuple[object, ...]:
        with self._connect() as connection:
            return connection.execute(sql.encode()).fetchone() or ()

    def _connect(self) -> Connection[TupleRow]:
        import psycopg  # noqa: PLC0415 - an extra

        from headway.drivers.postgres_dsn import connect_arguments  # noqa: PLC0415 - needs it

        return psycopg.connect(self.dsn, autocommit=True, **connect_arguments(self.dsn))


class SqliteBench:
    separate = True
    schema = "headway"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    @property
    def path(self) -> str:
        return unquote(self.dsn.removeprefix("sqlite:///"))

    def describe(self) -> dict[str, str]:
        return {
            "store": f"SQLite {sqlite3.sqlite_version}",
            "journal_mode": "wal",
            "synchronous": "full",
        }

    def settle(self) -> None: ...

    def clear(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("delete from headway_job")

    def drained(self) -> tuple[int, float]:
        with closing(sqlite3.connect(self.path)) as connection:
            count, seconds = connection.execute(
                "select count(*), (max(finished_at) - min(started_at)) / 1e6"
                " from headway_job where state = 'completed'"
            ).fetchone()
        return int(count), float(seconds or 0)


class MemoryBench:
    """Jobs live in the app: each measurement makes a new one."""

    dsn = "memory://"
    schema = "headway"
    separate = False

    def describe(self) -> dict[str, str]:
        return {"store": "memory"}

    def settle(self) -> None: ...

    def clear(self) -> None: ...

    def drained(self) -> tuple[int, float]:
        raise NotImplementedError("the process that runs the worker measures the time")
