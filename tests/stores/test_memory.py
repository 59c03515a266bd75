"""What only the memory store has: transactions that lock row by row, and data kept with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from headway.domain.job import JobState
from headway.domain.lease import Held, Verdict
from headway.domain.settlement import Complete
from headway.errors import ConfigurationError, StoreClosed, StoreError
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.stores.memory import MemoryStore, MemoryTransaction
from headway.testing.conformance.store.kit import (
    LEASE,
    T0,
    add,
    at,
    claim,
    claim_one,
    complete,
    everything,
    new_job,
    order,
    read,
    running,
    settle,
    snapshot,
    state_of,
    successor_of,
)


@pytest.fixture
async def memory() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    await store.open()
    yield store
    await store.close()


def test_it_is_a_store() -> None:
    store: Store = MemoryStore()
    assert store.name == "memory"


async def test_a_store_that_was_never_opened_is_closed() -> None:
    store = MemoryStore()
    with pytest.raises(StoreClosed):
        await store.run(store.counts)
    await store.close()


async def test_what_is_stored_survives_closing(memory: MemoryStore) -> None:
    job_id = await add(memory)
    await memory.close()
    await memory.open()
    assert (await claim_one(memory)).id == job_id


async def test_others_go_on_while_a_transaction_is_open(memory: MemoryStore) -> None:
    first, second = await add(memory), await add(memory, queue="other")
    async with memory.begin() as tx:
        await memory.run_in(tx, memory.cancel, [first], now=at(1))
        assert [job.id for job in await claim(memory, "default", "other")] == [second]
        third = await add(memory, queue="third")
        assert (await claim_one(memory, "third")).id == third
    assert await state_of(memory, first) is JobState.CANCELLED


async def test_a_job_passed_over_by_claimers_is_found_after_a_rollback(
    memory: MemoryStore,
) -> None:
    job_id = await add(memory)
    with pytest.raises(LookupError):
        async with memory.begin() as tx:
            await memory.run_in(tx, memory.cancel, [job_id], now=at(1))
            assert await claim(memory) == []
            raise LookupError
    assert (await claim_one(memory)).id == job_id


async def test_jobs_inserted_in_a_transaction_are_not_claimed_before_its_end(
    memory: MemoryStore,
) -> None:
    async with memory.begin() as tx:
        jobs = [new_job(), new_job()]
        await memory.run_in(tx, memory.insert, jobs, now=T0)
        assert await claim(memory) == []
        (own,) = await memory.run_in(tx, memory.claim, order(limit=1), now=T0)
        assert own.id == jobs[0].id
    assert [job.id for job in await claim(memory)] == [jobs[1].id]


async def test_a_change_to_an_owned_job_waits_for_the_end(memory: MemoryStore) -> None:
    job = await running(memory)
    other = await running(memory)
    async with memory.begin() as tx:
        await memory.run_in(tx, memory.current, [job.id], lock=True)
        both = [Complete(other.id, other.lease.token), Complete(job.id, job.lease.token, "2")]
        waiting = asyncio.create_task(settle(memory, *both))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert await state_of(memory, other.id) is JobState.RUNNING  # nothing of it has happened
        done = [Complete(job.id, job.lease.token, "1")]
        await memory.run_in(tx, memory.settle, done, now=at(1))
    assert (await waiting).verdicts == [Verdict.APPLIED, Verdict.ALREADY]
    assert (await read(memory, job.id)).output == "1"


async def test_a_thread_waits_for_the_end(memory: MemoryStore) -> None:
    job_id = await add(memory)
    async with memory.begin() as tx:
        await memory.run_in(tx, memory.current, [job_id], lock=True)
        cancelling = asyncio.create_task(
            asyncio.to_thread(memory.run_sync, memory.cancel, [job_id], now=at(1))
        )
        await asyncio.sleep(0)
        await memory.run_in(tx, memory.trigger, [job_id], now=at(1))
    assert await cancelling == [Verdict.APPLIED]


async def test_who_stops_waiting_disturbs_nobody(memory: MemoryStore) -> None:
    job_id = await add(memory)
    async with memory.begin() as tx:
        await memory.run_in(tx, memory.current, [job_id], lock=True)
        waiting = [
            asyncio.create_task(memory.run(memory.cancel, [job_id], now=at(1))) for _ in range(2)
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        assert waiting[0].cancelled()
    assert await waiting[1] == [Verdict.APPLIED]


async def test_a_heartbeat_goes_through_an_open_transaction(memory: MemoryStore) -> None:
    job, other = await running(memory), await running(memory)
    held = [Held(each.id, each.lease.token) for each in (job, other)]
    with pytest.raises(LookupError):
        async with memory.begin() as tx:
            await memory.run_in(tx, memory.current, [job.id], lock=True)
            verdicts = await asyncio.to_thread(
                memory.run_sync, memory.extend, held, LEASE, now=at(20)
            )
            assert verdicts == [Verdict.APPLIED, Verdict.APPLIED]
            done = [Complete(job.id, job.lease.token, "1")]
            settled = await memory.run_in(tx, memory.settle, done, now=at(LEASE + 5))
            assert settled.verdicts == [Verdict.APPLIED]
            verdicts = await memory.run(memory.extend, held, LEASE, now=at(40))
            assert verdicts == [Verdict.APPLIED, Verdict.APPLIED]
            raise LookupError
    stored = await read(memory, job.id)
    assert stored.lease is not None
    assert stored.lease.until == at(40 + LEASE)
    await complete(memory, job, now=at(60))


async def test_blockers_completed_in_two_transactions_free_their_dependent(
    memory: MemoryStore,
) -> None:
    jobs = [await running(memory) for _ in range(2)]
    waiting = await add(memory, blockers=tuple(job.id for job in jobs))

    async def completing(index: int) -> None:
        async with memory.begin() as tx:
            done = [Complete(jobs[index].id, jobs[index].lease.token)]
            await memory.run_in(tx, memory.settle, done, now=at(1))
            for _ in range(10):
                await asyncio.sleep(0)

    await asyncio.gather(completing(0), completing(1))
    assert await state_of(memory, waiting) is JobState.PENDING


async def test_a_dependent_created_in_a_transaction_holds_its_blocker(
    memory: MemoryStore,
) -> None:
    blocker = await running(memory)
    dependent = new_job(blockers=(blocker.id,))
    async with memory.begin() as tx:
        await memory.run_in(tx, memory.insert, [dependent], now=at(1))
        completing = asyncio.create_task(complete(memory, blocker))
        for _ in range(10):
            await asyncio.sleep(0)
    assert [freed.job_id for freed in (await completing).freed] == [dependent.id]


async def test_transactions_that_wait_for_each_other_are_told(memory: MemoryStore) -> None:
    ids = [await add(memory), await add(memory)]

    async def locking(first: str, second: str) -> None:
        async with memory.begin() as tx:
            await memory.run_in(tx, memory.cancel, [first], now=at(1))
            await asyncio.sleep(0)
            await memory.run_in(tx, memory.cancel, [second], now=at(1))

    results = await asyncio.gather(locking(*ids), locking(*ids[::-1]), return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [StoreError]
    assert [await state_of(memory, job_id) for job_id in ids] == [JobState.CANCELLED] * 2


async def test_an_error_inside_undoes_the_operation_and_not_the_transaction(
    memory: MemoryStore,
) -> None:
    job = await running(memory)

    def flow() -> Operation[None]:
        done = [Complete(job.id, job.lease.token, "1", successor_of(job))]
        yield from memory.settle(done, now=at(1))
        yield from memory.insert([new_job(queue="gone")], now=at(1))
        raise LookupError

    async with memory.begin() as tx:
        kept = new_job()
        await memory.run_in(tx, memory.insert, [kept], now=at(1))
        with pytest.raises(LookupError):
            await memory.run_in(tx, flow)
        (seen,) = await memory.run_in(tx, memory.get, [job.id])
        assert seen is not None
        assert seen.state is JobState.RUNNING
    assert sorted(stored.id for stored in await everything(memory)) == sorted([job.id, kept.id])
    await complete(memory, job)


async def test_a_pause_is_undone_with_its_transaction(memory: MemoryStore) -> None:
    await memory.run(memory.pause, "b", True, now=T0)
    before = await memory.run(memory.queues)
    with pytest.raises(LookupError):
        async with memory.begin() as tx:
            await memory.run_in(tx, memory.pause, "a", True, now=T0)
            await memory.run_in(tx, memory.pause, "b", False, now=T0)
            raise LookupError
    assert await memory.run(memory.queues) == before


async def test_data_is_kept_together_with_jobs(memory: MemoryStore) -> None:
    async with memory.begin() as tx:
        tx.data["paid"] = 1
        tx.data["shipped"] = 2
        assert memory.data == {}
        await memory.run_in(tx, memory.insert, [new_job()], now=T0)
    with pytest.raises(LookupError):
        async with memory.begin() as tx:
            assert tx.data["paid"] == 1
            tx.data["paid"] = 3
            del tx.data["shipped"]
            assert dict(tx.data) == {"paid": 3}
            assert len(tx.data) == 1
            raise LookupError
    assert memory.data == {"paid": 1, "shipped": 2}
    async with memory.begin() as tx:
        del tx.data["shipped"]
        with pytest.raises(KeyError):
            del tx.data["shipped"]
    assert memory.data == {"paid": 1}


def test_transactions_without_a_loop() -> None:
    store = MemoryStore()
    asyncio.run(store.open())
    job = new_job()
    with cast(MemoryTransaction, store.begin()) as tx:
        store.run_in_sync(tx, store.insert, [job], now=T0)
    with pytest.raises(LookupError), cast(MemoryTransaction, store.begin()) as tx:
        store.run_in_sync(tx, store.cancel, [job.id], now=T0)
        raise LookupError
    (stored,) = store.run_sync(store.get, [job.id])
    assert stored is not None
    assert stored.state is JobState.PENDING


async def test_a_transaction_that_has_ended_is_refused(memory: MemoryStore) -> None:
    async with memory.begin() as tx:
        pass
    before = await snapshot(memory)
    with pytest.raises(StoreError, match="ended"):
        await memory.run_in(tx, memory.insert, [new_job()])
    with pytest.raises(ConfigurationError, match="of its own"):
        await memory.run_in(object(), memory.insert, [new_job()])
    other = MemoryStore()
    await other.open()
    async with other.begin() as foreign:
        with pytest.raises(StoreError, match="another store"):
            await memory.run_in(foreign, memory.insert, [new_job()])
    assert await snapshot(memory) == before


async def test_what_is_not_an_operation_of_ours_is_refused(memory: MemoryStore) -> None:
    def strange() -> Operation[None]:
        yield "select 1"

    with pytest.raises(TypeError, match="select 1"):
        await memory.run(strange)
