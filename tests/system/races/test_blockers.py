"""A blocker completes while a job that is to wait for it is being created: 2,000 such pairs, and
none is left blocked. Who completes and who creates have connections of their own, as in different
processes; who creates does so in transactions of their own."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection, IsolationLevel
from psycopg_pool import AsyncConnectionPool

from headway import Headway, Job, JobState, Sequence
from headway.domain.job import ClaimedJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Complete
from headway.jobs.ids import new_token
from headway.stores.sqlite.write_lock import wait_while_busy

PAIRS = 2_000
AT_ONCE = 16

pytestmark = [pytest.mark.long, pytest.mark.slow]


class Shop:
    def __init__(self, dsn: str) -> None:
        self.app = Headway(dsn, migrate=True)

        @self.app.job(queue="blockers")
        async def blocker(number: int) -> int:
            return number

        @self.app.job(queue="dependents")
        async def dependent(job: Job[int], number: int) -> int:
            return job.blockers[0]

        self.blocker, self.dependent = blocker, dependent

    async def claim(self, count: int) -> dict[str, ClaimedJob]:
        store = self.app.store
        claimed: dict[str, ClaimedJob] = {}
        while len(claimed) < count:
            order = ClaimOrder(
                worker="test",
                token=new_token(),
                lease_for=600,
                queues=(QueueShare("blockers", 500),),
                types=("blocker",),
                limit=500,
            )
            claimed |= {job.id: job for job in await store.run(store.claim, order)}
        return claimed

    async def complete(self, job: ClaimedJob) -> None:
        store = self.app.store
        settled = await store.run(store.settle, [Complete(job.id, job.lease.token, "7")])
        assert settled.verdicts[0].ok


Create = Callable[[Shop, int, Sequence[int]], Awaitable[None]]


async def race(dsn: str, pairs: int, create: Create) -> None:
    """Complete and create at once, now the one a little earlier, now the other."""
    completing, creating = Shop(dsn), Shop(dsn)
    async with completing.app, creating.app:
        started = await creating.app.start_many(
            [creating.blocker.request(number) for number in range(pairs)]
        )
        held = await completing.claim(pairs)
        gate = asyncio.Semaphore(AT_ONCE)

        async def pair(number: int, sequence: Sequence[int]) -> None:
            async with gate:
                await asyncio.gather(
                    _soon(completing.complete(held[sequence.id])),
                    _soon(create(creating, number, sequence)),
                )

        await asyncio.gather(*[pair(number, each) for number, each in enumerate(started)])
        counts = {(count.type, count.state): count.count for count in await creating.app.counts()}
    assert counts == {
        ("blocker", JobState.COMPLETED): pairs,
        ("dependent", JobState.PENDING): pairs,
    }


async def _soon(work: Awaitable[None]) -> None:
    await asyncio.sleep(random.uniform(0.0, 0.004))
    await work


@pytest.mark.parametrize(
    "isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ]
)
async def test_on_postgres(postgres_url: str, isolation: IsolationLevel) -> None:
    async def set_isolation(connection: AsyncConnection) -> None:
        await connection.set_isolation_level(isolation)

    pool = AsyncConnectionPool(
        postgres_url, min_size=AT_ONCE, max_size=AT_ONCE, open=False, configure=set_isolation
    )
    refused = 0

    async def create(shop: Shop, number: int, sequence: Sequence[int]) -> None:
        nonlocal refused
        while True:
            try:
                async with pool.connection() as connection, connection.transaction():
                    request = shop.dependent.request(number)
                    await shop.app.start(request.using(blockers=(sequence,)), tx=connection)
            except psycopg.errors.SerializationFailure:
                refused += 1
            else:
                return

    async with pool:
        await race(postgres_url, PAIRS, create)
    assert isolation is IsolationLevel.REPEATABLE_READ or refused == 0


async def test_on_sqlite(sqlite_path: Path) -> None:
    async def create(shop: Shop, number: int, sequence: Sequence[int]) -> None:
        with closing(sqlite3.connect(sqlite_path, timeout=0, isolation_level=None)) as connection:
            await wait_while_busy(lambda: connection.execute("begin immediate"), 30)
            request = shop.dependent.request(number)
            await shop.app.start(request.using(blockers=(sequence,)), tx=connection)
            connection.execute("commit")

    await race(f"sqlite:///{sqlite_path}", PAIRS, create)
