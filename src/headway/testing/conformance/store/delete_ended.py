"""delete_ended: deletes whole sequences, if they have ended and no job waits for them."""

from __future__ import annotations

from headway.domain.job import JobState
from headway.domain.settlement import Fail
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, StoreCases, at

case = StoreCases("delete_ended")


@case.each({str(state): state for state in JobState})
async def only_what_has_ended_goes(store: Store, state: JobState) -> None:
    job_id = await kit.in_state(store, state)
    gone = await store.run(store.delete_ended, [job_id])
    assert gone == ([job_id] if state.terminal else [])
    assert (job_id in {job.id for job in await kit.everything(store)}) is not state.terminal


@case
async def a_sequence_goes_whole_by_any_of_its_jobs(store: Store) -> None:
    for place in (0, 1):
        first = await kit.running(store)
        following = kit.successor_of(first, queue=first.queue)
        await kit.complete(store, first, successor=following)
        await kit.complete(store, await kit.claim_one(store, first.queue, now=at(2)), now=at(3))
        ids = [first.id, following.id]
        assert sorted(await store.run(store.delete_ended, [ids[place]])) == sorted(ids)
    assert await kit.everything(store) == []


@case
async def a_sequence_that_goes_on_stays_whole(store: Store) -> None:
    first = await kit.running(store)
    following = kit.successor_of(first)
    await kit.complete(store, first, successor=following)
    assert await store.run(store.delete_ended, [first.id, following.id]) == []
    assert len(await kit.everything(store)) == 2


@case
async def what_a_job_that_has_not_completed_waits_for_stays(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, blockers=(blocker.id,))
    await kit.apply(store, Fail(blocker.id, blocker.lease.token, ERROR))
    assert await store.run(store.delete_ended, [blocker.id]) == []
    await store.run(store.cancel, [waiting], now=at(2))
    assert await store.run(store.delete_ended, [blocker.id]) == []
    await store.run(store.retry, [waiting], now=at(3))
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    await store.run(store.cancel, [waiting], now=at(4))
    assert await store.run(store.delete_ended, [waiting]) == [waiting]
    assert await store.run(store.delete_ended, [blocker.id]) == [blocker.id]
    assert await kit.attempts_of(store, blocker.id) == []


@case
async def others_of_its_tree_stay(store: Store) -> None:
    root = await kit.running(store)
    child = await kit.add(store, root_id=root.id, origin_id=root.id)
    await kit.complete(store, root)
    assert await store.run(store.delete_ended, [root.id]) == [root.id]
    assert await kit.state_of(store, child) is JobState.PENDING


@case
async def several_go_at_once_and_nonsense_harms_nothing(store: Store) -> None:
    done = [await kit.in_state(store, JobState.COMPLETED) for _ in range(3)]
    pending = await kit.in_state(store, JobState.PENDING)
    gone = await store.run(store.delete_ended, [*done, done[0], pending, kit.new_id()])
    assert sorted(gone) == sorted(done)
    assert await store.run(store.delete_ended, []) == []
