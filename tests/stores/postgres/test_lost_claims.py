"""A claim that took, and whose answer never came: the server has the jobs down as running, and
nobody runs them. A further try finds them by the token of the claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headway import Headway
from headway.domain.job import JobRecord, JobState, NewJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import JobFilter
from headway.errors import StoreUnreachable
from headway.jobs.ids import new_id, new_token
from headway.stores.operation_retry import OperationRetry
from headway.stores.postgres import PostgresStore
from proof.tools.proxy import Proxy
from tests.support.servers.postgres import PostgresServer

MARK = "the answer that is lost"
ONCE = OperationRetry(tries=1)


class Line:
    """A database that is reached through a proxy."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        self.direct = server.url(database)
        self.proxy = Proxy(server.port)
        self.proxy.lost_mark = MARK.encode()
        self.url = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{database}"

    async def jobs(self) -> list[JobRecord]:
        """As the server has them."""
        store = PostgresStore(self.direct)
        await store.open()
        try:
            return (await store.run(store.find, JobFilter(), limit=200)).jobs
        finally:
            await store.close()


@pytest.fixture
async def line(postgres_server: PostgresServer) -> AsyncIterator[Line]:
    database = postgres_server.create_database()
    await PostgresStore(postgres_server.url(database)).migrate()
    line = Line(postgres_server, database)
    yield line
    line.proxy.close()
    postgres_server.drop_database(database)


def order(*queues: str, limit: int = 100, share: int = 100) -> ClaimOrder:
    return ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=30.0,
        queues=tuple(QueueShare(queue, share) for queue in queues),
        types=("t",),
        limit=limit,
    )


def job(queue: str = "default", priority: int = 0, input: str = f'["{MARK}"]') -> NewJob:
    return NewJob(id=new_id(), type="t", input=input, queue=queue, priority=priority)


@pytest.mark.parametrize("awaiting", [True, False])
async def test_the_next_try_of_the_store_hands_out_the_same_jobs(
    line: Line, awaiting: bool
) -> None:
    store = PostgresStore(line.url)
    await store.open()
    try:
        jobs = [job() for _ in range(100)]
        await store.run(store.insert, jobs)
        wanted = order("default", limit=50)
        line.proxy.answers_to_lose = 2
        if awaiting:
            claimed = await store.run(store.claim, wanted)
        else:
            claimed = await asyncio.to_thread(store.run_sync, store.claim, wanted)
        assert line.proxy.answers_to_lose == 0
        assert [each.id for each in claimed] == [each.id for each in jobs[:50]]
        running = [each for each in await line.jobs() if each.state is JobState.RUNNING]
        assert {each.id for each in running} == {each.id for each in claimed}
        assert {each.lease for each in running} == {each.lease for each in claimed}
    finally:
        await store.close()


async def test_a_worker_whose_store_gives_up_asks_for_the_same_jobs(line: Line) -> None:
    app = Headway(PostgresStore(line.url, retry=ONCE), notifier="none")
    ran: list[int] = []

    @app.job(name="t")
    async def work(number: int, mark: str) -> None:
        ran.append(number)

    async with app:
        await app.start_many([work.request(number, MARK) for number in range(20)])
        worker = app.worker(concurrency=50, lease_for=60.0)
        line.proxy.answers_to_lose = 3
        async with asyncio.timeout(30):
            await worker.run(drain=True)
        assert line.proxy.answers_to_lose == 0
    assert sorted(ran) == list(range(20))
    assert [(each.state, each.losses, each.lease_version) for each in await line.jobs()] == [
        (JobState.COMPLETED, 0, 1)
    ] * 20


async def test_a_claim_over_several_lanes_is_one_transaction(line: Line) -> None:
    store = PostgresStore(line.url, retry=ONCE)
    await store.open()
    try:
        for queue in ("a", "b"):
            for priority in (1, 2):
                mark = MARK if queue == "b" else "it arrives"
                await store.run(store.insert, [job(queue, priority, f'["{mark}"]')])
        line.proxy.answers_to_lose = 1
        with pytest.raises(StoreUnreachable):
            await store.run(store.claim, order("a", "b", limit=4, share=3))
        assert line.proxy.answers_to_lose == 0
        assert {each.state for each in await line.jobs()} == {JobState.PENDING}
    finally:
        await store.close()
