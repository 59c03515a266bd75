"""begin, run_in, after_commit: a transaction takes effect as a whole, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from headway.domain.due_time import After
from headway.domain.job import JobState
from headway.domain.lease import Held, Verdict
from headway.domain.orders import PruneRule
from headway.domain.settlement import Complete, Fail, Release, Reschedule, Retry, Settlement
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, T0, StoreCases, at
from headway.testing.conformance.store.workers import worker

case = StoreCases("transactions", kit.has_transactions)


class Undo(Exception):
    """Raised to leave a transaction without committing it."""


Change = Callable[[Any], Awaitable[object]]


async def inserting(store: Store) -> Change:
    await kit.add(store)
    return lambda tx: store.run_in(tx, store.insert, [kit.new_job(dedup_key="k")], now=T0)


async def inserting_blocked(store: Store) -> Change:
    blocker = await kit.add(store)
    return lambda tx: store.run_in(tx, store.insert, [kit.new_job(blockers=(blocker,))], now=T0)


async def claiming(store: Store) -> Change:
    await kit.insert(store, kit.new_job(), kit.new_job())
    return lambda tx: store.run_in(tx, store.claim, kit.order(limit=5), now=at(1))


async def extending(store: Store) -> Change:
    job = await kit.running(store)
    held = [Held(job.id, job.lease.token)]
    return lambda tx: store.run_in(tx, store.extend, held, 99.0, now=at(1))


async def completing(store: Store) -> Change:
    job = await kit.running(store)
    done = [Complete(job.id, job.lease.token, "1")]
    return lambda tx: store.run_in(tx, store.settle, done, now=at(1))


async def continuing(store: Store) -> Change:
    job = await kit.running(store)
    done = [Complete(job.id, job.lease.token, "1", kit.successor_of(job))]
    return lambda tx: store.run_in(tx, store.settle, done, now=at(1))


async def freeing(store: Store) -> Change:
    job = await kit.running(store)
    await kit.insert(store, *[kit.new_job(blockers=(job.id,)) for _ in range(3)])
    done = [Complete(job.id, job.lease.token, "1")]
    return lambda tx: store.run_in(tx, store.settle, done, now=at(1))


async def failing(store: Store) -> Change:
    one, two = await kit.running(store), await kit.running(store)
    changes: list[Settlement] = [
        Retry(one.id, one.lease.token, 5.0, ERROR),
        Fail(two.id, two.lease.token, ERROR),
    ]
    return lambda tx: store.run_in(tx, store.settle, changes, now=at(1))


async def rescheduling(store: Store) -> Change:
    job = await kit.running(store)
    changes = [Reschedule(job.id, job.lease.token, After(hours=1))]
    return lambda tx: store.run_in(tx, store.settle, changes, now=at(1))


async def cancelling(store: Store) -> Change:
    ids = [await kit.in_state(store, state) for state in (JobState.PENDING, JobState.RUNNING)]
    return lambda tx: store.run_in(tx, store.cancel, ids, now=at(2))


async def retrying(store: Store) -> Change:
    job_id = await kit.in_state(store, JobState.FAILED)
    return lambda tx: store.run_in(tx, store.retry, [job_id], input="new", now=at(2))


async def triggering(store: Store) -> Change:
    job_id = await kit.add(store, schedule=After(hours=1))
    return lambda tx: store.run_in(tx, store.trigger, [job_id], now=at(2))


async def finishing(store: Store) -> Change:
    job = await kit.read(store, await kit.add(store))
    await kit.add(store, blockers=(job.id,))
    return lambda tx: store.run_in(tx, store.complete_without_lease, job.id, "1", None, now=at(2))


async def deleting(store: Store) -> Change:
    root = await kit.in_state(store, JobState.FAILED, dedup_key="k")
    await kit.add(store, root_id=root)
    return lambda tx: store.run_in(tx, store.delete_jobs, [root])


async def pruning(store: Store) -> Change:
    await kit.in_state(store, JobState.FAILED)
    rule = PruneRule(state=JobState.FAILED, older_than=1.0)
    return lambda tx: store.run_in(tx, store.prune, rule, 10, now=at(60))


CHANGES: dict[str, Callable[[Store], Awaitable[Change]]] = {
    change.__name__: change
    for change in (
        inserting,
        inserting_blocked,
        claiming,
        extending,
        completing,
        continuing,
        freeing,
        failing,
        rescheduling,
        cancelling,
        retrying,
        triggering,
        finishing,
        deleting,
        pruning,
    )
}


@case.each(CHANGES)
async def a_rollback_leaves_nothing(
    store: Store, prepare: Callable[[Store], Awaitable[Change]]
) -> None:
    change = await prepare(store)
    before = await kit.snapshot(store)
    with raises(Undo):
        async with store.begin() as tx:
            await change(tx)
            raise Undo
    assert await kit.snapshot(store) == before
    # And it can be done afterwards as if nothing had happened.
    async with store.begin() as tx:
        await change(tx)
    assert await kit.snapshot(store) != before


@case.each(CHANGES)
async def nobody_sees_what_is_not_committed(
    store: Store, prepare: Callable[[Store], Awaitable[Change]]
) -> None:
    change = await prepare(store)
    before = await kit.snapshot(store)
    async with store.begin() as tx:
        await change(tx)
        assert await kit.snapshot(store) == before
    assert await kit.snapshot(store) != before


@case
async def a_transaction_sees_its_own_changes(store: Store) -> None:
    async with store.begin() as tx:
        job = kit.new_job(queue="q")
        await store.run_in(tx, store.insert, [job], now=T0)
        (seen,) = await store.run_in(tx, store.get, [job.id])
        assert seen is not None
        assert seen.state is JobState.PENDING
        (claimed,) = await store.run_in(tx, store.claim, kit.order("q"), now=at(1))
        done = [Complete(claimed.id, claimed.lease.token, "1")]
        settled = await store.run_in(tx, store.settle, done, now=at(2))
        assert settled.verdicts == [Verdict.APPLIED]
    assert (await kit.read(store, job.id)).output == "1"


@case
async def several_operations_commit_together(store: Store) -> None:
    first = await kit.running(store)
    async with store.begin() as tx:
        blocker = kit.new_job(queue="a")
        await store.run_in(tx, store.insert, [blocker], now=at(1))
        await store.run_in(tx, store.insert, [kit.new_job(blockers=(blocker.id,))], now=at(1))
        done = [Complete(first.id, first.lease.token, "1", kit.successor_of(first))]
        await store.run_in(tx, store.settle, done, now=at(1))
    assert len(await kit.everything(store)) == 4


@case
async def an_error_in_the_last_undoes_the_first(store: Store) -> None:
    first = await kit.running(store)
    before = await kit.snapshot(store)
    with raises(Undo):
        async with store.begin() as tx:
            await store.run_in(tx, store.insert, [kit.new_job()], now=at(1))
            done = [Complete(first.id, first.lease.token, "1", kit.successor_of(first))]
            await store.run_in(tx, store.settle, done, now=at(1))
            await store.run_in(tx, store.cancel, [first.id], now=at(1))
            raise Undo
    assert await kit.snapshot(store) == before


@case
async def queues_and_workers_are_rolled_back_too(store: Store) -> None:
    await store.run(store.pause, "paused", True, now=T0)
    await store.run(store.save_worker, worker(id="known"), now=T0)
    queues, workers = await store.run(store.queues), await store.run(store.workers)
    with raises(Undo):
        async with store.begin() as tx:
            await store.run_in(tx, store.pause, "paused", False, now=at(1))
            await store.run_in(tx, store.pause, "other", True, now=at(1))
            await store.run_in(tx, store.save_worker, worker(id="known", running=3), now=at(1))
            await store.run_in(tx, store.save_worker, worker(id="new"), now=at(1))
            await store.run_in(tx, store.delete_workers, ["known"], now=at(1))
            raise Undo
    assert await store.run(store.queues) == queues
    assert await store.run(store.workers) == workers


@case
async def a_refused_change_does_not_spoil_the_transaction(store: Store) -> None:
    job = await kit.running(store)
    async with store.begin() as tx:
        late = [Complete(job.id, job.lease.token)]
        settled = await store.run_in(tx, store.settle, late, now=at(LEASE))
        assert settled.verdicts == [Verdict.EXPIRED]
        inserted = kit.new_job()
        await store.run_in(tx, store.insert, [inserted], now=at(LEASE))
    assert await kit.state_of(store, inserted.id) is JobState.PENDING
    assert await kit.state_of(store, job.id) is JobState.RUNNING


@case
async def a_transaction_that_does_nothing_is_fine(store: Store) -> None:
    async with store.begin():
        pass
    assert await kit.everything(store) == []


@case
async def a_cancelled_task_rolls_back(store: Store) -> None:
    inside = asyncio.Event()

    async def never_ends() -> None:
        async with store.begin() as tx:
            await store.run_in(tx, store.insert, [kit.new_job()], now=T0)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(never_ends())
    await inside.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await kit.everything(store) == []
    assert await kit.add(store)


@case
async def what_was_rolled_back_can_be_claimed_again(store: Store) -> None:
    job_id = await kit.add(store)
    with raises(Undo):
        async with store.begin() as tx:
            (claimed,) = await store.run_in(tx, store.claim, kit.order(), now=at(1))
            assert claimed.id == job_id
            raise Undo
    again = await kit.claim_one(store, now=at(1))
    assert (again.id, again.lease.version) == (job_id, 1)


@case
async def inserted_jobs_can_be_claimed_after_the_commit(store: Store) -> None:
    jobs = [kit.new_job(priority=number) for number in range(5)]
    async with store.begin() as tx:
        await store.run_in(tx, store.insert, jobs, now=T0)
    assert [job.id for job in await kit.claim(store)] == [job.id for job in reversed(jobs)]


@case
async def a_locked_sequence_is_completed_by_who_locked_it(store: Store) -> None:
    job_id = await kit.add(store)
    async with store.begin() as tx:
        (current,) = await store.run_in(tx, store.current, [job_id], lock=True)
        assert current is not None
        assert current.state is JobState.PENDING
        await store.run_in(tx, store.complete_without_lease, job_id, '"yes"', None, now=at(1))
        (current,) = await store.run_in(tx, store.current, [job_id], lock=True)
        assert current is not None
        assert current.output == '"yes"'
    assert await kit.state_of(store, job_id) is JobState.COMPLETED


@case
async def a_held_job_completes_in_its_transaction(store: Store) -> None:
    job = await kit.running(store)
    async with store.begin() as tx:
        held = [Held(job.id, job.lease.token)]
        (verdict,) = await store.run_in(tx, store.extend, held, LEASE, now=at(1))
        assert verdict is Verdict.APPLIED
        done = [Complete(job.id, job.lease.token, "1")]
        settled = await store.run_in(tx, store.settle, done, now=at(2))
        assert settled.verdicts == [Verdict.APPLIED]
    assert await kit.state_of(store, job.id) is JobState.COMPLETED


@case
async def who_held_a_job_before_does_not_extend_the_lease_of_the_next(store: Store) -> None:
    before = await kit.running(store)
    async with store.begin() as tx:
        await store.run_in(tx, store.settle, [Release(before.id, before.lease.token)], now=at(1))
        (after,) = await store.run_in(tx, store.claim, kit.order(before.queue), now=at(1))
        held = [Held(before.id, before.lease.token)]
        extending = asyncio.create_task(store.run(store.extend, held, 10 * LEASE, now=at(1)))
        await asyncio.wait([extending], timeout=0.2)  # it may wait for the commit
    await extending
    assert after.lease.token != before.lease.token
    assert (await kit.read(store, before.id)).lease == after.lease


@case
async def of_two_transactions_one_completes_the_sequence(store: Store) -> None:
    for _ in range(10):
        job_id = await kit.add(store)

        async def finisher(output: str, job_id: str = job_id) -> bool:
            async with store.begin() as tx:
                (current,) = await store.run_in(tx, store.current, [job_id], lock=True)
                assert current is not None
                if current.state.terminal:
                    return False
                await store.run_in(
                    tx, store.complete_without_lease, job_id, output, None, now=at(1)
                )
                return True

        answers = await asyncio.gather(*[finisher(str(number)) for number in range(4)])
        assert answers.count(True) == 1
        assert (await kit.read(store, job_id)).output == str(answers.index(True))


@case
async def callbacks_are_called_after_the_commit_only(store: Store) -> None:
    called: list[str] = []
    async with store.begin() as tx:
        seen = store.after_commit(tx, lambda: called.append("committed"))
        await store.run_in(tx, store.insert, [kit.new_job()], now=T0)
        assert called == []
    assert called == (["committed"] if seen else [])
    with raises(Undo):
        async with store.begin() as tx:
            store.after_commit(tx, lambda: called.append("undone"))
            raise Undo
    assert "undone" not in called


@case
async def one_after_another_is_fine(store: Store) -> None:
    for number in range(10):
        async with store.begin() as tx:
            await store.run_in(tx, store.insert, [kit.new_job()], now=at(number))
    assert len(await kit.everything(store)) == 10


@case
async def many_at_once_all_commit(store: Store) -> None:
    async def transaction() -> None:
        async with store.begin() as tx:
            await store.run_in(tx, store.insert, [kit.new_job()], now=T0)
            await asyncio.sleep(0)
            await store.run_in(tx, store.insert, [kit.new_job()], now=T0)

    await asyncio.gather(*[transaction() for _ in range(12)])
    assert len(await kit.everything(store)) == 24


@case
async def there_are_as_many_at_once_as_the_store_says(store: Store) -> None:
    count = 20 if store.transactions is None else store.transactions
    jobs = [kit.new_job() for _ in range(count)]
    async with AsyncExitStack() as stack:
        for job in jobs:
            tx = await stack.enter_async_context(store.begin())
            await store.run_in(tx, store.insert, [job], now=T0)
        assert not await kit.everything(store)
    assert len(await kit.everything(store)) == count


@case
async def a_further_one_is_given_when_one_has_ended(store: Store) -> None:
    count = 20 if store.transactions is None else store.transactions

    async def further() -> None:
        async with store.begin() as tx:
            await store.run_in(tx, store.insert, [kit.new_job()], now=T0)

    async with AsyncExitStack() as stack:
        for _ in range(count):
            await stack.enter_async_context(store.begin())
        waiting = asyncio.create_task(further())
        await asyncio.sleep(0)
    await waiting
    assert len(await kit.everything(store)) == 1
