"""Sequences: continuation of a job, and the fields that its successor inherits."""

from __future__ import annotations

from datetime import datetime

from headway.domain.due_time import After, At
from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.settlement import Complete, Fail
from headway.errors import DuplicateJob, JobNotFound
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, T0, StoreCases, at

case = StoreCases("sequences")


@case
async def a_successor_is_stored_with_the_completion(store: Store) -> None:
    first = await kit.running(store, type="first", root_id=None)
    following = kit.successor_of(first, type="second", input='"go"', queue="q2", priority=4)
    settled = await kit.complete(store, first, '"one"', following, now=at(3))
    assert settled.freed == []
    stored = await kit.read(store, following.id)
    assert (stored.state, stored.run_at, stored.created_at) == (JobState.PENDING, at(3), at(3))
    assert (stored.type, stored.input, stored.queue) == ("second", '"go"', "q2")
    assert (stored.priority, stored.position) == (4, 1)
    assert (stored.sequence_id, stored.sequence_type) == (first.id, "first")
    assert (stored.root_id, stored.origin_id) == (first.id, first.id)
    before = await kit.read(store, first.id)
    assert (before.state, before.output) == (JobState.COMPLETED, '"one"')


@case
async def a_successor_is_claimed_with_its_sequence(store: Store) -> None:
    first = await kit.running(store, type="first")
    await kit.complete(store, first, successor=kit.successor_of(first, type="second", queue="q2"))
    second = await kit.claim_one(store, "q2", types=("second",), now=at(2))
    assert (second.sequence_id, second.sequence_type) == (first.id, "first")
    assert (second.root_id, second.origin_id, second.position) == (first.id, first.id, 1)
    assert second.lease.version == 1


@case
async def a_refused_completion_stores_no_successor(store: Store) -> None:
    first = await kit.running(store)
    before = await kit.snapshot(store)
    change = Complete(first.id, kit.new_token(), None, kit.successor_of(first))
    assert (await kit.settle(store, change)).verdicts == [Verdict.MISMATCH]
    assert await kit.snapshot(store) == before


@case
async def a_job_of_a_schedule_is_read_and_claimed_with_its_tick(store: Store) -> None:
    job = await kit.running_scheduled(store, "nightly", at(-7))
    assert (job.schedule, job.scheduled_for) == ("nightly", at(-7))
    stored = await kit.read(store, job.id)
    assert (stored.schedule, stored.scheduled_for) == ("nightly", at(-7))


@case
async def a_successor_inherits_schedule_and_tick(store: Store) -> None:
    nightly = await kit.running_scheduled(store, "nightly", at(-7))
    hourly = await kit.running_scheduled(store, "hourly", at(-5))
    plain = await kit.running(store)
    jobs = {job.id: (job, kit.successor_of(job)) for job in (nightly, plain, hourly)}
    await kit.apply(
        store, *(Complete(job.id, job.lease.token, None, after) for job, after in jobs.values())
    )
    inherited = [await kit.read(store, after.id) for _, after in jobs.values()]
    assert [(job.schedule, job.scheduled_for) for job in inherited] == [
        ("nightly", at(-7)),
        (None, None),
        ("hourly", at(-5)),
    ]


@case
async def a_successor_with_blockers_inherits_schedule_and_tick(store: Store) -> None:
    nightly = await kit.running_scheduled(store, "nightly", at(-7))
    plain = await kit.running(store)
    blocker = await kit.add(store)
    successors = [kit.successor_of(job, blockers=(blocker,)) for job in (nightly, plain)]
    await kit.apply(
        store,
        *(
            Complete(job.id, job.lease.token, None, after)
            for job, after in zip((nightly, plain), successors, strict=True)
        ),
    )
    inherited = [await kit.read(store, after.id) for after in successors]
    assert [(job.state, job.schedule, job.scheduled_for) for job in inherited] == [
        (JobState.BLOCKED, "nightly", at(-7)),
        (JobState.BLOCKED, None, None),
    ]


SCHEDULES: dict[str, tuple[At | After, datetime]] = {
    "after": (After(seconds=30), at(31)),
    "at": (At(at(77)), at(77)),
    "past": (At(at(-77)), at(1)),
}


@case.each(SCHEDULES)
async def a_successor_can_be_scheduled(store: Store, variant: tuple[At | After, datetime]) -> None:
    schedule, expected = variant
    first = await kit.running(store)
    following = kit.successor_of(first, queue="q2", schedule=schedule)
    await kit.complete(store, first, successor=following)
    assert (await kit.read(store, following.id)).run_at == expected


@case
async def a_long_sequence_ends_with_its_last_job(store: Store) -> None:
    job = await kit.running(store, queue="loop")
    for step in range(1, 10):
        await kit.complete(store, job, str(step), kit.successor_of(job, queue="loop"), now=at(step))
        job = await kit.claim_one(store, "loop", now=at(step))
        assert job.position == step
    await kit.complete(store, job, '"end"', now=at(10))
    last = await kit.last_of(store, job.sequence_id)
    assert (last.position, last.output, last.state) == (9, '"end"', JobState.COMPLETED)
    jobs = await kit.everything(store)
    assert sorted(job.position for job in jobs) == list(range(10))
    assert {job.sequence_id for job in jobs} == {job.sequence_id}


@case
async def a_sequence_has_the_state_of_its_last_job(store: Store) -> None:
    first = await kit.running(store)
    assert (await kit.last_of(store, first.id)).state is JobState.RUNNING
    await kit.complete(store, first, successor=kit.successor_of(first, queue="q2"))
    assert (await kit.last_of(store, first.id)).state is JobState.PENDING
    second = await kit.claim_one(store, "q2", now=at(2))
    await kit.apply(store, Fail(second.id, second.lease.token, ERROR), now=at(3))
    last = await kit.last_of(store, first.id)
    assert (last.state, last.last_error) == (JobState.FAILED, ERROR)
    assert await kit.state_of(store, first.id) is JobState.COMPLETED


@case
async def many_sequences_go_on_in_one_batch(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(20)]
    following = [kit.successor_of(job, queue="q2", input=job.id) for job in jobs]
    await kit.apply(
        store,
        *[
            Complete(job.id, job.lease.token, None, next)
            for job, next in zip(jobs, following, strict=True)
        ],
    )
    seconds = await kit.claim(store, "q2", now=at(2))
    assert [job.id for job in seconds] == [job.id for job in following]
    assert all(job.input == job.sequence_id for job in seconds)


@case
async def a_refused_item_keeps_no_other_from_going_on(store: Store) -> None:
    one, two = await kit.running(store), await kit.running(store)
    following = kit.successor_of(two, queue="q2")
    settled = await kit.settle(
        store,
        Complete(one.id, kit.new_token(), None, kit.successor_of(one, queue="q2")),
        Complete(two.id, two.lease.token, None, following),
    )
    assert settled.verdicts == [Verdict.MISMATCH, Verdict.APPLIED]
    assert [job.id for job in await kit.claim(store, "q2", now=at(2))] == [following.id]


@case
async def a_successor_whose_given_id_is_taken_is_an_error(store: Store) -> None:
    taken = await kit.add(store)
    first = await kit.running(store)
    before = await kit.snapshot(store)
    with raises(DuplicateJob):
        await kit.complete(store, first, successor=kit.successor_of(first, id=taken, id_given=True))
    assert await kit.snapshot(store) == before


@case
async def a_successor_with_an_unknown_blocker_is_an_error(store: Store) -> None:
    first = await kit.running(store)
    before = await kit.snapshot(store)
    with raises(JobNotFound):
        await kit.complete(
            store, first, successor=kit.successor_of(first, blockers=(kit.new_id(),))
        )
    assert await kit.snapshot(store) == before


@case
async def jobs_started_by_a_job_are_sequences_of_their_own(store: Store) -> None:
    parent = await kit.running(store)
    child = await kit.add(store, root_id=parent.root_id, origin_id=parent.id)
    stored = await kit.read(store, child)
    assert (stored.sequence_id, stored.root_id) == (child, parent.id)
    assert (stored.origin_id, stored.position) == (parent.id, 0)
    assert (await kit.last_of(store, parent.id)).id == parent.id
    assert stored.created_at == T0
