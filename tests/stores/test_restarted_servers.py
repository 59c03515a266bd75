"""The first call after a server was restarted, while all connections in the pools are dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import psycopg
import pytest

from headway.domain.job import NewJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.jobs.ids import new_id, new_token
from headway.ports.statement import Operation, Statement
from headway.ports.store import Store
from headway.stores.mongodb import MongoStore
from headway.stores.postgres import PostgresStore
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.servers.postgres import PostgresServer

CONNECTIONS = 8

pytestmark = pytest.mark.slow


def job() -> NewJob:
    return NewJob(id=new_id(), type="t", input="{}")


def order() -> ClaimOrder:
    return ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=30.0,
        queues=(QueueShare("default", 100),),
        types=("t",),
        limit=100,
    )


async def start(store: Store) -> None:
    await store.run(store.insert, [job()])


async def get(store: Store) -> None:
    await store.run(store.get, [new_id()])


async def claim(store: Store) -> None:
    assert len(await store.run(store.claim, order())) == 1


async def begin(store: Store) -> None:
    async with store.begin() as tx:
        await store.run_in(tx, store.insert, [job()])


async def start_blocking(store: Store) -> None:
    await asyncio.to_thread(store.run_sync, store.insert, [job()])


async def get_blocking(store: Store) -> None:
    await asyncio.to_thread(store.run_sync, store.get, [new_id()])


async def claim_blocking(store: Store) -> None:
    assert len(await asyncio.to_thread(store.run_sync, store.claim, order())) == 1


CALLS = [start, get, claim, begin, start_blocking, get_blocking, claim_blocking]
FIRST_CALLS = [
    pytest.param(each, marks=[pytest.mark.long] * (each not in (start, claim_blocking)))
    for each in CALLS
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as server:
        yield server


@pytest.fixture
async def store(server: PostgresServer) -> AsyncIterator[PostgresStore]:
    """With one job, and with its pools full."""
    url = server.url(server.create_database())
    store = PostgresStore(url, connections=CONNECTIONS)
    await store.migrate()
    await store.open()
    await start(store)
    await fill_pools(store, url)
    yield store
    await store.close()


async def fill_pools(store: PostgresStore, url: str) -> None:
    """Use all connections at the same time."""

    def wait() -> Operation[None]:
        yield Statement("select pg_advisory_xact_lock_shared(7)")

    async with AsyncExitStack() as stack:
        for _ in range(CONNECTIONS):
            await stack.enter_async_context(store.begin())
    threads = ThreadPoolExecutor(CONNECTIONS)
    with threads, psycopg.connect(url, autocommit=True) as ours:
        ours.execute("select pg_advisory_lock(7)")
        calls = [asyncio.ensure_future(store.run(wait)) for _ in range(CONNECTIONS)]
        blocking = [threads.submit(store.run_sync, wait) for _ in range(CONNECTIONS)]
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        async with asyncio.timeout(10):
            while ours.execute(waiting).fetchone() != (2 * CONNECTIONS,):
                await asyncio.sleep(0.01)
        ours.execute("select pg_advisory_unlock(7)")
        await asyncio.gather(*calls, *map(asyncio.wrap_future, blocking))


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("call", FIRST_CALLS)
async def test_the_first_call_succeeds_on_postgres(
    server: PostgresServer,
    store: PostgresStore,
    call: Callable[[Store], Awaitable[None]],
    how: str,
) -> None:
    getattr(server, how)()
    server.start()
    await call(store)
    for each in CALLS:
        if each not in (claim, claim_blocking):
            await each(store)


@pytest.mark.usefixtures("dropped_sockets")
@pytest.mark.parametrize("call", FIRST_CALLS)
async def test_the_first_call_succeeds_on_mongodb(
    restarting: MongoReplicaSet, call: Callable[[Store], Awaitable[None]]
) -> None:
    store = MongoStore(restarting.url(restarting.new_database()), connections=CONNECTIONS)
    await store.migrate()
    await store.open()
    try:
        await start(store)
        async with AsyncExitStack() as stack:
            for _ in range(CONNECTIONS):
                tx = await stack.enter_async_context(store.begin())
                await store.run_in(tx, store.get, [new_id()])
        await asyncio.gather(*(get_blocking(store) for _ in range(CONNECTIONS)))
        restarting.nodes[0].kill()
        restarting.nodes[0].start()
        restarting.wait_until_healthy()
        await call(store)
    finally:
        await store.close()


@pytest.fixture(scope="module")
def restarting() -> Iterator[MongoReplicaSet]:
    with MongoReplicaSet() as replica_set:
        yield replica_set
