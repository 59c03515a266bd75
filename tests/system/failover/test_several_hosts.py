"""DSNs that name several servers: whoever takes writes is found, and found again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from headway import Headway, JobState
from headway.domain.job import NewJob
from headway.drivers.postgres_dsn import connect_arguments
from headway.errors import StoreUnreachable
from headway.jobs.ids import new_id
from headway.stores.postgres import PostgresStore
from tests.support.servers.postgres import PostgresServer

READ_ONLY = "alter system set default_transaction_read_only = on"


class Pair:
    """Two servers with a database each, called the same; whoever is not `demoted` takes writes."""

    def __init__(self, first: PostgresServer, second: PostgresServer) -> None:
        self.first, self.second = first, second
        self.dsn = (
            f"postgresql://postgres:hunter2@127.0.0.1:{first.port},127.0.0.1:{second.port}/postgres"
        )

    def demote(self, server: PostgresServer) -> None:
        """Sessions stay as they are, and can only read from now on."""
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute(READ_ONLY)
            admin.execute("select pg_reload_conf()")
            while admin.execute("show default_transaction_read_only").fetchone() != ("on",):
                pass


@pytest.fixture
def pair() -> Iterator[Pair]:
    with PostgresServer() as first, PostgresServer() as second:
        yield Pair(first, second)


@asynccontextmanager
async def opened(dsn: str, *servers: PostgresServer) -> AsyncIterator[PostgresStore]:
    for server in servers:
        await PostgresStore(server.url()).migrate()
    store = PostgresStore(dsn)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def job() -> NewJob:
    return NewJob(id=new_id(), type="t", input="{}")


def stored(server: PostgresServer, table: str = "headway.job") -> int:
    with psycopg.connect(server.url()) as connection:
        row = connection.execute(f"select count(*) from {table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


async def repeat_until_written(
    server: PostgresServer, write: Callable[[], Awaitable[object]], table: str = "headway.job"
) -> None:
    """Sessions hear of a demotion one after the other, so a write may still go to the old place."""
    before = stored(server, table)
    async with asyncio.timeout(20):
        while stored(server, table) == before:
            await write()


@pytest.mark.long
@pytest.mark.slow
async def test_connections_to_a_demoted_server_are_let_go(pair: Pair) -> None:
    for server in (pair.first, pair.second):
        with psycopg.connect(server.url()) as admin:
            admin.execute("create table mine (number integer)")
    async with opened(pair.dsn, pair.first, pair.second) as store:

        async def write_as_guest() -> None:
            async with store.begin() as tx:
                await tx.execute("insert into mine values (1)")

        # As many connections as there may be, so that no try happens upon a new one.
        await asyncio.gather(*(store.run(store.insert, [job()]) for _ in range(40)))
        await asyncio.to_thread(store.run_sync, store.insert, [job()])
        await write_as_guest()
        assert (stored(pair.first), stored(pair.first, "mine")) == (41, 1)
        pair.demote(pair.first)
        await repeat_until_written(pair.second, lambda: store.run(store.insert, [job()]))
        await repeat_until_written(
            pair.second, lambda: asyncio.to_thread(store.run_sync, store.insert, [job()])
        )
        # A transaction of the caller's is not tried again; the next one is in the right place.
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await repeat_until_written(pair.second, write_as_guest, "mine")
        await write_as_guest()
        assert stored(pair.second, "mine") == 1


@pytest.mark.long
@pytest.mark.slow
async def test_workers_and_waiters_go_over_to_the_other_server(pair: Pair) -> None:
    for server in (pair.first, pair.second):
        await PostgresStore(server.url()).migrate()
    app = Headway(f"{pair.dsn}?target_session_attrs=read-write")

    @app.job
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        worker = asyncio.create_task(app.worker(poll_every=0.2).run())
        try:
            assert await (await app.start(double.request(1))).result(timeout=60) == 2
            pair.first.kill()
            started = await app.start(double.request(2))
            assert await started.result(timeout=20) == 4
            assert (await app.get(started.id)).state is JobState.COMPLETED
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
    assert stored(pair.second) == 1


@pytest.mark.long
@pytest.mark.slow
async def test_a_server_that_only_reads_is_passed_over_from_the_start(pair: Pair) -> None:
    await PostgresStore(pair.first.url()).migrate()
    pair.demote(pair.first)
    store = PostgresStore(pair.dsn)
    await store.migrate()
    async with opened(pair.dsn, pair.second):
        assert stored(pair.second) == 0
    pair.demote(pair.second)
    with pytest.raises(StoreUnreachable, match="read-only") as caught:
        await store.open()
    assert "hunter2" not in str(caught.value)
    assert f"127.0.0.1:{pair.first.port}, 127.0.0.1:{pair.second.port}" in str(caught.value)


@pytest.mark.long
@pytest.mark.slow
def test_a_benchmark_finds_the_one_that_takes_writes(pair: Pair) -> None:
    pair.demote(pair.first)
    done = subprocess.run(
        [sys.executable, "-m", "headway", "bench", pair.dsn, "--jobs", "200"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_a_dsn_says_is_left_as_it_is() -> None:
    several = connect_arguments("postgresql://a,b/shop")
    assert (several["target_session_attrs"], several["connect_timeout"]) == ("read-write", 5)
    said = connect_arguments("postgresql://a,b/shop?target_session_attrs=any&connect_timeout=2")
    assert said.keys() == several.keys() - {"target_session_attrs", "connect_timeout"}
    assert "target_session_attrs" not in connect_arguments("postgresql://a/shop")


def test_the_name_of_a_store_on_several_servers() -> None:
    hosts = PostgresStore("postgresql://me:hunter2@a:1,b:2/shop?target_session_attrs=any")
    assert hosts.name == "PostgreSQL database 'shop' at a:1, b:2"
    assert PostgresStore("postgresql://a,b/shop").name.endswith("at a:5432, b:5432")
    assert PostgresStore("host=a,b port=6000 dbname=shop").name.endswith("at a:6000, b:6000")
