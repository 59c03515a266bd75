"""trigger: a job that is scheduled for later becomes due now."""

from __future__ import annotations

import msgspec

from headway.domain.due_time import After
from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import T0, StoreCases, at

case = StoreCases("trigger")


@case
async def a_job_that_waits_for_its_time_is_due_now(store: Store) -> None:
    job_id = await kit.add(store, queue="later", schedule=After(hours=5))
    before = await kit.read(store, job_id)
    assert await store.run(store.trigger, [job_id], now=at(3)) == [Verdict.APPLIED]
    assert await kit.read(store, job_id) == msgspec.structs.replace(before, run_at=at(3))
    assert (await kit.claim_one(store, "later", now=at(3))).id == job_id


@case
async def a_job_that_is_due_keeps_its_place(store: Store) -> None:
    first, second = await kit.add(store), await kit.add(store, now=at(1))
    assert await store.run(store.trigger, [first], now=at(2)) == [Verdict.APPLIED]
    assert [job.id for job in await kit.claim(store, now=at(2))] == [first, second]
    assert (await kit.read(store, first)).run_at == T0


@case.each({str(state): state for state in JobState if state is not JobState.PENDING})
async def others_stay_as_they_are(store: Store, state: JobState) -> None:
    job_id = await kit.in_state(store, state)
    before = await kit.snapshot(store)
    assert await store.run(store.trigger, [job_id], now=at(7)) == [Verdict.WRONG_STATE]
    assert await kit.snapshot(store) == before


@case
async def each_job_of_a_batch_is_answered(store: Store) -> None:
    one, two = [await kit.add(store, schedule=After(hours=5)) for _ in range(2)]
    verdicts = await store.run(store.trigger, [one, kit.new_id(), two], now=at(3))
    assert verdicts == [Verdict.APPLIED, Verdict.NOT_FOUND, Verdict.APPLIED]
    assert (await kit.read(store, two)).run_at == at(3)
