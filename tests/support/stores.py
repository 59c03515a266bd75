"""Empty stores to try, by kind."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import sql
from pymongo import AsyncMongoClient

from headway.ports.store import Store
from headway.stores.mongodb import MongoStore
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore

S = TypeVar("S", bound=Store)

KINDS = ("memory", "sqlite", "postgres", pytest.param("mongodb", marks=pytest.mark.long))
"""The promises of a store itself (conformance) are tried on MongoDB by `make test`, too; what is
built on them, by `make test-all`."""


class EmptyStores:
    """Databases that are migrated once, and copied or emptied for every use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._postgres: dict[str, psycopg.Connection] = {}
        self._mongodb: set[str] = set()

    async def sqlite(self) -> SqliteStore:
        migrated = self._folder / "migrated.db"
        if not migrated.exists():
            await SqliteStore(migrated).migrate()
        self._count += 1
        path = self._folder / f"{self._count}.db"
        shutil.copy(migrated, path)
        return SqliteStore(path)

    async def postgres(self, url: str) -> PostgresStore:
        if url not in self._postgres:
            await PostgresStore(url).migrate()
            self._postgres[url] = psycopg.connect(url, autocommit=True)
        connection = self._postgres[url]
        tables = connection.execute(
            "select tablename from pg_tables where schemaname = 'headway'"
        ).fetchall()
        for (table,) in tables:
            if table != "migration":
                empty = sql.SQL("delete from {}").format(sql.Identifier("headway", table))
                connection.execute(empty)
        return PostgresStore(url)

    async def mongodb(self, url: str) -> MongoStore:
        store = MongoStore(url)
        if url not in self._mongodb:
            await store.migrate()
            self._mongodb.add(url)
        async with AsyncMongoClient[dict[str, Any]](url) as client:
            database = client.get_default_database()
            names = set(await database.list_collection_names()) - {"headway.migration"}
            await asyncio.gather(*[database[name].delete_many({}) for name in names])
        return store

    def close(self) -> None:
        for connection in self._postgres.values():
            connection.close()


@asynccontextmanager
async def opened(store: S) -> AsyncIterator[S]:
    """Migrated and open."""
    await store.migrate()
    await store.open()
    yield store
    await store.close()


def store_urls(*kinds: str | pytest.ParameterSet) -> Callable[..., Any]:
    """A fixture: the URL of an empty store, without a schema, for each of these kinds."""

    @pytest.fixture(params=kinds)
    def store_url(request: pytest.FixtureRequest, sqlite_path: Path) -> str:
        match request.param:
            case "memory":
                return "memory://"
            case "sqlite":
                return f"sqlite:///{sqlite_path}"
            case "postgres":
                return request.getfixturevalue("postgres_url")
            case _:
                return request.getfixturevalue("mongo_url")

    return store_url
