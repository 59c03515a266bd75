"""Overlap: the last sequence has not ended when the next tick comes."""

from __future__ import annotations

import asyncio

from headway.domain.events import ScheduleSkipped
from headway.domain.job import JobState
from headway.domain.schedules.firing_policy import LOOK_AGAIN
from headway.domain.settlement import Fail
from headway.ports.store import Store
from headway.schedules.firing import Fired, fire
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, MICROSECOND, StoreCases
from headway.testing.conformance.store.schedule_firing import (
    HOUR,
    NOON,
    counts,
    end,
    fired_at,
    hourly,
    hours,
    jobs_of,
    ticks_of,
)

case = StoreCases("schedule_firing")


@case
async def skip_starts_nothing_while_the_last_one_runs(store: Store) -> None:
    await kit.put(store, hourly(overlap="skip"))
    await fired_at(store, NOON)
    fired = await fired_at(store, NOON + HOUR)
    assert fired.effects.events == [
        ScheduleSkipped("nightly", kit.TYPE, "default", NOON + HOUR, "overlap", 1, replaced=False)
    ]
    assert await ticks_of(store) == hours(0)
    assert await counts(store) == (1, 1)
    newest, _ = await kit.runs_of(store, "nightly")
    assert (newest.tick, newest.sequence_id, newest.skipped) == (NOON + HOUR, None, "overlap")
    record = await kit.schedule_of(store)
    assert (record.last_tick, record.next_at) == (NOON, NOON + 2 * HOUR)
    await end(store, NOON + HOUR)
    await fired_at(store, NOON + 2 * HOUR)
    assert await ticks_of(store) == hours(0, 2)


@case
async def a_sequence_that_goes_on_has_not_ended(store: Store) -> None:
    await kit.put(store, hourly(overlap="skip"))
    await fired_at(store, NOON)
    first = await kit.claim_one(store, now=NOON)
    await kit.complete(store, first, None, kit.successor_of(first), now=NOON)
    await fired_at(store, NOON + HOUR)
    assert await counts(store) == (1, 1)
    await end(store, NOON + HOUR)
    await fired_at(store, NOON + 2 * HOUR)
    assert await counts(store) == (2, 1)


@case.each({"failed": "fail", "cancelled": "cancel", "deleted": "delete"})
async def the_last_one_has_ended_when_it_is(store: Store, how: str) -> None:
    await kit.put(store, hourly(overlap="skip"))
    await fired_at(store, NOON)
    job = await kit.claim_one(store, now=NOON)
    match how:
        case "fail":
            await kit.apply(store, Fail(job.id, job.lease.token, ERROR), now=NOON)
        case "cancel":
            await store.run(store.cancel, [job.id], now=NOON)
        case _:
            await store.run(store.delete_jobs, [job.id])
    await fired_at(store, NOON + HOUR)
    assert await counts(store) == (2, 0)


@case
async def allow_starts_another_one(store: Store) -> None:
    await kit.put(store, hourly(overlap="allow"))
    for hour in range(3):
        await fired_at(store, NOON + hour * HOUR)
    assert await ticks_of(store) == hours(0, 1, 2)
    assert {job.state for job in await jobs_of(store)} == {JobState.PENDING}
    assert await counts(store) == (3, 0)


@case
async def cancel_ends_the_last_one(store: Store) -> None:
    await kit.put(store, hourly(overlap="cancel"))
    await fired_at(store, NOON)
    running = await kit.claim_one(store, now=NOON, lease_for=7_200.0)
    fired = await fired_at(store, NOON + HOUR)
    assert [job.state for job in await jobs_of(store)] == [JobState.CANCELLED, JobState.PENDING]
    assert [lost.job_id for lost in fired.effects.lost] == [running.id]
    assert fired.effects.ended == [running.id]
    assert await counts(store) == (2, 0)
    await end(store, NOON + HOUR)
    fired = await fired_at(store, NOON + 2 * HOUR)
    assert fired.effects.ended == []
    states = [job.state for job in await jobs_of(store)]
    assert states == [JobState.CANCELLED, JobState.COMPLETED, JobState.PENDING]


@case
async def queue_one_waits_for_the_last_one(store: Store) -> None:
    await kit.put(store, hourly(overlap="queue_one"))
    await fired_at(store, NOON)
    now = NOON + HOUR
    fired = await fired_at(store, now)
    assert (fired.schedules, fired.next_in) == (1, LOOK_AGAIN.total_seconds())
    record = await kit.schedule_of(store)
    assert (record.waiting_tick, record.next_at) == (now, now + LOOK_AGAIN)
    assert await counts(store) == (1, 0)
    await fired_at(store, now + LOOK_AGAIN)
    assert await ticks_of(store) == hours(0)
    await end(store, now)
    fired = await fired_at(store, now + 1.5 * LOOK_AGAIN)
    assert fired.schedules == 0  # it looks again in time, unless it is told
    await fired_at(store, now + 2 * LOOK_AGAIN)
    assert await ticks_of(store) == hours(0, 1)
    record = await kit.schedule_of(store)
    assert (record.waiting_tick, record.next_at) == (None, NOON + 2 * HOUR)
    assert await counts(store) == (2, 0)


@case
async def queue_one_starts_at_once_when_it_is_told_of_the_end(store: Store) -> None:
    await kit.put(store, hourly(overlap="queue_one"))
    await fired_at(store, NOON)
    now = NOON + HOUR
    await fired_at(store, now)
    fired = await fired_at(store, now + MICROSECOND, ended=("nightly",))
    assert await ticks_of(store) == hours(0)  # it had not ended
    await end(store, now)
    fired = await fired_at(store, now + 2 * MICROSECOND, ended=("nightly", "none"))
    assert fired.schedules == 1
    assert await ticks_of(store) == hours(0, 1)
    assert (await fired_at(store, now + 3 * MICROSECOND, ended=("nightly",))).schedules == 0


@case
async def of_the_ticks_that_wait_the_newest_one_starts(store: Store) -> None:
    await kit.put(store, hourly(overlap="queue_one"))
    for hour in (0, 1, 2, 3):
        await fired_at(store, NOON + hour * HOUR)
    assert (await kit.schedule_of(store)).waiting_tick == NOON + 3 * HOUR
    assert await counts(store) == (1, 2)
    await end(store, NOON + 3 * HOUR)
    # A newer tick is due as well.
    await fired_at(store, NOON + 4 * HOUR)
    assert await ticks_of(store) == hours(0, 4)
    assert await counts(store) == (2, 3)
    skipped = [run.tick for run in await kit.runs_of(store, "nightly") if run.skipped]
    assert sorted(skipped) == hours(1, 2, 3)


@case
async def an_uncommitted_start_keeps_the_next_tick_from_starting(store: Store) -> None:
    await kit.put(store, hourly(overlap="skip"))

    async def later() -> Fired:
        return await fired_at(store, NOON + HOUR)

    async with store.begin() as tx:
        await store.run_in(tx, fire, store, (), now=NOON)
        firing = asyncio.create_task(later())
        await asyncio.wait([firing], timeout=0.2)  # it may wait for the commit
    await firing
    await fired_at(store, NOON + HOUR)
    assert await ticks_of(store) == hours(0)
    assert await counts(store) == (1, 1)
