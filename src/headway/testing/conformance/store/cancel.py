"""cancel: jobs that have not ended end."""

from __future__ import annotations

import msgspec

from headway.domain.job import JobState
from headway.domain.lease import Held, Verdict
from headway.domain.settlement import Complete
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import LEASE, StoreCases, at

case = StoreCases("cancel")


@case.each({str(s): s for s in (JobState.BLOCKED, JobState.PENDING, JobState.RUNNING)})
async def a_job_that_has_not_ended_is_cancelled(store: Store, state: JobState) -> None:
    before = await kit.read(store, await kit.in_state(store, state))
    assert await store.run(store.cancel, [before.id], now=at(2)) == [Verdict.APPLIED]
    assert await kit.read(store, before.id) == msgspec.structs.replace(
        before, state=JobState.CANCELLED, finished_at=at(2), lease=None
    )
    assert await kit.claim(store, before.queue, now=at(3600)) == []


@case
async def cancelling_again_changes_nothing(store: Store) -> None:
    job_id = await kit.in_state(store, JobState.CANCELLED)
    before = await kit.snapshot(store)
    assert await store.run(store.cancel, [job_id], now=at(9)) == [Verdict.ALREADY]
    assert await kit.snapshot(store) == before


@case.each({str(s): s for s in (JobState.COMPLETED, JobState.FAILED)})
async def a_job_that_has_ended_otherwise_stays_so(store: Store, state: JobState) -> None:
    job_id = await kit.in_state(store, state)
    before = await kit.snapshot(store)
    assert await store.run(store.cancel, [job_id], now=at(9)) == [Verdict.WRONG_STATE]
    assert await kit.snapshot(store) == before


@case
async def the_holder_of_a_cancelled_job_loses_it(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.cancel, [job.id], now=at(1))
    before = await kit.snapshot(store)
    settled = await kit.settle(store, Complete(job.id, job.lease.token, "1"), now=at(2))
    assert settled.verdicts == [Verdict.NOT_RUNNING]
    held = [Held(job.id, job.lease.token)]
    assert await store.run(store.extend, held, LEASE, now=at(2)) == [Verdict.NOT_RUNNING]
    assert await kit.snapshot(store) == before
    assert await kit.attempts_of(store, job.id) == []


@case
async def a_cancelled_lease_does_not_expire(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.cancel, [job.id], now=at(1))
    assert await store.run(store.expired, 10, now=at(3600)) == []


@case
async def each_job_of_a_batch_is_answered(store: Store) -> None:
    pending = await kit.in_state(store, JobState.PENDING)
    done = await kit.in_state(store, JobState.COMPLETED)
    gone = await kit.in_state(store, JobState.CANCELLED)
    held = await kit.in_state(store, JobState.RUNNING)
    verdicts = await store.run(store.cancel, [pending, done, kit.new_id(), gone, held], now=at(3))
    assert verdicts == [
        Verdict.APPLIED,
        Verdict.WRONG_STATE,
        Verdict.NOT_FOUND,
        Verdict.ALREADY,
        Verdict.APPLIED,
    ]
    assert await kit.state_of(store, held) is JobState.CANCELLED


@case
async def cancelling_nothing_is_fine(store: Store) -> None:
    assert await store.run(store.cancel, [], now=at(1)) == []
