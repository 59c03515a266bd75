"""Notifiers to try: each kind of them, on real servers, apart from all other tests."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from headway.notifiers.local import LocalNotifier
from headway.notifiers.mongodb import MongoNotifier
from headway.notifiers.nats import NatsNotifier
from headway.notifiers.none import NoNotifier
from headway.notifiers.postgres import PostgresNotifier
from headway.notifiers.redis import RedisNotifier
from headway.notifiers.sqlite import SqliteNotifier
from headway.ports.notifier import Notifier
from tests.conftest import not_verified
from tests.support.servers.brokers import NatsServer, RedisServer, ValkeyServer
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.servers.postgres import PostgresServer

KINDS = {
    "local": LocalNotifier.reach,
    "none": NoNotifier.reach,
    "sqlite": SqliteNotifier.reach,
    "postgres": PostgresNotifier.reach,
    "mongodb": MongoNotifier.reach,
    "redis": RedisNotifier.reach,
    "valkey": RedisNotifier.reach,
    "nats": NatsNotifier.reach,
    "nats_plain": NatsNotifier.reach,
}
"""How far each reaches; what is made of them is the fixture `kind`."""
COUNTING = ("redis", "valkey", "nats")
LIKE_OTHERS = ("valkey", "nats_plain")
"""Kinds that differ little from another one; `make test-all` tries them."""


def marked(name: str, *more: object, id: str | None = None) -> pytest.ParameterSet:
    """A parameter of tests: a kind, and more."""
    return pytest.param(name, *more, marks=[pytest.mark.long] * (name in LIKE_OTHERS), id=id)


pytest.register_assert_rewrite("headway.testing.conformance.notifier")

_names = count()


@dataclass(frozen=True)
class Kind:
    name: str
    make: Callable[[], Notifier]


@pytest.fixture(scope="session")
def _redis_server() -> Iterator[RedisServer | None]:
    if RedisServer.find() is None:
        yield None
        return
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_server(_redis_server: RedisServer | None) -> RedisServer:
    """Redis proper; its wheel is made for some interpreters only."""
    if _redis_server is None:
        not_verified("This machine has no redis-server, only Valkey")
    return _redis_server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="session")
def plain_nats_server() -> Iterator[NatsServer]:
    with NatsServer(jetstream=False) as server:
        yield server


@pytest.fixture(params=[*map(marked, KINDS)])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    name: str = request.param
    prefix = f"test{next(_names)}"
    server = request.getfixturevalue
    match name:
        case "local":
            local = LocalNotifier()
            return Kind(name, lambda: local)
        case "none":
            nobody = NoNotifier()
            return Kind(name, lambda: nobody)
        case "sqlite":
            path = tmp_path / "shop.db"
            sqlite3.connect(path).close()
            return Kind(name, lambda: SqliteNotifier(path))
        case "postgres":
            postgres: PostgresServer = server("postgres_server")
            return Kind(name, lambda: PostgresNotifier(postgres.url(), schema=prefix))
        case "mongodb":
            mongo: MongoReplicaSet = server("mongo_replica_set")
            return Kind(name, lambda: MongoNotifier(mongo.url("notifications"), schema=prefix))
        case "redis" | "valkey":
            redis: RedisServer = server(f"{name}_server")
            return Kind(name, lambda: RedisNotifier(redis.url, prefix=prefix))
        case _:
            nats: NatsServer = server("nats_server" if name == "nats" else "plain_nats_server")
            return Kind(name, lambda: NatsNotifier(nats.url, prefix=prefix))
