"""Stores to try: each kind of them open, migrated and empty."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pymongo import AsyncMongoClient

from headway.ports.store import Store
from headway.stores.memory import MemoryStore
from headway.stores.mongodb import MongoStore
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.servers.postgres import PostgresServer

pytest.register_assert_rewrite("headway.testing.conformance.store")

KINDS = ("memory", "sqlite", "postgres", "second_postgres", "mongodb")


class Shelf:
    """Migrated databases that are made once, and emptied or copied for every test: much faster
    than fresh ones."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "migrated.db"
        self._connections: dict[int, psycopg.Connection] = {}
        self._urls: dict[int, str] = {}
        self._mongodb: list[str] = []

    async def sqlite(self, path: Path) -> SqliteStore:
        if not self._file.exists():
            await SqliteStore(self._file).migrate()
        shutil.copy(self._file, path)
        return SqliteStore(path)

    async def postgres(self, server: PostgresServer) -> PostgresStore:
        if server.major not in self._urls:
            self._urls[server.major] = url = server.url(server.create_database())
            await PostgresStore(url).migrate()
            self._connections[server.major] = psycopg.connect(url, autocommit=True)
        connection = self._connections[server.major]
        tables = connection.execute(
            "select tablename from pg_tables where schemaname = 'headway'"
        ).fetchall()
        for (table,) in tables:
            if table != "migration":
                empty = sql.SQL("delete from {}").format(sql.Identifier("headway", table))
                connection.execute(empty)
        return PostgresStore(self._urls[server.major])

    async def mongodb(self, replica_set: MongoReplicaSet) -> MongoStore:
        store = MongoStore(replica_set.url("shelf"))
        if not self._mongodb:
            self._mongodb = await store.migrate()
        async with AsyncMongoClient[dict[str, Any]](replica_set.url("shelf")) as client:
            database = client.get_default_database()
            names = set(await database.list_collection_names()) - {"headway.migration"}
            await asyncio.gather(*[database[name].delete_many({}) for name in names])
        return store

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    yield shelf
    shelf.close()


@pytest.fixture(params=KINDS)
async def store(
    request: pytest.FixtureRequest, shelf: Shelf, tmp_path: Path
) -> AsyncIterator[Store]:
    """An open, migrated, empty store of each kind."""
    found: Store
    match request.param:
        case "memory":
            found = MemoryStore()
        case "sqlite":
            found = await shelf.sqlite(tmp_path / "headway.db")
        case "postgres":
            found = await shelf.postgres(request.getfixturevalue("postgres_server"))
        case "mongodb":
            found = await shelf.mongodb(request.getfixturevalue("mongo_replica_set"))
        case _:
            found = await shelf.postgres(request.getfixturevalue("second_postgres_server"))
    await found.open()
    yield found
    await found.close()
