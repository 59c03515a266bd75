"""complete_without_lease: completion of a job from outside, without a lease."""

from __future__ import annotations

import msgspec

from headway.domain.job import JobState
from headway.domain.lease import Held, Verdict
from headway.domain.settlement import Complete, Fail
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, StoreCases, at

case = StoreCases("complete_without_lease")

UNENDED = {str(s): s for s in (JobState.BLOCKED, JobState.PENDING, JobState.RUNNING)}


@case.each(UNENDED)
async def a_job_that_has_not_ended_completes(store: Store, state: JobState) -> None:
    before = await kit.read(store, await kit.in_state(store, state))
    freed = await store.run(store.complete_without_lease, before.id, '"approved"', None, now=at(5))
    assert freed == []
    assert await kit.read(store, before.id) == msgspec.structs.replace(
        before,
        state=JobState.COMPLETED,
        output='"approved"',
        finished_at=at(5),
        lease=None,
        worker=None,
    )
    assert await kit.claim(store, before.queue, now=at(3600)) == []


@case
async def a_holder_that_comes_later_changes_nothing(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.complete_without_lease, job.id, '"approved"', None, now=at(1))
    before = await kit.snapshot(store)
    settled = await kit.settle(store, Complete(job.id, job.lease.token, '"worked"'), now=at(2))
    assert settled.verdicts == [Verdict.ALREADY]
    settled = await kit.settle(store, Fail(job.id, job.lease.token, ERROR), now=at(2))
    assert settled.verdicts == [Verdict.NOT_RUNNING]
    held = [Held(job.id, job.lease.token)]
    assert await store.run(store.extend, held, LEASE, now=at(2)) == [Verdict.NOT_RUNNING]
    assert await kit.snapshot(store) == before


@case
async def a_successor_from_outside_inherits_schedule_and_tick(store: Store) -> None:
    job = await kit.running_scheduled(store, "nightly", at(-7))
    following = kit.successor_of(job)
    await store.run(store.complete_without_lease, job.id, None, following, now=at(1))
    stored = await kit.read(store, following.id)
    assert (stored.schedule, stored.scheduled_for) == ("nightly", at(-7))


@case
async def a_sequence_can_be_continued_from_outside(store: Store) -> None:
    job = await kit.read(store, await kit.add(store))
    following = kit.successor_of(job, queue="second", input='"next"')
    assert await store.run(store.complete_without_lease, job.id, None, following, now=at(2)) == []
    last = await kit.last_of(store, job.id)
    assert (last.id, last.state, last.created_at) == (following.id, JobState.PENDING, at(2))
    assert (await kit.claim_one(store, "second", now=at(2))).sequence_id == job.id


@case
async def completion_from_outside_frees_what_waited(store: Store) -> None:
    job_id = await kit.add(store)
    waiting = await kit.add(store, queue="waiting", blockers=(job_id,))
    freed = await store.run(store.complete_without_lease, job_id, '"yes"', None, now=at(4))
    assert [(each.job_id, each.queue, each.run_at) for each in freed] == [
        (waiting, "waiting", at(4))
    ]
    assert (await kit.claim_one(store, "waiting", now=at(4))).id == waiting
    assert await store.run(store.blocker_outputs, [waiting]) == {waiting: ['"yes"']}


@case
async def continuing_from_outside_frees_nobody_yet(store: Store) -> None:
    job = await kit.read(store, await kit.add(store))
    waiting = await kit.add(store, blockers=(job.id,))
    following = kit.successor_of(job)
    assert await store.run(store.complete_without_lease, job.id, None, following, now=at(1)) == []
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    freed = await store.run(store.complete_without_lease, following.id, '"end"', None, now=at(2))
    assert [each.job_id for each in freed] == [waiting]


@case
async def a_blocked_job_finished_from_outside_is_not_freed_later(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, queue="waiting", blockers=(blocker.id,))
    await store.run(store.complete_without_lease, waiting, '"anyway"', None, now=at(1))
    before = await kit.read(store, waiting)
    settled = await kit.complete(store, blocker, now=at(2))
    assert settled.freed == []
    assert await kit.read(store, waiting) == before
    assert await kit.claim(store, "waiting", now=at(3)) == []
