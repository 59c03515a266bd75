"""settle with Release and Reschedule: the job is pending again, and no attempt is counted."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headway.domain.due_time import After, At
from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.settlement import Release, Reschedule, Retry
from headway.domain.validation import LATEST, LONGEST
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, MICROSECOND, T0, StoreCases, at

case = StoreCases("release")


@case
async def a_released_job_is_as_before_but_for_its_version(store: Store) -> None:
    job_id = await kit.add(store)
    before = await kit.read(store, job_id)
    job = await kit.claim_one(store, now=at(2), worker="worker-9")
    await kit.apply(store, Release(job.id, job.lease.token), now=at(3))
    assert await kit.read(store, job_id) == msgspec.structs.replace(
        before, lease_version=1, worker="worker-9", started_at=at(2)
    )
    assert await kit.attempts_of(store, job_id) == []


@case
async def a_released_job_keeps_its_place(store: Store) -> None:
    first = await kit.add(store)
    second = await kit.add(store, now=at(1))
    job = await kit.claim_one(store, now=at(2))
    assert job.id == first
    await kit.apply(store, Release(job.id, job.lease.token), now=at(3))
    assert [again.id for again in await kit.claim(store, now=at(3))] == [first, second]


@case
async def a_released_job_is_claimed_with_the_next_version(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Release(job.id, job.lease.token), now=at(1))
    again = await kit.claim_one(store, job.queue, now=at(1))
    assert (again.lease.version, again.attempts, again.losses) == (2, 0, 0)


@case
async def a_release_keeps_what_was_charged_before(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 0.0, ERROR), now=at(1))
    again = await kit.claim_one(store, job.queue, now=at(1))
    await kit.apply(store, Release(again.id, again.lease.token), now=at(2))
    stored = await kit.read(store, job.id)
    assert (stored.attempts, stored.last_error) == (1, ERROR)
    assert len(await kit.attempts_of(store, job.id)) == 1


@case
async def releasing_twice_is_refused(store: Store) -> None:
    job = await kit.running(store)
    release = Release(job.id, job.lease.token)
    await kit.apply(store, release)
    before = await kit.snapshot(store)
    assert (await kit.settle(store, release)).verdicts == [Verdict.NOT_RUNNING]
    assert await kit.snapshot(store) == before


SCHEDULES: dict[str, tuple[At | After, datetime]] = {
    "after": (After(seconds=60.25), at(65.25)),
    "at": (At(at(90) + MICROSECOND), at(90) + MICROSECOND),
    "past": (At(at(-90)), at(5)),
    "now": (After(), at(5)),
}


@case.each(SCHEDULES)
async def a_rescheduled_job_runs_when_it_asked_to(
    store: Store, variant: tuple[At | After, datetime]
) -> None:
    schedule, expected = variant
    job = await kit.running(store)
    before = await kit.read(store, job.id)
    await kit.apply(store, Reschedule(job.id, job.lease.token, schedule), now=at(5))
    assert await kit.read(store, job.id) == msgspec.structs.replace(
        before, state=JobState.PENDING, run_at=expected, lease=None
    )
    assert await kit.attempts_of(store, job.id) == []


@case
async def a_rescheduled_job_is_due_exactly_then(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Reschedule(job.id, job.lease.token, At(at(90))), now=at(5))
    assert await kit.claim(store, job.queue, now=at(90) - MICROSECOND) == []
    assert (await kit.claim_one(store, job.queue, now=at(90))).id == job.id


@case
async def items_of_a_batch_keep_their_own_schedules(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(4)]
    schedules: list[At | After] = [After(seconds=1), At(at(50)), After(minutes=1), At(T0)]
    await kit.apply(
        store,
        *[Reschedule(j.id, j.lease.token, s) for j, s in zip(jobs, schedules, strict=True)],
        now=at(2),
    )
    times = [(await kit.read(store, job.id)).run_at for job in jobs]
    assert times == [at(3), at(50), at(62), at(2)]


FURTHEST: dict[str, tuple[At | After, datetime]] = {
    "after": (After(seconds=LONGEST), at(5 + LONGEST)),
    "at": (At(LATEST), LATEST),
}


@case.each(FURTHEST)
async def a_job_can_be_rescheduled_as_far_as_it_can_be_scheduled(
    store: Store, variant: tuple[At | After, datetime]
) -> None:
    schedule, expected = variant
    job = await kit.running(store)
    await kit.apply(store, Reschedule(job.id, job.lease.token, schedule), now=at(5))
    assert (await kit.read(store, job.id)).run_at == expected
    assert await kit.claim(store, job.queue, now=at(1e6)) == []
