"""trigger: a job that is scheduled for later becomes due now."""

from __future__ import annotations

import msgspec

from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.schedule import After
from headway.ports.store import Store
from headway.testing.conformance.store.kit import (
    T0,
    StoreCases,
    add,
    at,
    claim,
    claim_one,
    in_state,
    new_id,
    read,
    snapshot,
)

case = StoreCases("trigger")


@case
async def a_job_that_waits_for_its_time_is_due_now(store: Store) -> None:
    job_id = await add(store, queue="later", schedule=After(hours=5))
    before = await read(store, job_id)
    assert await store.run(store.trigger, [job_id], now=at(3)) == [Verdict.APPLIED]
    assert await read(store, job_id) == msgspec.structs.replace(before, run_at=at(3))
    assert (await claim_one(store, "later", now=at(3))).id == job_id


@case
async def a_job_that_is_due_keeps_its_place(store: Store) -> None:
    first, second = await add(store), await add(store, now=at(1))
    assert await store.run(store.trigger, [first], now=at(2)) == [Verdict.APPLIED]
    assert [job.id for job in await claim(store, now=at(2))] == [first, second]
    assert (await read(store, first)).run_at == T0


@case.each({str(state): state for state in JobState if state is not JobState.PENDING})
async def others_stay_as_they_are(store: Store, state: JobState) -> None:
    job_id = await in_state(store, state)
    before = await snapshot(store)
    assert await store.run(store.trigger, [job_id], now=at(7)) == [Verdict.WRONG_STATE]
    assert await snapshot(store) == before


@case
async def each_job_of_a_batch_is_answered(store: Store) -> None:
    one, two = [await add(store, schedule=After(hours=5)) for _ in range(2)]
    verdicts = await store.run(store.trigger, [one, new_id(), two], now=at(3))
    assert verdicts == [Verdict.APPLIED, Verdict.NOT_FOUND, Verdict.APPLIED]
    assert (await read(store, two)).run_at == at(3)
