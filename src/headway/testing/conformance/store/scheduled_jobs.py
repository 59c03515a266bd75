"""insert_scheduled: the jobs of ticks."""

from __future__ import annotations

import asyncio

import msgspec

from headway.domain.due_time import At
from headway.domain.job import JobState
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import T0, StoreCases, at
from headway.testing.conformance.store.schedules import tick_job

case = StoreCases("schedules")


@case
async def the_job_of_a_tick_is_stored_with_every_field(store: Store) -> None:
    job = tick_job(
        type="report.vat",
        input='"„Bücher“"',
        queue="reports",
        priority=7,
        max_attempts=None,
        max_losses=2,
        timeout=0.25,
        schedule=At(at(3.000001)),
        scheduled_for=at(-5.000002),
    )
    bare = tick_job(schedule_name="daily", schedule=At(at(-5)))
    answers = await store.run(store.insert_scheduled, [job, bare], now=T0)
    assert [(each.id, each.run_at, each.deduplicated) for each in answers] == [
        (job.id, at(3.000001), False),
        (bare.id, T0, False),
    ]
    stored = await kit.read(store, job.id)
    plain = msgspec.structs.replace(job, schedule_name=None, scheduled_for=None, id=kit.new_id())
    await kit.insert(store, plain)
    assert stored == msgspec.structs.replace(
        await kit.read(store, plain.id),
        id=job.id,
        sequence_id=job.id,
        root_id=job.id,
        schedule="nightly",
        scheduled_for=at(-5.000002),
    )
    stored = await kit.read(store, bare.id)
    assert (stored.schedule, stored.scheduled_for) == ("daily", at(-5))
    assert (stored.run_at, stored.created_at, stored.max_attempts) == (T0, T0, 20)
    claimed = await kit.claim_one(store, "reports", types=("report.vat",), now=at(4))
    assert (claimed.id, claimed.schedule) == (job.id, "nightly")
    assert claimed.scheduled_for == at(-5.000002)


@case
async def the_job_of_a_tick_is_not_due_before_now(store: Store) -> None:
    past, later = tick_job(schedule=At(at(-3_600))), tick_job(schedule=At(at(60)))
    answers = await store.run(store.insert_scheduled, [past, later, now_job := tick_job()], now=T0)
    assert [answer.run_at for answer in answers] == [T0, at(60), T0]
    assert [job.id for job in await kit.claim(store, now=T0)] == [past.id, now_job.id]
    assert [job.id for job in await kit.claim(store, now=at(60))] == [later.id]


@case
async def the_job_of_a_tick_is_stored_once(store: Store) -> None:
    first = tick_job(input="1")
    await store.run(store.insert_scheduled, [first], now=T0)
    again = msgspec.structs.replace(first, input="2", queue="other")
    new = tick_job()
    answers = await store.run(store.insert_scheduled, [again, new], now=at(1))
    assert [(each.id, each.deduplicated) for each in answers] == [
        (first.id, True),
        (new.id, False),
    ]
    stored = await kit.read(store, first.id)
    assert (stored.input, stored.queue, stored.created_at) == ("1", "default", T0)
    # Whatever became of it.
    await kit.complete(store, await kit.claim_one(store), now=at(2))
    (answer,) = await store.run(store.insert_scheduled, [first], now=at(3))
    assert answer.deduplicated
    assert await kit.state_of(store, first.id) is JobState.COMPLETED


@case
async def of_16_inserts_of_a_tick_one_is_stored(store: Store) -> None:
    jobs = [tick_job(input=str(number)) for number in range(20)]
    answers = await asyncio.gather(
        *[store.run(store.insert_scheduled, jobs, now=T0) for _ in range(16)]
    )
    for number in range(len(jobs)):
        assert sum(not answer[number].deduplicated for answer in answers) == 1
    assert len(await kit.everything(store)) == len(jobs)


@case
async def a_successor_keeps_the_schedule_of_the_first_job(store: Store) -> None:
    job = tick_job()
    await store.run(store.insert_scheduled, [job], now=T0)
    for _ in range(3):
        claimed = await kit.claim_one(store)
        assert (claimed.schedule, claimed.scheduled_for) == ("nightly", at(-5))
        await kit.complete(store, claimed, None, kit.successor_of(claimed))
        claimed = await kit.claim_one(store, now=at(1))
        assert (claimed.schedule, claimed.scheduled_for) == ("nightly", at(-5))
        await kit.complete(store, claimed, None, kit.successor_of(claimed), now=at(1))
        await store.run(store.trigger, [(await kit.last_of(store, job.id)).id], now=at(-1))
