"""A handler that completes in a long transaction holds up nobody but those who want its job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from headway.domain.job import NewJob
from headway.domain.lease import Held, Verdict
from headway.domain.lifecycle import after_expiry
from headway.domain.reading import ClaimOrder, QueueShare
from headway.domain.settlement import Complete
from headway.engine.identity import new_id, new_token
from headway.stores.postgres import PostgresStore


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url)
    await store.migrate()
    await store.open()
    yield store
    await store.close()


async def test_a_reaper_passes_by_a_job_that_is_being_completed(store: PostgresStore) -> None:
    await store.run(
        store.insert, [NewJob(id=new_id(), type="t", input="{}", max_losses=9) for _ in range(3)]
    )
    token = new_token()
    order = ClaimOrder(
        worker="w",
        token=token,
        lease_for=1,
        queues=(QueueShare("default", 9),),
        types=("t",),
        limit=9,
    )
    held, *others = await store.run(store.claim, order)
    later = datetime.now(UTC) + timedelta(minutes=5)
    async with store.begin() as tx, asyncio.timeout(10):
        # As the worker does it: the lease lasts as long as the transaction, for its holder.
        assert await store.run_in(tx, store.extend, [Held(held.id, token)], 3600) == [
            Verdict.APPLIED
        ]
        expired = await store.run(store.expired, 10, now=later)
        assert {job.id for job in expired} == {job.id for job in others}
        settled = await store.run(store.settle, [after_expiry(job) for job in expired], now=later)
        assert settled.verdicts == [Verdict.APPLIED] * 2
        done = await store.run_in(tx, store.settle, [Complete(held.id, token, None)])
        assert done.verdicts == [Verdict.APPLIED]
    assert await store.run(store.expired, 10, now=later) == []
