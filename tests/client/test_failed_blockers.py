"""A blocker that failed or was cancelled: what waits for it stays blocked, says why, and goes on
when the blocker does; on every store, with and without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headway import Continuation, Headway, Job, JobState
from headway.errors import JobNotFound
from headway.jobs.ids import new_id

COMPLETED, FAILED, BLOCKED = JobState.COMPLETED, JobState.FAILED, JobState.BLOCKED


class Shop:
    def __init__(self, url: str) -> None:
        self.app = app = Headway(url, migrate=True)
        self.bank_is_open = False

        @app.job
        async def pack() -> str:
            return "packed"

        @app.job
        async def order(job: Job) -> Continuation[str]:
            return job.continue_with(pay.request())

        @app.job(entry=False, max_attempts=1)
        async def pay(job: Job) -> str:
            if not self.bank_is_open:
                raise ConnectionError("the bank does not answer")
            return "paid"

        @app.job
        async def ship(job: Job[str, str]) -> str:
            return " and ".join(job.blockers)

        self.pack, self.order, self.ship = pack, order, ship

    async def work(self) -> None:
        async with asyncio.timeout(20):
            await self.app.worker(poll_every=0.05).run(drain=True)


@pytest.fixture
async def shop(store_url: str) -> AsyncIterator[Shop]:
    shop = Shop(store_url)
    async with shop.app:
        yield shop


async def test_what_waits_for_a_failed_blocker_says_so_and_a_retry_frees_it(shop: Shop) -> None:
    app = shop.app
    payment = await app.start(shop.order.request())
    shipping = await app.start(shop.ship.request().using(blockers=(shop.pack.request(), payment)))
    await shop.work()
    assert (await app.get(shipping)).state is BLOCKED
    packed, failed = await app.blockers(shipping)
    assert (packed.type, packed.state) == ("pack", COMPLETED)
    assert (failed.type, failed.state, failed.sequence_id) == ("pay", FAILED, payment.id)
    assert str(failed.failure) == "ConnectionError: the bank does not answer"

    def look() -> list[str]:
        with app.sync as client:
            return [job.id for job in client.blockers(shipping.id)]

    assert await asyncio.to_thread(look) == [packed.id, failed.id]
    shop.bank_is_open = True
    await app.retry(payment)
    await shop.work()
    assert await shipping.result(timeout=60) == "packed and paid"
    assert [job.state for job in await app.blockers(shipping)] == [COMPLETED, COMPLETED]


async def test_what_waits_for_a_cancelled_blocker_goes_on_when_that_does(shop: Shop) -> None:
    app = shop.app
    shop.bank_is_open = True
    payment = await app.start(shop.order.request())
    shipping = await app.start(shop.ship.request().using(blockers=(shop.pack.request(), payment)))
    await app.cancel(payment)
    await shop.work()
    assert (await app.get(shipping)).state is BLOCKED
    assert [job.state for job in await app.blockers(shipping)] == [COMPLETED, JobState.CANCELLED]
    await app.retry(payment)
    await shop.work()
    assert await shipping.result(timeout=60) == "packed and paid"


async def test_a_job_without_blockers_waits_for_none(shop: Shop) -> None:
    assert await shop.app.blockers(await shop.app.start(shop.pack.request())) == []
    with pytest.raises(JobNotFound):
        await shop.app.blockers(new_id())
