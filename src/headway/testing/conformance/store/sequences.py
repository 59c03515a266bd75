"""Sequences: continuation of a job, and the fields that its successor inherits."""

from __future__ import annotations

from datetime import datetime

from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.schedule import After, At
from headway.domain.settlement import Complete, Fail
from headway.errors import DuplicateJob, JobNotFound
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store.kit import (
    ERROR,
    T0,
    StoreCases,
    add,
    apply,
    at,
    claim,
    claim_one,
    complete,
    everything,
    last_of,
    new_id,
    new_token,
    read,
    running,
    settle,
    snapshot,
    state_of,
    successor_of,
)

case = StoreCases("sequences")


@case
async def a_successor_is_stored_with_the_completion(store: Store) -> None:
    first = await running(store, type="first", root_id=None)
    following = successor_of(first, type="second", input='"go"', queue="q2", priority=4)
    settled = await complete(store, first, '"one"', following, now=at(3))
    assert settled.freed == []
    stored = await read(store, following.id)
    assert (stored.state, stored.run_at, stored.created_at) == (JobState.PENDING, at(3), at(3))
    assert (stored.type, stored.input, stored.queue) == ("second", '"go"', "q2")
    assert (stored.priority, stored.position) == (4, 1)
    assert (stored.sequence_id, stored.sequence_type) == (first.id, "first")
    assert (stored.root_id, stored.origin_id) == (first.id, first.id)
    before = await read(store, first.id)
    assert (before.state, before.output) == (JobState.COMPLETED, '"one"')


@case
async def a_successor_is_claimed_with_its_sequence(store: Store) -> None:
    first = await running(store, type="first")
    await complete(store, first, successor=successor_of(first, type="second", queue="q2"))
    second = await claim_one(store, "q2", types=("second",), now=at(2))
    assert (second.sequence_id, second.sequence_type) == (first.id, "first")
    assert (second.root_id, second.origin_id, second.position) == (first.id, first.id, 1)
    assert second.lease.version == 1


@case
async def a_refused_completion_stores_no_successor(store: Store) -> None:
    first = await running(store)
    before = await snapshot(store)
    change = Complete(first.id, new_token(), None, successor_of(first))
    assert (await settle(store, change)).verdicts == [Verdict.MISMATCH]
    assert await snapshot(store) == before


SCHEDULES: dict[str, tuple[At | After, datetime]] = {
    "after": (After(seconds=30), at(31)),
    "at": (At(at(77)), at(77)),
    "past": (At(at(-77)), at(1)),
}


@case.each(SCHEDULES)
async def a_successor_can_be_scheduled(store: Store, variant: tuple[At | After, datetime]) -> None:
    schedule, expected = variant
    first = await running(store)
    following = successor_of(first, queue="q2", schedule=schedule)
    await complete(store, first, successor=following)
    assert (await read(store, following.id)).run_at == expected


@case
async def a_long_sequence_ends_with_its_last_job(store: Store) -> None:
    job = await running(store, queue="loop")
    for step in range(1, 10):
        await complete(store, job, str(step), successor_of(job, queue="loop"), now=at(step))
        job = await claim_one(store, "loop", now=at(step))
        assert job.position == step
    await complete(store, job, '"end"', now=at(10))
    last = await last_of(store, job.sequence_id)
    assert (last.position, last.output, last.state) == (9, '"end"', JobState.COMPLETED)
    jobs = await everything(store)
    assert sorted(job.position for job in jobs) == list(range(10))
    assert {job.sequence_id for job in jobs} == {job.sequence_id}


@case
async def a_sequence_has_the_state_of_its_last_job(store: Store) -> None:
    first = await running(store)
    assert (await last_of(store, first.id)).state is JobState.RUNNING
    await complete(store, first, successor=successor_of(first, queue="q2"))
    assert (await last_of(store, first.id)).state is JobState.PENDING
    second = await claim_one(store, "q2", now=at(2))
    await apply(store, Fail(second.id, second.lease.token, ERROR), now=at(3))
    last = await last_of(store, first.id)
    assert (last.state, last.last_error) == (JobState.FAILED, ERROR)
    assert await state_of(store, first.id) is JobState.COMPLETED


@case
async def many_sequences_go_on_in_one_batch(store: Store) -> None:
    jobs = [await running(store) for _ in range(20)]
    following = [successor_of(job, queue="q2", input=job.id) for job in jobs]
    await apply(
        store,
        *[
            Complete(job.id, job.lease.token, None, next)
            for job, next in zip(jobs, following, strict=True)
        ],
    )
    seconds = await claim(store, "q2", now=at(2))
    assert [job.id for job in seconds] == [job.id for job in following]
    assert all(job.input == job.sequence_id for job in seconds)


@case
async def a_refused_item_keeps_no_other_from_going_on(store: Store) -> None:
    one, two = await running(store), await running(store)
    following = successor_of(two, queue="q2")
    settled = await settle(
        store,
        Complete(one.id, new_token(), None, successor_of(one, queue="q2")),
        Complete(two.id, two.lease.token, None, following),
    )
    assert settled.verdicts == [Verdict.MISMATCH, Verdict.APPLIED]
    assert [job.id for job in await claim(store, "q2", now=at(2))] == [following.id]


@case
async def a_successor_whose_given_id_is_taken_is_an_error(store: Store) -> None:
    taken = await add(store)
    first = await running(store)
    before = await snapshot(store)
    with raises(DuplicateJob):
        await complete(store, first, successor=successor_of(first, id=taken, id_given=True))
    assert await snapshot(store) == before


@case
async def a_successor_with_an_unknown_blocker_is_an_error(store: Store) -> None:
    first = await running(store)
    before = await snapshot(store)
    with raises(JobNotFound):
        await complete(store, first, successor=successor_of(first, blockers=(new_id(),)))
    assert await snapshot(store) == before


@case
async def jobs_started_by_a_job_are_sequences_of_their_own(store: Store) -> None:
    parent = await running(store)
    child = await add(store, root_id=parent.root_id, origin_id=parent.id)
    stored = await read(store, child)
    assert (stored.sequence_id, stored.root_id) == (child, parent.id)
    assert (stored.origin_id, stored.position) == (parent.id, 0)
    assert (await last_of(store, parent.id)).id == parent.id
    assert stored.created_at == T0
