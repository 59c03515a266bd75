"""Schedules that the code of workers declares, during deploys."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from msgspec import structs

from headway.domain.queries import ALIVE_FOR
from headway.domain.schedules.schedule import ScheduleRecord
from headway.domain.schedules.timetable import Every
from headway.ports.store import Store
from headway.schedules import changes
from headway.schedules.declaration import is_declared
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases
from headway.testing.conformance.store.schedule_changes import (
    NEW,
    NEWER,
    OLD,
    definition_of,
    deploy,
    put,
)
from headway.testing.conformance.store.schedule_firing import (
    HOUR,
    NOON,
    fired_at,
)

case = StoreCases("schedule_changes")


@case
async def a_declared_schedule_is_stored(store: Store) -> None:
    declared = {"nightly": OLD, "other": NEWER}
    assert not await store.run(is_declared, store, declared)
    assert await deploy(store, "w", declared) == []
    assert await store.run(is_declared, store, declared)
    assert await kit.schedule_of(store) == ScheduleRecord(
        name="nightly",
        definition=OLD,
        declaration=OLD.fingerprint,
        next_at=Every(hours=1).next_after(T0),
        created_at=T0,
        changed_at=T0,
    )
    (seen,) = await store.run(store.workers)
    assert seen.schedules == {"nightly": OLD.fingerprint, "other": NEWER.fingerprint}
    assert not await store.run(is_declared, store, {"nightly": NEW})


@case.only(kit.has_transactions)
async def a_schedule_that_is_put_meanwhile_is_not_written_over_by_a_declaration(
    store: Store,
) -> None:
    async with store.begin() as tx:
        await store.run_in(tx, changes.put, store, "nightly", NEWER, T0)
        await store.run_in(tx, changes.pause, store, "nightly", T0)
        starting = asyncio.create_task(deploy(store, "w", OLD))
        await asyncio.sleep(0.2)
    await starting
    record = await kit.schedule_of(store)
    assert (record.definition, record.declaration, record.paused_at) == (NEWER, None, T0)
    assert await deploy(store, "w", OLD) == ["nightly"]


@case.only(kit.has_transactions)
async def a_schedule_that_is_put_meanwhile_keeps_its_pause_and_its_runs(store: Store) -> None:
    async with store.begin() as tx:
        await store.run_in(tx, changes.put, store, "nightly", OLD, T0)
        id, _ = await store.run_in(tx, changes.trigger, store, "nightly", T0, watched=False)
        await store.run_in(tx, changes.pause, store, "nightly", T0)
        other = asyncio.create_task(put(store, NEW))
        await asyncio.sleep(0.2)
    await other
    record = await kit.schedule_of(store)
    assert (record.definition, record.paused_at) == (NEW, T0)
    assert (record.last_sequence_id, record.fired, record.runs) == (id, 1, 1)


@case
async def a_declaration_that_is_stored_changes_nothing(store: Store) -> None:
    await deploy(store, "w", OLD)
    await fired_at(store, NOON, "nightly")
    before = await kit.schedule_of(store)
    await deploy(store, "w2", OLD, NOON + HOUR)
    assert await kit.schedule_of(store) == before


@case
async def a_changed_declaration_replaces_the_stored_one(store: Store) -> None:
    await deploy(store, "old", OLD)
    await fired_at(store, NOON, "nightly")
    before = await kit.schedule_of(store)
    later = NOON + timedelta(minutes=90)
    await deploy(store, "new", NEW, later)
    record = await kit.schedule_of(store)
    # A tick that is due stays due if the timetable is the same.
    assert record == structs.replace(
        before,
        definition=NEW,
        declaration=NEW.fingerprint,
        replaced=(OLD.fingerprint,),
        changed_at=later,
    )
    await deploy(store, "newer", NEWER, later + MICROSECOND)
    record = await kit.schedule_of(store)
    assert record.next_at == NOON + 2 * HOUR
    assert record.replaced == (NEW.fingerprint, OLD.fingerprint)
    assert (record.fired, record.last_tick) == (1, NOON)


@case
async def a_rolling_deploy_does_not_flip(store: Store) -> None:
    await deploy(store, "old", OLD)
    for seconds in range(1, 60, 20):
        now = T0 + timedelta(seconds=seconds)
        await deploy(store, "new", NEW, now)
        assert await definition_of(store) == NEW
        await deploy(store, "old", OLD, now + MICROSECOND)
        assert await definition_of(store) == NEW
    assert (await kit.schedule_of(store)).changed_at == kit.at(1)
    await deploy(store, "newer", NEWER, kit.at(60))
    for id, definition in (("old", OLD), ("new", NEW), ("newer", NEWER)):
        await deploy(store, id, definition, kit.at(61))
        assert await definition_of(store) == NEWER


@case
async def a_deploy_that_was_rolled_back_brings_the_old_declaration_back(store: Store) -> None:
    await deploy(store, "old", OLD)
    await deploy(store, "new", NEW, kit.at(1))
    dead = kit.at(1) + ALIVE_FOR
    await deploy(store, "old", OLD, dead - MICROSECOND)
    assert await definition_of(store) == NEW
    await deploy(store, "old", OLD, dead)
    assert await definition_of(store) == OLD
    assert (await kit.schedule_of(store)).replaced == ()
    # A new worker that was only gone for a while declares it again, beside the old one.
    await deploy(store, "new", NEW, dead + MICROSECOND)
    assert await definition_of(store) == NEW
    assert (await kit.schedule_of(store)).replaced == (OLD.fingerprint,)
    await deploy(store, "old", OLD, dead + 2 * MICROSECOND)
    assert await definition_of(store) == NEW


@case
async def a_deploy_keeps_a_pause(store: Store) -> None:
    await deploy(store, "old", OLD)
    await store.run(changes.pause, store, "nightly", kit.at(1))
    await deploy(store, "new", NEWER, kit.at(2))
    record = await kit.schedule_of(store)
    assert (record.definition, record.paused_at) == (NEWER, kit.at(1))
    assert (await fired_at(store, NOON, "nightly")).schedules == 0


@case
async def a_name_that_was_put_cannot_be_declared(store: Store) -> None:
    await put(store, NEW)
    assert await deploy(store, "w", {"nightly": OLD, "other": OLD}) == ["nightly"]
    record = await kit.schedule_of(store)
    assert (record.definition, record.declaration) == (NEW, None)
    assert (await kit.schedule_of(store, "other")).declared


@case
async def of_8_workers_that_start_at_once_all_declare_the_same(store: Store) -> None:
    declared = {f"s{number}": OLD for number in range(10)}
    answers = await asyncio.gather(*[deploy(store, f"w{n}", declared) for n in range(8)])
    assert answers == [[]] * 8
    records = await store.run(store.list_schedules)
    assert [record.name for record in records] == sorted(declared)
    assert {(record.declaration, record.replaced) for record in records} == {(OLD.fingerprint, ())}
