"""Deletion of a sequence while a job is inserted that waits for it: the sequence stays, or the job
is refused. No stored job has a blocker that does not exist."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headway.client import changes
from headway.domain.job import JobState
from headway.domain.orders import PruneRule
from headway.domain.settlement import Complete
from headway.errors import JobNotFound, SequencesNeeded
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import T0, StoreCases, at

case = StoreCases("blocker_deletion")

Deletion = Callable[[Store, str], Operation[Any]]


def by_root(store: Store, id: str) -> Operation[Any]:
    with suppress(SequencesNeeded):
        yield from changes.delete_sequences(store, [id], False)


def with_dependents(store: Store, id: str) -> Operation[Any]:
    yield from changes.delete_sequences(store, [id], True)


def removing(store: Store, id: str) -> Operation[Any]:
    yield from store.delete_ended([id])


def pruning(store: Store, id: str) -> Operation[Any]:
    (job,) = yield from store.get([id])
    assert job is not None
    rule = PruneRule(state=job.state, older_than=1.0, types=(job.sequence_type,))
    yield from store.prune(rule, 10, now=at(60))


KEEPING: dict[str, tuple[Deletion, JobState]] = {
    f"{deletion.__name__}, {state}": (deletion, state)
    for deletion in (by_root, removing, pruning)
    for state in (JobState.COMPLETED, JobState.CANCELLED)
} | {"by_root, pending": (by_root, JobState.PENDING)}
"""Deletions that leave alone what others wait for, and a state in which each would delete."""

DELETIONS = KEEPING | {"with_dependents, cancelled": (with_dependents, JobState.CANCELLED)}


@case.each(DELETIONS)
async def it_goes_if_nobody_waits(store: Store, variant: tuple[Deletion, JobState]) -> None:
    deletion, state = variant
    blocker = await kit.in_state(store, state)
    await store.run(deletion, store, blocker)
    assert await store.run(store.get, [blocker]) == [None]


@case.each(KEEPING)
async def what_an_open_transaction_waits_for_stays(
    store: Store, variant: tuple[Deletion, JobState]
) -> None:
    deletion, state = variant
    blocker = await kit.in_state(store, state)
    waiting = kit.new_job(queue="waiting", blockers=(blocker,))
    async with store.begin() as tx:
        await store.run_in(tx, store.insert, [waiting], now=at(2))
        deleting = asyncio.create_task(store.run(deletion, store, blocker))
        await asyncio.wait([deleting], timeout=0.2)  # it may wait for the commit
    await deleting
    assert await kit.state_of(store, blocker) is state
    blocked = state is not JobState.COMPLETED
    assert await kit.state_of(store, waiting.id) is (
        JobState.BLOCKED if blocked else JobState.PENDING
    )


@case
async def what_an_open_transaction_waits_for_goes_with_it(store: Store) -> None:
    blocker = await kit.in_state(store, JobState.CANCELLED)
    waiting = kit.new_job(blockers=(blocker,))
    async with store.begin() as tx:
        await store.run_in(tx, store.insert, [waiting], now=at(2))
        deleting = asyncio.create_task(store.run(with_dependents, store, blocker))
        await asyncio.wait([deleting], timeout=0.2)
    await deleting
    assert await store.run(store.get, [blocker, waiting.id]) == [None, None]


@case.each(DELETIONS)
async def who_comes_to_wait_for_what_is_being_deleted_is_refused(
    store: Store, variant: tuple[Deletion, JobState]
) -> None:
    deletion, state = variant
    blocker = await kit.in_state(store, state)
    waiting = kit.new_job(blockers=(blocker,))
    async with store.begin() as tx:
        await store.run_in(tx, deletion, store, blocker)
        starting = asyncio.create_task(kit.insert(store, waiting, now=at(2)))
        await asyncio.wait([starting], timeout=0.2)  # it may wait for the commit
    with raises(JobNotFound):
        await starting
    assert await store.run(store.get, [blocker, waiting.id]) == [None, None]


@case.each({"removing": removing, "pruning": pruning, "by_root": by_root})
async def a_sequence_is_needed_by_who_waits_for_its_last_job(
    store: Store, deletion: Deletion
) -> None:
    first = await kit.running(store)
    following = kit.successor_of(first, queue=first.queue)
    await kit.complete(store, first, successor=following)
    await kit.complete(store, await kit.claim_one(store, first.queue, now=at(2)), now=at(3))
    waiting = kit.new_job(blockers=(first.id,))
    async with store.begin() as tx:
        await store.run_in(tx, store.insert, [waiting], now=at(4))
        deleting = asyncio.create_task(store.run(deletion, store, first.id))
        await asyncio.wait([deleting], timeout=0.2)
    await deleting
    assert {job.id for job in await kit.everything(store)} == {first.id, following.id, waiting.id}


@case.each({"removing": removing, "pruning": pruning, "by_root": by_root})
async def a_sequence_that_goes_on_meanwhile_is_not_torn(store: Store, deletion: Deletion) -> None:
    first = await kit.read(store, await kit.in_state(store, JobState.CANCELLED))
    following = kit.successor_of(first)
    async with store.begin() as tx:
        await store.run_in(tx, store.retry, [first.id], now=at(2))
        await store.run_in(tx, store.complete_without_lease, first.id, None, following, now=at(3))
        deleting = asyncio.create_task(store.run(deletion, store, first.id))
        await asyncio.wait([deleting], timeout=0.2)  # it may wait for the commit
    await deleting
    left = {job.id for job in await kit.everything(store)}
    assert left == (set() if deletion is by_root else {first.id, following.id})


@case
async def a_blocker_that_is_cancelled_meanwhile_keeps_blocking(store: Store) -> None:
    blocker = await kit.add(store)
    waiting = kit.new_job(blockers=(blocker,))
    async with store.begin() as tx:
        await store.run_in(tx, store.insert, [waiting], now=T0)
        cancelling = asyncio.create_task(store.run(store.cancel, [blocker], now=at(1)))
        await asyncio.wait([cancelling], timeout=0.2)
    await cancelling
    assert await kit.state_of(store, waiting.id) is JobState.BLOCKED
    await store.run(store.retry, [blocker], now=at(2))
    job = await kit.claim_one(store, (await kit.read(store, blocker)).queue, now=at(2))
    settled = await kit.complete(store, job, now=at(3))
    assert [freed.job_id for freed in settled.freed] == [waiting.id]


async def racing_deletions(store: Store, pairs: int) -> None:
    """Blockers that are deleted while their dependents are being created: no dependent is stored
    without its blocker.

    The suite runs some; call it with 2,000 to be sure.
    """
    deletions = (by_root, removing, pruning)
    jobs = [kit.new_job(queue="blockers", type=f"type-{number}") for number in range(pairs)]
    await kit.insert(store, *jobs)
    types = tuple(job.type for job in jobs[::2])
    held = await kit.claim(store, "blockers", types=types, limit=pairs)
    await kit.settle(store, *[Complete(job.id, job.lease.token, "7") for job in held])
    await store.run(store.cancel, [job.id for job in jobs[1::2]], now=at(1))
    at_once = asyncio.Semaphore(16)
    answers: Counter[str] = Counter()

    async def create(blocker: str) -> None:
        try:
            await kit.insert(store, kit.new_job(queue="dependents", blockers=(blocker,)), now=at(2))
        except JobNotFound:
            answers["refused"] += 1
        else:
            answers["stored"] += 1

    async def race(number: int, blocker: str) -> None:
        async with at_once:
            deletion = deletions[number % len(deletions)]
            both = (store.run(deletion, store, blocker), create(blocker))
            await asyncio.gather(*(both if number // 2 % 2 else both[::-1]))

    await asyncio.gather(*[race(number, job.id) for number, job in enumerate(jobs)])
    left = {job.id: job for job in await kit.everything(store)}
    dependents = [job for job in left.values() if job.queue == "dependents"]
    assert [job.id for job in dependents if not left.keys() >= set(job.blockers)] == []
    assert len(left) == 2 * len(dependents)
    assert answers == Counter(stored=len(dependents), refused=pairs - len(dependents))


@case
async def a_blocker_that_is_deleted_meanwhile_strands_nobody(store: Store) -> None:
    await racing_deletions(store, 200)
