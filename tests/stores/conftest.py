"""Stores to try: each kind of them open, migrated and empty."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator

import pytest

from headway.ports.store import Store
from headway.stores.memory import MemoryStore
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.servers.postgres import PostgresServer
from tests.support.stores import EmptyStores

pytest.register_assert_rewrite("headway.testing.conformance.store")

KINDS = (
    "memory",
    "sqlite",
    "postgres",
    pytest.param("second_postgres", marks=pytest.mark.long),
    "mongodb",
)


@pytest.fixture(scope="session")
def empty_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmptyStores]:
    stores = EmptyStores(tmp_path_factory.mktemp("stores"))
    yield stores
    stores.close()


@functools.cache
def database_on(server: PostgresServer) -> str:
    return server.url(server.create_database())


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, empty_stores: EmptyStores) -> AsyncIterator[Store]:
    """An open, migrated, empty store of each kind."""
    found: Store
    match request.param:
        case "memory":
            found = MemoryStore()
        case "sqlite":
            found = await empty_stores.sqlite()
        case "mongodb":
            replica_set: MongoReplicaSet = request.getfixturevalue("mongo_replica_set")
            found = await empty_stores.mongodb(replica_set.url("empty_store"))
        case kind:
            server: PostgresServer = request.getfixturevalue(f"{kind}_server")
            found = await empty_stores.postgres(database_on(server))
    await found.open()
    yield found
    await found.close()
