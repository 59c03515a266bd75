"""Every kind of connection that can be passed as `tx`, on a real database."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import asyncpg
import django
import psycopg
import pytest
from django.conf import settings as django_settings
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import atomic
from django.db.utils import ConnectionHandler
from psycopg.rows import dict_row
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from headway.testing.conformance.provider import Subject

PREPARED = "select name from pg_prepared_statements"
SETTINGS = "select name, setting from pg_settings where name <> 'transaction_read_only' order by 1"


if not django_settings.configured:
    django_settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()


def psycopg_async(url: str, _: Path) -> Subject:
    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        options: Any = {"row_factory": dict_row, "prepare_threshold": None}
        async with (
            await psycopg.AsyncConnection.connect(url, **options) as connection,
            connection.transaction(),
        ):
            yield connection

    @asynccontextmanager
    async def unsafe() -> AsyncIterator[Any]:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            yield connection

    async def execute(tx: psycopg.AsyncConnection[Any], sql: str) -> list[Any]:
        cursor = await tx.execute(sql.encode())
        return [row.values() for row in await cursor.fetchall()] if cursor.description else []

    async def look(tx: psycopg.AsyncConnection[Any]) -> object:
        rows = [await execute(tx, sql) for sql in (PREPARED, SETTINGS)]
        return [list(map(tuple, found)) for found in rows], tx.row_factory, tx.autocommit

    return Subject(url, transaction, execute, lambda tx: tx.transaction(), look, unsafe)


def psycopg_sync(url: str, _: Path) -> Subject:
    @contextmanager
    def transaction() -> Iterator[Any]:
        options: Any = {"row_factory": dict_row, "prepare_threshold": None}
        with psycopg.connect(url, **options) as connection, connection.transaction():
            yield connection

    def execute(tx: psycopg.Connection[Any], sql: str) -> list[Any]:
        cursor = tx.execute(sql.encode())
        return [row.values() for row in cursor] if cursor.description else []

    def look(tx: psycopg.Connection[Any]) -> object:
        rows = [list(map(tuple, execute(tx, sql))) for sql in (PREPARED, SETTINGS)]
        return rows, tx.row_factory, tx.isolation_level, tx.autocommit

    return Subject(
        url,
        transaction,
        execute,
        lambda tx: tx.transaction(),
        look,
        lambda: psycopg.connect(url, autocommit=True),
    )


def asyncpg_connection(url: str, _: Path) -> Subject:
    @asynccontextmanager
    async def unsafe() -> AsyncIterator[Any]:
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            yield connection
        finally:
            await connection.close()

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        async with unsafe() as connection, connection.transaction(isolation="repeatable_read"):
            yield connection

    async def execute(tx: Any, sql: str) -> list[Any]:
        return [row.values() for row in await tx.fetch(sql)]

    async def look(tx: Any) -> object:
        return [[tuple(row) for row in await execute(tx, sql)] for sql in (PREPARED, SETTINGS)]

    return Subject(url, transaction, execute, lambda tx: tx.transaction(), look, unsafe)


def sqlite3_connection(url: str, path: Path) -> Subject:
    @contextmanager
    def transaction() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(path)
        connection.row_factory = sqlite3.Row
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    @contextmanager
    def savepoint(tx: sqlite3.Connection) -> Iterator[None]:
        if not tx.in_transaction:
            tx.execute("begin")
        with _savepoint(tx.execute):
            yield

    @contextmanager
    def unsafe() -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    def execute(tx: sqlite3.Connection, sql: str) -> list[Any]:
        return tx.execute(sql).fetchall()

    def look(tx: sqlite3.Connection) -> object:
        settings = [tuple(row) for row in tx.execute("pragma foreign_keys")]
        return settings, tx.row_factory, tx.text_factory, tx.isolation_level

    return Subject(url, transaction, execute, savepoint, look, unsafe)


def aiosqlite_connection(url: str, path: Path) -> Subject:
    @asynccontextmanager
    async def transaction() -> AsyncIterator[aiosqlite.Connection]:
        async with aiosqlite.connect(path) as connection:
            connection.row_factory = sqlite3.Row
            try:
                yield connection
            except BaseException:
                await connection.rollback()
                raise
            await connection.commit()

    @asynccontextmanager
    async def savepoint(tx: aiosqlite.Connection) -> AsyncIterator[None]:
        if not tx.in_transaction:
            await tx.execute("begin")
        await tx.execute("savepoint inside")
        try:
            yield
        except BaseException:
            await tx.execute("rollback to inside")
            await tx.execute("release inside")
            raise
        await tx.execute("release inside")

    async def execute(tx: aiosqlite.Connection, sql: str) -> list[Any]:
        return list(await tx.execute_fetchall(sql))

    def look(tx: aiosqlite.Connection) -> object:
        return tx.row_factory, tx.text_factory, tx.isolation_level

    return Subject(
        url,
        transaction,
        execute,
        savepoint,
        look,
        lambda: aiosqlite.connect(path, isolation_level=None),
    )


@contextmanager
def _savepoint(execute: Callable[[str], object]) -> Iterator[None]:
    execute("savepoint inside")
    try:
        yield
    except BaseException:
        execute("rollback to inside")
        execute("release inside")
        raise
    execute("release inside")


def with_begin(engine: Engine) -> None:
    """SQLAlchemy's recipe for savepoints on SQLite: begin for oneself, not when Python thinks."""

    @event.listens_for(engine, "connect")
    def _(connection: Any, _: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _(connection: Connection) -> None:
        connection.exec_driver_sql("begin")


def sqlalchemy_url(url: str, driver: str) -> str:
    return make_url(url).set(drivername=driver).render_as_string()


def sqlalchemy_sync(driver: str, kind: type[Session] | type[Connection]) -> Any:
    def subject(url: str, _: Path) -> Subject:
        @contextmanager
        def transaction(**options: Any) -> Iterator[Session | Connection]:
            engine = create_engine(sqlalchemy_url(url, driver), **options)
            if driver.startswith("sqlite") and not options:
                with_begin(engine)
            try:
                if kind is Connection:
                    with engine.begin() as connection:
                        yield connection
                else:
                    with Session(engine) as session, session.begin():
                        yield session
            finally:
                engine.dispose()

        def execute(tx: Session | Connection, sql: str) -> list[Any]:
            result = tx.execute(text(sql))
            return list(result) if getattr(result, "returns_rows", False) else []

        def look(tx: Session | Connection) -> object:
            connection = tx.connection() if isinstance(tx, Session) else tx
            raw: Any = connection.connection.dbapi_connection
            return (
                connection.get_isolation_level(),
                connection.get_execution_options(),
                raw.row_factory,
                raw.isolation_level,
            )

        return Subject(
            url,
            transaction,
            execute,
            lambda tx: tx.begin_nested(),
            look,
            lambda: transaction(isolation_level="AUTOCOMMIT"),
        )

    return subject


def sqlalchemy_async(driver: str, kind: type[AsyncSession] | type[AsyncConnection]) -> Any:
    def subject(url: str, _: Path) -> Subject:
        @asynccontextmanager
        async def transaction(**options: Any) -> AsyncIterator[AsyncSession | AsyncConnection]:
            engine = create_async_engine(sqlalchemy_url(url, driver), **options)
            if driver.startswith("sqlite") and not options:
                with_begin(engine.sync_engine)
            try:
                if kind is AsyncConnection:
                    async with engine.begin() as connection:
                        yield connection
                else:
                    async with AsyncSession(engine) as session, session.begin():
                        yield session
            finally:
                await engine.dispose()

        async def execute(tx: Any, sql: str) -> list[Any]:
            result = await tx.execute(text(sql))
            return list(result) if result.returns_rows else []

        async def look(tx: Any) -> object:
            connection = await tx.connection() if isinstance(tx, AsyncSession) else tx
            sync: Any = connection.sync_connection
            return await connection.get_isolation_level(), sync.get_execution_options()

        return Subject(
            url,
            transaction,
            execute,
            lambda tx: tx.begin_nested(),
            look,
            lambda: transaction(isolation_level="AUTOCOMMIT"),
        )

    return subject


def django_connection(url: str, path: Path) -> Subject:
    parts = make_url(url)
    settings: dict[str, Any] = {
        "ENGINE": f"django.db.backends.{parts.drivername.replace('sqlite', 'sqlite3')}",
        "NAME": parts.database,
        "HOST": parts.host or "",
        "PORT": parts.port or "",
        "USER": parts.username or "",
    }
    connections.settings["shop"] = ConnectionHandler({"default": settings}).settings["default"]

    @contextmanager
    def unsafe() -> Iterator[BaseDatabaseWrapper]:
        try:
            yield connections["shop"]
        finally:
            connections["shop"].close()
            del connections["shop"]

    @contextmanager
    def transaction() -> Iterator[BaseDatabaseWrapper]:
        with unsafe() as connection, atomic(using="shop"):
            yield connection

    def execute(tx: BaseDatabaseWrapper, sql: str) -> list[Any]:
        with tx.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def look(tx: BaseDatabaseWrapper) -> object:
        raw: Any = tx.connection
        return raw.isolation_level, raw.row_factory, tx.get_autocommit(), tx.needs_rollback

    return Subject(url, transaction, execute, lambda _: atomic(using="shop"), look, unsafe)


Make = Callable[[str, Path], Subject]

ON_POSTGRES: dict[str, Make] = {
    "psycopg_async": psycopg_async,
    "psycopg_sync": psycopg_sync,
    "asyncpg": asyncpg_connection,
    "session_psycopg": sqlalchemy_sync("postgresql+psycopg", Session),
    "connection_psycopg": sqlalchemy_sync("postgresql+psycopg", Connection),
    "async_session_psycopg": sqlalchemy_async("postgresql+psycopg", AsyncSession),
    "async_session_asyncpg": sqlalchemy_async("postgresql+asyncpg", AsyncSession),
    "async_connection_psycopg": sqlalchemy_async("postgresql+psycopg", AsyncConnection),
    "async_connection_asyncpg": sqlalchemy_async("postgresql+asyncpg", AsyncConnection),
    "django_postgres": django_connection,
}
ON_SQLITE: dict[str, Make] = {
    "sqlite3": sqlite3_connection,
    "aiosqlite": aiosqlite_connection,
    "session_pysqlite": sqlalchemy_sync("sqlite", Session),
    "connection_pysqlite": sqlalchemy_sync("sqlite", Connection),
    "async_session_aiosqlite": sqlalchemy_async("sqlite+aiosqlite", AsyncSession),
    "async_connection_aiosqlite": sqlalchemy_async("sqlite+aiosqlite", AsyncConnection),
    "django_sqlite": django_connection,
}


def make_subject(name: str, request: pytest.FixtureRequest, folder: Path) -> Subject:
    path = folder / "shop.db"
    if name in ON_POSTGRES:
        return ON_POSTGRES[name](request.getfixturevalue("postgres_url"), path)
    return ON_SQLITE[name](f"sqlite:///{path}", path)
