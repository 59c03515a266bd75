"""Declared schedules, and changes by clients and operators: put, pause, trigger and the like."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import structs

from headway.domain.queries import ALIVE_FOR
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.schedule import ScheduleDefinition, ScheduleRecord
from headway.domain.schedules.timetable import Every
from headway.errors import InvalidOption, InvalidRequest, ScheduleNotFound
from headway.ports.store import Store
from headway.schedules import changes
from headway.schedules.declaration import declare
from headway.schedules.firing import fire
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases
from headway.testing.conformance.store.schedule_firing import (
    HOUR,
    NOON,
    Undo,
    counts,
    end,
    fired_at,
    hourly,
    hours,
    jobs_of,
    ticks_of,
)
from headway.testing.conformance.store.workers import worker

case = StoreCases("schedule_changes")

OLD = kit.definition(Every(hours=1), input="1")
NEW = kit.definition(Every(hours=1), input="2")
NEWER = kit.definition(Every(hours=2), input="3")


async def deploy(
    store: Store,
    id: str,
    declared: Mapping[str, ScheduleDefinition] | ScheduleDefinition,
    now: datetime = T0,
) -> list[str]:
    """A worker with this code starts, or looks again; the names that it was refused."""
    if isinstance(declared, ScheduleDefinition):
        declared = {"nightly": declared}
    fingerprints = {name: each.fingerprint for name, each in declared.items()}
    record = worker(id=id, schedules=fingerprints)
    return await store.run(declare, store, record, declared, now=now)


async def put(
    store: Store, definition: ScheduleDefinition, now: datetime = T0, name: str = "nightly"
) -> ScheduleRecord:
    record, effects = await store.run(changes.put, store, name, definition, now)
    assert effects.schedules_changed
    return record


async def definition_of(store: Store) -> ScheduleDefinition:
    return (await kit.schedule_of(store)).definition


# put


@case
async def a_schedule_that_is_put_starts_with_the_next_tick(store: Store) -> None:
    record = await put(store, OLD, NOON)
    assert (record.next_at, record.declaration) == (NOON + HOUR, None)
    assert await kit.schedule_of(store) == record
    assert (await fired_at(store, NOON + HOUR)).schedules == 1


@case
async def a_schedule_that_is_put_again_goes_on(store: Store) -> None:
    await put(store, OLD)
    await fired_at(store, NOON)
    before = await kit.schedule_of(store)
    assert await put(store, OLD, NOON + HOUR) == before
    # The tick of 13:00 is due and stays due.
    record = await put(store, NEW, NOON + HOUR)
    assert record == structs.replace(before, definition=NEW, changed_at=NOON + HOUR)
    await end(store, NOON + HOUR)
    await fired_at(store, NOON + HOUR)
    assert [job.input for job in await jobs_of(store)] == ["1", "2"]
    record = await put(store, NEWER, NOON + 1.5 * HOUR)
    assert record.next_at == NOON + 2 * HOUR
    assert (record.fired, record.created_at) == (2, T0)


@case
async def another_timetable_forgets_a_waiting_tick(store: Store) -> None:
    queued = structs.replace(OLD, overlap="queue_one")
    await put(store, queued)
    await fired_at(store, NOON)
    await fired_at(store, NOON + HOUR)
    record = await put(store, structs.replace(queued, jitter=1.0), NOON + HOUR)
    assert record.waiting_tick == NOON + HOUR
    record = await put(store, NEWER, NOON + HOUR)
    assert (record.waiting_tick, record.next_at) == (None, NOON + 2 * HOUR)


@case
async def a_declared_schedule_cannot_be_put(store: Store) -> None:
    await deploy(store, "w", OLD)
    before = await kit.schedule_of(store)
    with raises(InvalidRequest):
        await put(store, NEW)
    assert await kit.schedule_of(store) == before


@case
async def a_put_that_is_rolled_back_leaves_nothing(store: Store) -> None:
    await put(store, OLD)
    before = await store.run(store.list_schedules)
    with raises(Undo):
        async with store.begin() as tx:
            await store.run_in(tx, changes.put, store, "nightly", NEW, T0)
            await store.run_in(tx, changes.put, store, "tenant-7", NEW, T0)
            raise Undo
    assert await store.run(store.list_schedules) == before


# pause and resume


@case
async def a_paused_schedule_starts_nothing(store: Store) -> None:
    await put(store, OLD)
    paused, _ = await store.run(changes.pause, store, "nightly", kit.at(1))
    assert paused.paused_at == kit.at(1)
    again, _ = await store.run(changes.pause, store, "nightly", kit.at(2))
    assert again == paused == await kit.schedule_of(store)
    for hour in range(3):
        assert (await fired_at(store, NOON + hour * HOUR)).next_in is None
    resumed, effects = await store.run(changes.resume, store, "nightly", NOON + 2.5 * HOUR)
    assert effects.schedules_changed
    assert (resumed.paused_at, resumed.next_at) == (None, NOON + 3 * HOUR)
    assert (await fired_at(store, NOON + 2.5 * HOUR)).schedules == 0
    await fired_at(store, NOON + 3 * HOUR)
    # The ticks of the pause are neither caught up nor counted.
    assert await ticks_of(store) == hours(3)
    assert await counts(store) == (1, 0)


@case
async def resuming_what_is_not_paused_changes_nothing(store: Store) -> None:
    record = await put(store, OLD)
    resumed, _ = await store.run(changes.resume, store, "nightly", NOON + HOUR)
    assert resumed == record == await kit.schedule_of(store)


@case
async def a_pause_drops_a_waiting_tick(store: Store) -> None:
    await put(store, structs.replace(OLD, overlap="queue_one"))
    await fired_at(store, NOON)
    now = NOON + HOUR
    await fired_at(store, now)
    await store.run(changes.pause, store, "nightly", now)
    await end(store, now)
    assert (await fired_at(store, now + HOUR, ended=("nightly",))).schedules == 0
    await store.run(changes.resume, store, "nightly", now + HOUR)
    assert (await fired_at(store, now + HOUR, ended=("nightly",))).schedules == 0
    await fired_at(store, now + 2 * HOUR, ended=("nightly",))
    assert await ticks_of(store) == hours(0, 3)


@case
async def a_change_waits_for_a_schedule_that_is_being_fired(store: Store) -> None:
    await put(store, OLD)
    async with store.begin() as tx:
        await store.run_in(tx, fire, store, (), now=NOON)
        pausing = asyncio.create_task(store.run(changes.pause, store, "nightly", NOON))
        await asyncio.wait([pausing], timeout=0.2)
        assert not pausing.done()
    await pausing
    record = await kit.schedule_of(store)
    assert (record.fired, record.last_tick, record.paused_at) == (1, NOON, NOON)
    assert record.next_at == NOON + HOUR


@case
async def a_schedule_that_is_being_changed_is_fired_as_it_is_then(store: Store) -> None:
    await put(store, OLD)
    async with store.begin() as tx:
        await store.run_in(tx, changes.put, store, "nightly", NEW, T0)
        firing = asyncio.create_task(fired_at(store, NOON))
        await asyncio.wait([firing], timeout=0.2)  # it may wait for the commit
    await firing
    await fired_at(store, NOON)
    assert [job.input for job in await jobs_of(store)] == ["2"]


# trigger


@case
async def a_trigger_starts_a_job_now(store: Store) -> None:
    before = await put(store, OLD, NOON - HOUR)
    now = NOON - timedelta(minutes=7, microseconds=3)
    id, effects = await store.run(changes.trigger, store, "nightly", now, watched=True)
    (job,) = await jobs_of(store)
    assert (job.id, job.scheduled_for, job.run_at, job.input) == (id, now, now, "1")
    assert len(effects.notifications) == 1
    assert effects.events
    assert await kit.schedule_of(store) == structs.replace(
        before, last_tick=now, last_at=now, last_sequence_id=id, fired=1, runs=1
    )
    (run,) = await kit.runs_of(store, "nightly")
    assert (run.tick, run.sequence_id) == (now, id)
    # The next tick treats it as the last run.
    await fired_at(store, NOON)
    assert await counts(store) == (1, 1)


@case
async def a_trigger_does_not_ask_what_runs(store: Store) -> None:
    await put(store, OLD)
    await fired_at(store, NOON)
    await store.run(changes.pause, store, "nightly", NOON)
    for seconds in (0, 0, 1):
        now = NOON + timedelta(seconds=seconds)
        await store.run(changes.trigger, store, "nightly", now, watched=False)
    assert len(await jobs_of(store)) == 4
    record = await kit.schedule_of(store)
    assert (record.fired, record.paused_at, record.next_at) == (4, NOON, NOON + HOUR)


@case
async def a_trigger_beside_a_run_does_not_hide_that_run_from_ticks(store: Store) -> None:
    await put(store, OLD, NOON - HOUR)
    await fired_at(store, NOON)
    (running,) = await jobs_of(store)
    now = NOON + timedelta(minutes=1)
    id, _ = await store.run(changes.trigger, store, "nightly", now, watched=False)
    assert (await kit.schedule_of(store)).last_sequence_id == running.id
    await store.run(store.cancel, [id], now=now)
    await fired_at(store, NOON + HOUR)
    assert await counts(store) == (2, 1)  # the first run has not ended


@case
async def a_trigger_that_is_rolled_back_leaves_nothing(store: Store) -> None:
    before = await put(store, OLD)
    with raises(Undo):
        async with store.begin() as tx:
            await store.run_in(tx, changes.trigger, store, "nightly", NOON, watched=True)
            raise Undo
    assert await kit.everything(store) == []
    assert await kit.schedule_of(store) == before


# backfill


@case
async def a_backfill_starts_the_ticks_that_have_no_job(store: Store) -> None:
    await kit.put(store, hourly(overlap="allow", catch_up=CatchUp.none()))
    await fired_at(store, NOON)
    now = NOON + 4.5 * HOUR
    await fired_at(store, now)
    assert await counts(store) == (1, 4)
    before = await kit.schedule_of(store)
    stored, effects = await store.run(
        changes.backfill, store, "nightly", NOON, None, None, now, watched=True
    )
    assert [answer.deduplicated for answer in stored] == [True, False, False, False, False]
    assert len(effects.notifications) == 1
    assert await ticks_of(store) == hours(0, 1, 2, 3, 4)
    assert {job.run_at for job in (await jobs_of(store))[1:]} == {now}
    assert await kit.schedule_of(store) == before
    # A second one finds nothing to do.
    stored, effects = await store.run(
        changes.backfill, store, "nightly", NOON, None, None, now, watched=True
    )
    assert all(answer.deduplicated for answer in stored)
    assert not effects.notifications
    assert not effects.events
    assert len(await jobs_of(store)) == 5


@case
async def a_backfill_includes_its_ends_and_stops_at_a_number(store: Store) -> None:
    await kit.put(store, hourly())
    now = NOON + 9 * HOUR

    async def backfill(since: float, until: float, at_most: int | None = None) -> int:
        first, last = hours(since, until)
        stored, _ = await store.run(
            changes.backfill, store, "nightly", first, last, at_most, now, watched=False
        )
        return len(stored)

    assert await backfill(2, 3) == 2
    assert await ticks_of(store) == hours(2, 3)
    assert await backfill(3.1, 3.9) == 0
    assert await backfill(5, 9, 2) == 2
    assert await ticks_of(store) == hours(2, 3, 5, 6)
    for since, until, at_most in ((5, 9.1, None), (6, 5, None), (5, 6, 0), (5, 6, 10_001)):
        with raises(InvalidOption):
            await backfill(since, until, at_most)
    with raises(InvalidOption):
        await backfill(-20_000, 0)
    assert await ticks_of(store) == hours(2, 3, 5, 6)


@case
async def a_tick_that_was_backfilled_is_not_fired_again(store: Store) -> None:
    await kit.put(store, hourly(overlap="allow"))
    await store.run(changes.backfill, store, "nightly", NOON, NOON, None, NOON, watched=False)
    await fired_at(store, NOON)
    assert await ticks_of(store) == hours(0)
    assert (await kit.schedule_of(store)).next_at == NOON + HOUR


# delete


@case
async def a_schedule_that_was_put_can_be_deleted(store: Store) -> None:
    record = await put(store, OLD)
    await fired_at(store, NOON)
    assert (await store.run(changes.delete, store, "nightly", NOON)).name == record.name
    assert await store.run(store.list_schedules) == []
    assert await kit.runs_of(store, "nightly") == []
    assert len(await jobs_of(store)) == 1
    with raises(ScheduleNotFound):
        await store.run(changes.delete, store, "nightly", NOON)


@case
async def a_declared_schedule_is_deleted_when_nobody_declares_it(store: Store) -> None:
    await deploy(store, "w", OLD)
    await deploy(store, "none of it", {"other": OLD}, kit.at(50))
    gone = T0 + ALIVE_FOR
    with raises(InvalidRequest):
        await store.run(changes.delete, store, "nightly", gone - MICROSECOND)
    assert (await kit.schedule_of(store)).definition == OLD
    await store.run(changes.delete, store, "nightly", gone)
    assert [each.name for each in await store.run(store.list_schedules)] == ["other"]


@case
async def what_is_not_there_is_named(store: Store) -> None:
    for change in (changes.pause, changes.resume, changes.delete):
        with raises(ScheduleNotFound):
            await store.run(change, store, "none", T0)
    with raises(ScheduleNotFound):
        await store.run(changes.trigger, store, "none", T0, watched=True)
    with raises(ScheduleNotFound):
        await store.run(changes.backfill, store, "none", T0, None, None, T0, watched=True)
    with raises(ScheduleNotFound):
        await store.run(changes.read_schedule, store, "none")
    assert await store.run(store.list_schedules) == []
    assert await kit.everything(store) == []
