"""The PostgreSQL store behind PgBouncer in transaction mode: the same promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import psycopg
import pytest

from headway import Headway, Job
from headway.cli.bench.schema import own_schema
from headway.errors import ConfigurationError
from headway.ports.notifier import NotifierStatus
from headway.stores.postgres import PostgresStore
from headway.testing.conformance.store import CASES, StoreCase
from tests.conftest import not_verified
from tests.support.servers.pgbouncer import PgBouncer
from tests.support.servers.postgres import PostgresServer, ServerError

pytestmark = pytest.mark.slow

TABLES = "select tablename from pg_tables where schemaname = 'headway' and tablename <> 'migration'"


@pytest.fixture(scope="module")
def pgbouncer(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    try:
        pooler = PgBouncer(postgres_server)
    except ServerError as reason:
        not_verified(str(reason))
    with pooler:
        yield pooler


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer, pgbouncer: PgBouncer) -> Iterator[str]:
    name = postgres_server.create_database()
    asyncio.run(PostgresStore(pgbouncer.url_of(name)).migrate())
    yield name
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def broom(postgres_server: PostgresServer, database: str) -> Iterator[Callable[[], object]]:
    with psycopg.connect(postgres_server.url(database), autocommit=True) as connection:
        tables = [table for (table,) in connection.execute(TABLES).fetchall()]
        empty = "; ".join(f'delete from headway."{table}"' for table in tables)
        yield lambda: connection.execute(empty.encode())


@pytest.fixture
def emptied(broom: Callable[[], object], database: str) -> str:
    broom()
    return database


@pytest.fixture
async def store(pgbouncer: PgBouncer, emptied: str) -> AsyncIterator[PostgresStore]:
    found = PostgresStore(pgbouncer.url_of(emptied))
    await found.open()
    yield found
    await found.close()


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_store(store: PostgresStore, case: StoreCase) -> None:
    await case.function(store)


async def test_a_worker_with_a_direct_connection_for_notifications(
    postgres_server: PostgresServer, pgbouncer: PgBouncer, emptied: str
) -> None:
    """Often enough that psycopg would prepare; polls are too rare to be in time."""
    app = Headway(pgbouncer.url_of(emptied), notifier=postgres_server.url(emptied))

    @app.job
    async def double(number: int) -> int:
        return 2 * number

    @app.job
    async def note(job: Job, number: int) -> None:
        tx = await job.complete()
        await tx.execute("insert into noted values (%s)", (number,))

    with psycopg.connect(postgres_server.url(emptied), autocommit=True) as connection:
        connection.execute("create table noted (number integer)")
        async with app:
            worker = app.worker(poll_every=30, poll_when_told=30)
            running = asyncio.create_task(worker.run())
            for number in range(20):
                started = await app.start(double.request(number))
                assert await started.result(timeout=60) == 2 * number
            notes = await app.start_many([note.request(number) for number in range(150)])
            for noted in notes:
                await noted.result(timeout=60)
            assert connection.execute("select count(*) from noted").fetchone() == (150,)
            worker.request_stop()
            await running


async def test_an_index_is_built_once_and_without_settings_for_others(
    postgres_server: PostgresServer, pgbouncer: PgBouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.stores.postgres.migrate.PAUSE", 0.05)
    name = postgres_server.create_database()
    old = PostgresStore(pgbouncer.url_of(name))
    del old._migrations[3:]
    await old.migrate()
    with (
        psycopg.connect(postgres_server.url(name)) as holder,
        psycopg.connect(pgbouncer.url_of(name), autocommit=True, prepare_threshold=None) as other,
    ):
        holder.execute("lock table headway.job in row exclusive mode")
        migrations = [
            asyncio.create_task(PostgresStore(pgbouncer.url_of(name)).migrate()) for _ in range(3)
        ]
        done, _ = await asyncio.wait(migrations, timeout=1.5)  # PostgreSQL looks for deadlocks
        assert not done
        holder.commit()
        assert sorted(await asyncio.gather(*migrations)) == [[], [], ["0004_keys"]]
        limits = "current_setting('lock_timeout'), current_setting('statement_timeout')"
        seen = {other.execute(f"select {limits}".encode()).fetchone() for _ in range(60)}
        assert seen == {("0", "0")}
    postgres_server.drop_database(name)


async def test_nothing_is_left_behind_for_other_clients(
    postgres_server: PostgresServer, pgbouncer: PgBouncer, store: PostgresStore, emptied: str
) -> None:
    await asyncio.gather(*(store.run(store.counts) for _ in range(30)))
    await asyncio.to_thread(store.run_sync, store.counts)
    async with store.begin() as tx:
        for number in range(10):
            await tx.execute("select %s + 1", (number,))
    with psycopg.connect(
        pgbouncer.url_of(emptied), autocommit=True, prepare_threshold=None
    ) as other:
        seen = {
            other.execute(
                "select pg_backend_pid(), current_setting('enable_seqscan'),"
                " current_setting('plan_cache_mode'), (select count(*) from pg_prepared_statements)"
            ).fetchone()
            for _ in range(60)
        }
    assert {row[1:] for row in seen if row is not None} == {("on", "auto", 0)}


async def test_a_benchmark_is_not_run_through_it(pgbouncer: PgBouncer, database: str) -> None:
    with pytest.raises(ConfigurationError, match="leads to PostgreSQL itself"):
        async with own_schema(pgbouncer.url_of(database), "headway_bench"):
            pass


async def test_listening_through_it_is_said_not_to_work(pgbouncer: PgBouncer, emptied: str) -> None:
    app = Headway(pgbouncer.url_of(emptied))

    @app.job
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        heard: list[NotifierStatus] = []
        forget = await app.notifier.subscribe(lambda _: None, on_status=heard.append)
        assert not heard[-1].connected
        assert "a DSN of the server itself" in heard[-1].reason
        await forget()
        started = await app.start(double.request(4))
        await app.worker().run(drain=True)
        assert await started.result(timeout=60) == 8
