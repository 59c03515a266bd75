"""pause and queues: a paused queue hands out no jobs, and keeps them."""

from __future__ import annotations

from headway.domain.queries import QueueRecord
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import LEASE, StoreCases, at

case = StoreCases("pause")


@case
async def a_paused_queue_hands_out_nothing(store: Store) -> None:
    await kit.add(store, queue="q")
    before = await kit.snapshot(store)
    await store.run(store.pause, "q", True, now=at(1))
    assert await kit.claim(store, "q", now=at(2)) == []
    assert await kit.snapshot(store) == before


@case
async def a_resumed_queue_goes_on_in_order(store: Store) -> None:
    first = await kit.add(store, queue="q")
    await store.run(store.pause, "q", True, now=at(1))
    second = await kit.add(store, queue="q", now=at(2))
    assert await kit.claim(store, "q", now=at(3)) == []
    await store.run(store.pause, "q", False, now=at(4))
    assert [job.id for job in await kit.claim(store, "q", now=at(5))] == [first, second]


@case
async def other_queues_go_on(store: Store) -> None:
    await kit.add(store, queue="paused")
    job_id = await kit.add(store, queue="open")
    await store.run(store.pause, "paused", True, now=at(1))
    assert [job.id for job in await kit.claim(store, "paused", "open", now=at(2))] == [job_id]


@case
async def running_jobs_of_a_paused_queue_may_end(store: Store) -> None:
    job = await kit.running(store, queue="q")
    await store.run(store.pause, "q", True, now=at(1))
    await kit.complete(store, job, now=at(2))


@case
async def a_paused_queue_can_be_reaped(store: Store) -> None:
    await kit.running(store, queue="q")
    await store.run(store.pause, "q", True, now=at(1))
    assert len((await kit.reap(store, now=at(LEASE))).verdicts) == 1
    assert await kit.claim(store, "q", now=at(LEASE)) == []


@case
async def pausing_twice_keeps_the_first_moment(store: Store) -> None:
    await store.run(store.pause, "q", True, now=at(1))
    await store.run(store.pause, "q", True, now=at(9))
    assert await store.run(store.queues) == [QueueRecord("q", at(1))]
    await store.run(store.pause, "q", False, now=at(10))
    await store.run(store.pause, "q", False, now=at(11))
    assert await store.run(store.queues) == [QueueRecord("q", None)]


@case
async def resuming_a_queue_that_was_not_paused_is_fine(store: Store) -> None:
    await store.run(store.pause, "q", False, now=at(1))
    await kit.add(store, queue="q")
    assert (await kit.claim_one(store, "q")).queue == "q"


@case
async def queues_with_jobs_or_a_pause_are_listed_by_name(store: Store) -> None:
    assert await store.run(store.queues) == []
    await kit.add(store, queue="b")
    await kit.add(store, queue="d")
    await kit.add(store, queue="d")
    await store.run(store.pause, "c", True, now=at(2))
    await store.run(store.pause, "d", True, now=at(3))
    await store.run(store.pause, "a", False, now=at(4))
    assert await store.run(store.queues) == [
        QueueRecord("a", None),
        QueueRecord("b", None),
        QueueRecord("c", at(2)),
        QueueRecord("d", at(3)),
    ]
