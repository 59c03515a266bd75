"""Starting jobs inside the caller's own transaction: rolled back means never existed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from headway.domain.job import NewJob
from headway.domain.queries import JobFilter
from headway.errors import ConfigurationError
from headway.jobs.ids import new_id
from headway.ports.store import Store
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore
from tests.support.stores import opened


def new_job() -> NewJob:
    return NewJob(id=new_id(), type="charge", input="{}")


async def stored(store: Store) -> int:
    return len((await store.run(store.find, JobFilter())).jobs)


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(PostgresStore(postgres_url)) as store:
        yield store


@pytest.fixture
async def sqlite(sqlite_path: Path) -> AsyncIterator[SqliteStore]:
    async with opened(SqliteStore(sqlite_path)) as store:
        yield store


class Rollback(Exception):
    pass


async def test_psycopg_async(postgres: PostgresStore, postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        with pytest.raises(Rollback):
            async with connection.transaction():
                await connection.execute("create table orders (id int)")
                await postgres.run_in(connection, postgres.insert, [new_job()])
                raise Rollback
        assert await stored(postgres) == 0
        async with connection.transaction():
            await postgres.run_in(connection, postgres.insert, [new_job()])
            assert await stored(postgres) == 0  # not seen by others before the commit
    assert await stored(postgres) == 1


async def test_psycopg_async_savepoint(postgres: PostgresStore, postgres_url: str) -> None:
    opened = await psycopg.AsyncConnection.connect(postgres_url)
    async with opened as connection, connection.transaction():
        await postgres.run_in(connection, postgres.insert, [new_job()])
        with pytest.raises(Rollback):
            async with connection.transaction():
                await postgres.run_in(connection, postgres.insert, [new_job()])
                raise Rollback
    assert await stored(postgres) == 1


async def test_psycopg_sync(postgres: PostgresStore, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        postgres.run_in_sync(connection, postgres.insert, [new_job()])
        connection.rollback()
        assert await stored(postgres) == 0
        postgres.run_in_sync(connection, postgres.insert, [new_job()])
        connection.commit()
    assert await stored(postgres) == 1


async def test_the_users_settings_are_left_alone(
    postgres: PostgresStore, postgres_url: str
) -> None:
    with psycopg.Connection[DictRow].connect(postgres_url, row_factory=dict_row) as connection:
        asked = "select current_setting('enable_seqscan') a, current_setting('timezone') b"
        connection.execute("set timezone = 'Asia/Tokyo'")
        before = connection.execute(asked).fetchone()
        answers = postgres.run_in_sync(connection, postgres.insert, [new_job()])
        record = postgres.run_in_sync(connection, postgres.get, [answers[0].id])[0]
        assert connection.execute(asked).fetchone() == before
        assert record is not None
        assert record.run_at == answers[0].run_at
        assert record.run_at.utcoffset() is not None
        assert str(record.run_at.tzinfo) == "UTC"


async def test_asyncpg(postgres: PostgresStore, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        with pytest.raises(Rollback):
            async with connection.transaction():
                await postgres.run_in(connection, postgres.insert, [new_job()])
                raise Rollback
        assert await stored(postgres) == 0
        async with connection.transaction():
            await postgres.run_in(connection, postgres.insert, [new_job()])
        assert await stored(postgres) == 1
        with pytest.raises(ConfigurationError, match="without an open transaction"):
            await postgres.run_in(connection, postgres.insert, [new_job()])
    finally:
        await connection.close()


async def test_asyncpg_pool_connection(postgres: PostgresStore, postgres_url: str) -> None:
    async with (
        asyncpg.create_pool(postgres_url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await postgres.run_in(connection, postgres.insert, [new_job()])
    assert await stored(postgres) == 1


async def test_autocommit_without_transaction_is_refused(
    postgres: PostgresStore, postgres_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as connection:
        with pytest.raises(ConfigurationError, match="autocommit"):
            await postgres.run_in(connection, postgres.insert, [new_job()])
    assert await stored(postgres) == 0


async def test_sqlite3(sqlite: SqliteStore, sqlite_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.execute("create table orders (id)")
        await sqlite.run_in(connection, sqlite.insert, [new_job()])
        connection.rollback()
        assert await stored(sqlite) == 0
        connection.execute("insert into orders values (1)")
        await sqlite.run_in(connection, sqlite.insert, [new_job()])
        connection.commit()
    assert await stored(sqlite) == 1


async def test_a_proxy_around_a_connection(sqlite: SqliteStore, sqlite_path: Path) -> None:
    """As tracing libraries wrap connections."""

    class Proxy:
        def __init__(self, wrapped: sqlite3.Connection) -> None:
            self.wrapped = wrapped

        @property
        def __class__(self) -> type[Any]:  # type: ignore[override]
            return type(self.wrapped)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.wrapped, name)

    with closing(sqlite3.connect(sqlite_path)) as connection:
        await sqlite.run_in(Proxy(connection), sqlite.insert, [new_job()])
        connection.commit()
    assert await stored(sqlite) == 1


async def test_sqlite3_without_automatic_transactions(
    sqlite: SqliteStore, sqlite_path: Path
) -> None:
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        with pytest.raises(ConfigurationError, match="begin immediate"):
            await sqlite.run_in(connection, sqlite.insert, [new_job()])
        connection.execute("begin immediate")
        await sqlite.run_in(connection, sqlite.insert, [new_job()])
        connection.execute("rollback")
    assert await stored(sqlite) == 0


async def test_a_foreign_object_is_refused(postgres: PostgresStore, sqlite: SqliteStore) -> None:
    for store in (postgres, sqlite):
        with pytest.raises(ConfigurationError, match="cannot be used with"):
            await store.run_in(object(), store.insert, [new_job()])
