"""delete_jobs and dependents: deletes jobs in any state."""

from __future__ import annotations

from headway.domain.job import JobState
from headway.domain.lease import Held, Verdict
from headway.domain.settlement import Complete, Retry
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, StoreCases, at

case = StoreCases("delete_jobs")


@case.each({str(state): state for state in JobState})
async def a_job_in_any_state_can_be_deleted(store: Store, state: JobState) -> None:
    job_id = await kit.in_state(store, state)
    others = {job.id for job in await kit.everything(store)} - {job_id}
    assert await store.run(store.delete_jobs, [job_id]) == [job_id]
    assert {job.id for job in await kit.everything(store)} == others
    assert await store.run(store.get, [job_id]) == [None]


@case
async def what_was_asked_for_goes_and_nothing_else(store: Store) -> None:
    root = await kit.running(store)
    child = await kit.add(store, root_id=root.id, origin_id=root.id)
    following = kit.successor_of(root)
    await kit.complete(store, root, successor=following)
    others = [await kit.add(store), await kit.add(store, root_id=root.id, origin_id=child)]
    asked = [root.id, child, following.id, kit.new_id(), child]
    assert sorted(await store.run(store.delete_jobs, asked)) == sorted(
        [root.id, child, following.id]
    )
    assert sorted(job.id for job in await kit.everything(store)) == sorted(others)


@case
async def deleting_what_is_not_there_is_fine(store: Store) -> None:
    assert await store.run(store.delete_jobs, [kit.new_id()]) == []
    assert await store.run(store.delete_jobs, []) == []


@case
async def history_goes_with_the_job(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 0.0, ERROR))
    await store.run(store.delete_jobs, [job.id])
    assert await kit.attempts_of(store, job.id) == []
    # The same id may come back, and has no past.
    await kit.insert(store, kit.new_job(id=job.id))
    assert await kit.attempts_of(store, job.id) == []


@case
async def the_holder_of_a_deleted_job_is_told(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.delete_jobs, [job.id])
    held = [Held(job.id, job.lease.token)]
    assert await store.run(store.extend, held, LEASE, now=at(1)) == [Verdict.NOT_FOUND]
    settled = await kit.settle(store, Complete(job.id, job.lease.token))
    assert settled.verdicts == [Verdict.NOT_FOUND]
    assert await kit.everything(store) == []


@case
async def a_deleted_job_is_not_handed_out(store: Store) -> None:
    job_id, other = await kit.add(store), await kit.add(store)
    await store.run(store.delete_jobs, [job_id])
    assert [job.id for job in await kit.claim(store)] == [other]


@case
async def a_deleted_key_can_be_used_again(store: Store) -> None:
    old = await kit.add(store, dedup_key="k")
    await store.run(store.delete_jobs, [old])
    (answer,) = await kit.insert(store, kit.new_job(dedup_key="k"))
    assert not answer.deduplicated


@case
async def dependents_are_those_that_were_given_a_sequence(store: Store) -> None:
    one, two = await kit.running(store), await kit.running(store)
    first = await kit.add(store, blockers=(one.id,))
    both = await kit.add(store, blockers=(two.id, one.id))
    await kit.add(store)
    dependents = await store.run(store.dependents, [one.id])
    assert sorted(job.id for job in dependents) == sorted([first, both])
    dependents = await store.run(store.dependents, [two.id, one.id])
    assert sorted(job.id for job in dependents) == sorted([first, both])
    assert [job.id for job in await store.run(store.dependents, [two.id])] == [both]
    some = await store.run(store.dependents, [two.id, one.id], limit=1)
    assert [job.id for job in some] == [min(first, both)]
    assert await store.run(store.dependents, [both, kit.new_id()]) == []


@case
async def dependents_stay_so_when_they_are_free(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, blockers=(blocker.id,))
    await kit.complete(store, blocker)
    assert [job.id for job in await store.run(store.dependents, [blocker.id])] == [waiting]


@case
async def a_blocker_and_its_dependent_can_go_together(store: Store) -> None:
    blocker = await kit.add(store)
    waiting = await kit.add(store, blockers=(blocker,))
    assert sorted(await store.run(store.delete_jobs, [blocker, waiting])) == sorted(
        [blocker, waiting]
    )
    assert await kit.everything(store) == []
    assert await store.run(store.dependents, [blocker]) == []


@case
async def a_dependent_that_is_deleted_bothers_its_blocker_no_more(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, blockers=(blocker.id,))
    await store.run(store.delete_jobs, [waiting])
    assert await store.run(store.dependents, [blocker.id]) == []
    settled = await kit.complete(store, blocker)
    assert settled.freed == []
    assert await kit.state_of(store, blocker.id) is JobState.COMPLETED
