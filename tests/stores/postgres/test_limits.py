"""Claims under limits on PostgreSQL: the lock, its snapshot, and a claimer that is frozen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import psycopg
import pytest

from headway.domain.job import NewJob
from headway.domain.limits.queue_limits import QueueLimits, QueueState, StoredLimits
from headway.domain.orders import ClaimOrder, QueueShare
from headway.jobs.ids import new_id, new_token
from headway.limits.claim import LimitedClaim, claim_limited
from headway.limits.key_claim import KeyTurns
from headway.stores.postgres import PostgresStore
from tests.support.stores import opened

CAP = 5


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(PostgresStore(postgres_url)) as store:
        jobs = [NewJob(id=new_id(), type=f"t{n % 8}", input="{}") for n in range(100)]
        await store.run(store.insert, jobs)
        limits = StoredLimits(declared=QueueLimits(running=CAP))
        await store.run(store.save_queue, QueueState(name="default", limits=limits))
        yield store


def claim(store: PostgresStore, type: str = "t0", limit: int = 3) -> asyncio.Task[LimitedClaim]:
    order = ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=60,
        queues=(QueueShare("default", limit),),
        types=(type,),
        limit=limit,
        limited=True,
    )
    return asyncio.ensure_future(store.run(claim_limited, store, order, KeyTurns()))


async def test_a_cap_holds_whatever_the_isolation_level_of_the_database(
    postgres_url: str, store: PostgresStore
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        change = f"alter database \"{name}\" set default_transaction_isolation = 'repeatable read'"
        connection.execute(change.encode())
    async with opened(PostgresStore(postgres_url)) as strict:
        # Different types, so that no two claims choose the same job and conflict on it.
        claims = await asyncio.gather(*[claim(strict, f"t{n}") for n in range(8)])
    assert sum(len(each.jobs) for each in claims) == CAP


async def test_a_frozen_claimer_holds_up_the_others_for_two_seconds(
    postgres_url: str, store: PostgresStore
) -> None:
    with closing(psycopg.connect(postgres_url)) as frozen:
        sql = store._sql["queue_state_locked"].replace("$1::text", "'default'")
        frozen.execute(sql.encode())
        began = asyncio.get_running_loop().time()
        waiting = claim(store)
        done, _ = await asyncio.wait({waiting}, timeout=1)
        assert not done, "the claim did not wait for the lock"
        assert len((await waiting).jobs) == 3
        assert asyncio.get_running_loop().time() - began < 5
