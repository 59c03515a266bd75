"""A server that is there and does not let us in: one sentence says why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pymongo
import pytest

from headway import Headway
from headway.errors import StoreRefused, StoreUnreachable
from headway.stores.mongodb import MongoStore
from headway.stores.postgres import PostgresStore
from tests.support.servers.mongodb import MongoReplicaSet, MongoServer
from tests.support.servers.postgres import PostgresServer

SECRET = "hunter2"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a PostgreSQL that asks for passwords."""
    with PostgresServer() as server:
        rules = server.directory / "data" / "pg_hba.conf"
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("create role app login password 'right'")
            connection.execute("create role group_only")
            connection.execute("create database closed")
            connection.execute("revoke connect on database closed from public")
            rules.write_text(
                "host all app 127.0.0.1/32 scram-sha-256\n"
                "host all stranger 127.0.0.1/32 reject\n" + rules.read_text()
            )
            connection.execute("select pg_reload_conf()")
        yield server.port


@pytest.mark.parametrize(
    ("user", "rest", "said"),
    [
        (f"app:{SECRET}", "postgres", "password authentication failed.*check the user and the"),
        ("app", "postgres", "no password supplied; check the user and the password in the DSN"),
        ("postgres", "nowhere", "database \"nowhere\" does not exist; create the database"),
        ("nobody", "postgres", "role \"nobody\" does not exist; create the role"),
        ("group_only", "postgres", "not permitted to log in; create the role with the right"),
        ("app:right", "closed", "permission denied.*; grant the user the right to connect"),
        ("stranger", "postgres", "rejects.*; allow this host, user and database in the server's"),
        ("postgres", "postgres?sslmode=require", "does not support SSL.*; check sslmode in the"),
        ("postgres", "postgres?sslmode=verify-full", "SSL.*; check sslmode in the DSN"),
    ],
)  # fmt: skip
async def test_postgres_says_why(port: int, user: str, rest: str, said: str) -> None:
    store = PostgresStore(f"postgresql://{user}@127.0.0.1:{port}/{rest}")
    for call in (store.open, store.migrate, store.migration_status):
        with pytest.raises(StoreRefused, match=said) as caught:
            await call()
        assert "is it running" not in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


async def test_a_role_that_may_not_make_the_schema_is_told_so(port: int) -> None:
    store = PostgresStore(f"postgresql://app:right@127.0.0.1:{port}/postgres")
    with pytest.raises(StoreRefused, match="permission denied for database postgres; grant that"):
        await store.migrate()


async def test_a_role_without_rights_in_the_schema_is_told_so(port: int) -> None:
    """The usual case of a schema that another role has made."""
    owner = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    await PostgresStore(owner, schema="theirs").migrate()
    store = PostgresStore(f"postgresql://app:right@127.0.0.1:{port}/postgres", schema="theirs")
    for call in (store.open, store.migration_status):
        with pytest.raises(
            StoreRefused, match="denied for schema theirs; grant the user that right"
        ):
            await call()
    with psycopg.connect(owner) as connection:
        connection.execute("grant usage on schema theirs to app")
        connection.execute("grant select on theirs.migration to app")
    await store.open()
    try:
        with pytest.raises(StoreRefused, match=r"denied for table .*; grant the user"):
            await store.run(store.queues)
        with pytest.raises(StoreRefused, match=r"denied for table .*; grant the user"):
            store.run_sync(store.queues)
    finally:
        await store.close()


async def test_several_hosts_are_told_of_in_one_line(port: int) -> None:
    store = PostgresStore(f"postgresql://app:{SECRET}@127.0.0.1:{port},localhost:{port}/postgres")
    with pytest.raises(StoreRefused, match="check the user and the password") as caught:
        await store.open()
    assert "\n" not in str(caught.value)


async def test_a_server_that_has_no_room_for_now_is_not_said_to_refuse(port: int) -> None:
    url = f"postgresql://app:right@127.0.0.1:{port}/postgres"
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres") as connection:
        connection.execute("alter role app connection limit 0")
        connection.commit()
        try:
            with pytest.raises(StoreUnreachable, match="too many connections") as caught:
                await PostgresStore(url).open()
            assert not isinstance(caught.value, StoreRefused)
        finally:
            connection.execute("alter role app connection limit -1")


async def test_a_wrong_password_is_an_errors_of_the_app_too(port: int) -> None:
    app = Headway(f"postgresql://app:{SECRET}@127.0.0.1:{port}/postgres", migrate=True)
    with pytest.raises(StoreRefused, match="cannot use PostgreSQL database 'postgres' at 127"):
        await app.open()


class Guarded(MongoServer):
    """Asks for a user and a password."""

    def command(self) -> list[str | Path]:
        key = self.directory / "key"
        if not key.exists():
            key.write_text("c2VjcmV0" * 8)
            key.chmod(0o400)
        return [*super().command(), "--auth", "--keyFile", key]


class GuardedSet(MongoReplicaSet):
    def __init__(self) -> None:
        self.nodes = [Guarded()]


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    """Of a MongoDB that asks for passwords."""
    if MongoServer.find() is None:
        pytest.skip("NOT VERIFIED: no mongod that runs here")
    with GuardedSet() as replica_set:
        place = f"127.0.0.1:{replica_set.nodes[0].port}"
        with pymongo.MongoClient(f"mongodb://{place}/?directConnection=true") as client:
            roles = [{"role": "userAdminAnyDatabase", "db": "admin"}]
            client.admin.command("createUser", "boss", pwd="right", roles=roles)
        with pymongo.MongoClient(f"mongodb://boss:right@{place}/?directConnection=true") as client:
            client.admin.command("createUser", "guest", pwd="right", roles=[])
        yield place


@pytest.mark.usefixtures("dropped_sockets")
@pytest.mark.parametrize(
    ("user", "rest", "said"),
    [
        (f"guest:{SECRET}@", "", "Authentication failed.*; check the user, the password and auth"),
        ("", "", "requires authentication; check the user, the password"),
        ("guest:right@", "", "not authorized.*; grant the user readWrite on the database"),
        ("guest:right@", "&tls=true&serverSelectionTimeoutMS=500", "SSL handshake.*; check tls in"),
    ],
)
async def test_mongodb_says_why(hosts: str, user: str, rest: str, said: str) -> None:
    store = MongoStore(f"mongodb://{user}{hosts}/shop?replicaSet=rs0&authSource=admin{rest}")
    for call in (store.open, store.migrate):
        with pytest.raises(StoreRefused, match=said) as caught:
            await call()
        assert "is it running" not in str(caught.value)
        assert SECRET not in str(caught.value)
