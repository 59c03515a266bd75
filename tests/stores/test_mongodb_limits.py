"""Limits in MongoDB: locks of queues, their conflicts, claimers that are gone, and plans."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from headway.domain.job import JobState
from headway.domain.limits.queue_limits import QueueLimits, QueueState, StoredLimits
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import JobFilter
from headway.domain.settlement import Release
from headway.limits.changes import spend
from headway.limits.claim import LimitedClaim, claim_limited
from headway.limits.key_claim import KeyTurns
from headway.stores.mongodb import MongoStore
from headway.stores.mongodb.claim import LEFT_OUT_FOR
from headway.stores.mongodb.runners import IDLE, begin
from headway.testing.conformance.store.kit import new_job, new_token
from tests.stores.test_mongodb import ANSWERS_LOST, failing
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.stores import opened

Client = AsyncMongoClient[dict[str, Any]]
Q = "limited"


@pytest.fixture
async def store(mongo_url: str) -> AsyncIterator[MongoStore]:
    async with opened(MongoStore(mongo_url)) as store:
        yield store


async def limit(store: MongoStore, limits: QueueLimits) -> None:
    state = QueueState(name=Q, limits=StoredLimits(declared=limits))
    await store.run(store.save_queue, state)


async def add(store: MongoStore, count: int, *, keys: int = 0, **options: Any) -> None:
    jobs = [
        new_job(queue=Q, key=f"k{number % keys:03}" if keys else None, **options)
        for number in range(count)
    ]
    await store.run(store.insert, jobs)


def order(wanted: int, *, lease_for: float = 60.0) -> ClaimOrder:
    return ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=lease_for,
        queues=(QueueShare(Q, wanted),),
        types=("work",),
        limit=wanted,
        limited=True,
    )


async def claim(
    store: MongoStore, wanted: int, turns: KeyTurns | None = None, **options: Any
) -> LimitedClaim:
    return await store.run(claim_limited, store, order(wanted, **options), turns or KeyTurns())


async def give_back(store: MongoStore, answer: LimitedClaim) -> None:
    await store.run(store.settle, [Release(job.id, job.lease.token) for job in answer.jobs])


async def running(store: MongoStore) -> int:
    found = await store.run(store.count, JobFilter(states=(JobState.RUNNING,)), 1_000)
    return found.value


async def test_32_claimers_of_a_queue_make_progress_and_keep_its_cap(
    store: MongoStore, mongo_url: str
) -> None:
    await limit(store, QueueLimits(running=5, per_key=2))
    await add(store, 200, keys=10)
    rounds: Counter[int] = Counter()
    most = 0
    ended = asyncio.Event()

    async def claimer(store: MongoStore, number: int) -> None:
        while rounds[number] < 3:
            answer = await claim(store, 2)
            rounds[number] += bool(answer.jobs)
            await asyncio.sleep(0.005)
            await give_back(store, answer)

    async def watcher() -> None:
        nonlocal most
        while not ended.is_set():
            keys = await store.run(store.running_keys, Q)
            most = max(most, sum(keys.values()))
            assert all(count <= 2 for count in keys.values()), keys

    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(opened(MongoStore(mongo_url))) for _ in range(4)]
        watching = asyncio.create_task(watcher())
        async with asyncio.timeout(60):
            await asyncio.gather(*[claimer(others[n % 4], n) for n in range(32)])
        ended.set()
        await watching
    assert 0 < most <= 5


async def test_claimers_of_a_queue_that_is_only_fair_do_not_wait_for_one_another(
    store: MongoStore, mongo_url: str
) -> None:
    await limit(store, QueueLimits(fair=True))
    await add(store, 400, keys=20)
    seen: Counter[str] = Counter()

    async def claimer(store: MongoStore) -> None:
        turns = KeyTurns()
        while (answer := await claim(store, 10, turns)).jobs:
            seen.update(job.id for job in answer.jobs)

    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(opened(MongoStore(mongo_url))) for _ in range(4)]
        async with asyncio.timeout(60):
            await asyncio.gather(*[claimer(others[n % 4]) for n in range(8)])
    assert (len(seen), set(seen.values())) == (400, {1})


async def test_a_queue_is_free_soon_after_its_claimer_was_killed(
    store: MongoStore, mongo_url: str
) -> None:
    await limit(store, QueueLimits(running=5))
    await add(store, 10)
    async with opened(MongoStore(mongo_url)) as other:
        assert other._client is not None
        session = other._client.start_session()
        await begin(session, brief=True)
        body = {"findAndModify": "headway.queue", "query": {"_id": Q}}
        database = other._client.get_default_database()
        await database.command(body | {"update": {"$inc": {"locks": 1}}}, session=session)
        began = time.monotonic()
        async with asyncio.timeout(20):
            answer = await claim(store, 3)
        assert len(answer.jobs) == 3
        assert IDLE <= time.monotonic() - began < 3 * IDLE


async def test_transactions_of_the_user_are_waited_for(store: MongoStore) -> None:
    await limit(store, QueueLimits(running=5))
    await add(store, 10)
    async with store.begin() as tx:
        await store.run_in(tx, store.queue_state, Q, lock=True)
        waiting = asyncio.create_task(claim(store, 3))
        done, _ = await asyncio.wait([waiting], timeout=IDLE + 2)
        assert not done
    assert len((await waiting).jobs) == 3


async def test_a_job_that_a_transaction_has_changed_is_left_out(store: MongoStore) -> None:
    await limit(store, QueueLimits(running=8, per_key=1))
    first, *others = [new_job(queue=Q, key=f"k{number}") for number in range(8)]
    await store.run(store.insert, [first, *others])
    async with store.begin() as tx:
        await store.run_in(tx, store.cancel, [first.id])
        began = time.monotonic()
        answer = await claim(store, 8)
        assert {job.id for job in answer.jobs} == {job.id for job in others}
        assert time.monotonic() - began < LEFT_OUT_FOR


@pytest.mark.parametrize("per_key", [None, 1])
async def test_a_claim_whose_answer_was_lost_is_answered_once(
    store: MongoStore, mongo_replica_set: MongoReplicaSet, per_key: int | None
) -> None:
    await limit(store, QueueLimits(running=2, per_key=per_key))
    await add(store, 10, keys=10)
    with failing(mongo_replica_set, "commitTransaction", **ANSWERS_LOST["commitTransaction"]):
        answer = await claim(store, 5)
    assert len(answer.jobs) == await running(store) == 2


async def test_spending_waits_for_claims(store: MongoStore) -> None:
    await limit(store, QueueLimits(running=100))
    await add(store, 60)
    answers = await asyncio.gather(
        *[claim(store, 2) for _ in range(10)],
        *[store.run(spend, store, [(Q, 3)]) for _ in range(5)],
    )
    assert sum(len(answer.jobs) for answer in answers if answer is not None) == 20


async def test_keys_are_found_by_index(store: MongoStore, mongo_url: str) -> None:
    await limit(store, QueueLimits(running=1_000, per_key=5, fair=True))
    await add(store, 3_000, keys=3)
    await add(store, 50, keys=25, priority=5)
    async with Client(mongo_url) as client:
        database = client.get_default_database()
        turns = KeyTurns()
        for priority in (0, 5):  # no index tells that all jobs have keys
            turns.looked_for_keyless(Q, priority, 60.0, found=False)
        await database.command("profile", 2)
        answer = await claim(store, 30, turns)
        assert len({job.key for job in answer.jobs}) == 25
        assert await store.run(store.priorities, Q) == [5, 0]
        keys = await store.run(store.keys_in_turn, order(9), 0, 9, after="k000")
        assert keys == ["k001", "k002"]
        await store.run(store.keys_in_order, order(9), 0, 9)
        await store.run(store.running_keys, Q)
        await database.command("profile", 0)
        seen = (
            await database["system.profile"].find({"command.aggregate": {"$exists": 1}}).to_list()
        )
    assert len(seen) > 5
    for entry in seen:
        assert "COLLSCAN" not in entry.get("planSummary", ""), entry
        assert entry.get("docsExamined", 0) <= 150, entry


async def test_jobs_without_a_key_are_not_in_the_index_of_keys(
    store: MongoStore, mongo_url: str
) -> None:
    await add(store, 20)
    await add(store, 3, keys=3)
    async with Client(mongo_url) as client:
        database = client.get_default_database()
        found = await database.command("validate", "headway.job")
    assert found["keysPerIndex"]["keyed"] == 3
