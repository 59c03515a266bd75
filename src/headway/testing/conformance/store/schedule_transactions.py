"""Schedules in open transactions: locked by one, invisible to others, undone by a rollback."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import T0, StoreCases, at
from headway.testing.conformance.store.schedules import Undo, advance, due, full, run, tick_job

case = StoreCases("schedules")


async def all_of(store: Store) -> object:
    """All schedules, their runs and the jobs."""
    records = await store.run(store.list_schedules)
    runs = [await kit.runs_of(store, record.name) for record in records]
    return records, runs, await kit.snapshot(store)


async def _change_everything(store: Store, tx: Any) -> None:
    await store.run_in(tx, store.put_schedules, [kit.schedule("new"), full("put")])
    change = advance("advanced", fired=1, first_run=1, runs=(run(2),))
    await store.run_in(tx, store.advance_schedules, [change])
    await store.run_in(tx, store.delete_schedules, ["deleted"])
    await store.run_in(tx, store.insert_scheduled, [tick_job()], now=T0)


async def _before_changes(store: Store) -> None:
    await kit.put(store, *map(kit.schedule, ("put", "advanced", "deleted")))
    changes = [advance(name, next_at=T0, runs=(run(1),)) for name in ("put", "advanced", "deleted")]
    await store.run(store.advance_schedules, changes)


@case.only(kit.has_transactions)
async def a_rollback_undoes_changes_of_schedules(store: Store) -> None:
    await _before_changes(store)
    before = await all_of(store)
    with raises(Undo):
        async with store.begin() as tx:
            await _change_everything(store, tx)
            raise Undo
    assert await all_of(store) == before
    assert sorted(await due(store)) == ["advanced", "deleted", "put"]
    async with store.begin() as tx:
        await _change_everything(store, tx)
    assert [each.name for each in await store.run(store.list_schedules)] == [
        "advanced",
        "new",
        "put",
    ]


@case.only(kit.has_transactions)
async def nobody_sees_changes_of_schedules_before_the_commit(store: Store) -> None:
    await _before_changes(store)
    before = await all_of(store)
    next_before = await store.run(store.next_schedule, [], now=T0)
    async with store.begin() as tx:
        await _change_everything(store, tx)
        assert await all_of(store) == before
        assert await store.run(store.next_schedule, [], now=T0) == next_before
        seen = await store.run_in(tx, store.schedules, ["advanced", "deleted", "new"])
        assert [each and each.fired for each in seen] == [1, None, 0]
        assert await store.run_in(tx, store.schedule_runs, ["advanced"]) == [[run(2), run(1)]]
    assert await all_of(store) != before


async def due_meanwhile(store: Store, **options: Any) -> set[str]:
    """The schedules that are due beside an open transaction. Where that is the only writer, there
    are none: the question waits for its end."""
    return set() if store.capabilities.one_writer else set(await due(store, **options))


@case.only(kit.has_transactions)
async def a_schedule_that_another_transaction_holds_is_left_out(store: Store) -> None:
    await kit.put(
        store, *map(kit.schedule, "abc"), kit.schedule("w", next_at=at(60), waiting_tick=at(-1))
    )
    async with store.begin() as tx:
        await store.run_in(tx, store.schedules, ["b", "w"], lock=True)
        others: set[str] = set() if store.capabilities.one_writer else {"a", "c"}
        assert await due_meanwhile(store, ended=("w",)) == others
    assert sorted(await due(store, ended=("w",))) == ["a", "b", "c", "w"]


@case.only(kit.has_transactions)
async def two_transactions_do_not_get_the_same_schedule(store: Store) -> None:
    names = {f"s{number}" for number in range(10)}
    await kit.put(store, *map(kit.schedule, names))
    async with store.begin() as tx:
        first = await store.run_in(tx, store.due_schedules, [], 6, now=T0)
        assert len(first) == 6
        others = names - {record.name for record in first}
        assert await due_meanwhile(store) == (set() if store.capabilities.one_writer else others)
    assert set(await due(store)) == names


@case.only(kit.has_transactions)
async def an_advanced_schedule_is_due_at_its_next_moment(store: Store) -> None:
    await kit.put(store, kit.schedule())
    async with store.begin() as tx:
        await store.run_in(tx, store.due_schedules, [], 1, now=T0)
        await store.run_in(tx, store.advance_schedules, [advance()])
        assert await due_meanwhile(store) == set()
    assert await due(store) == []
    assert await due(store, now=at(3_600)) == ["nightly"]


@case.only(kit.has_transactions)
async def of_8_transactions_each_gets_schedules_of_its_own(store: Store) -> None:
    names = [f"s{number}" for number in range(40)]
    await kit.put(store, *map(kit.schedule, names))

    async def take() -> list[str]:
        taken: list[str] = []
        for _ in range(3):
            async with store.begin() as tx:
                found = await store.run_in(tx, store.due_schedules, [], 5, now=T0)
                await asyncio.sleep(0)
                if found:
                    changes = [advance(record.name) for record in found]
                    await store.run_in(tx, store.advance_schedules, changes)
                taken += [record.name for record in found]
        return taken

    taken = [name for names in await asyncio.gather(*[take() for _ in range(8)]) for name in names]
    assert len(taken) == len(set(taken))
    assert sorted([*taken, *await due(store)]) == sorted(names)


@case.only(kit.has_transactions)
async def a_locked_schedule_is_changed_by_one_after_the_other(store: Store) -> None:
    await kit.put(store, kit.schedule(fired=0))

    async def count() -> None:
        async with store.begin() as tx:
            (record,) = await store.run_in(tx, store.schedules, ["nightly"], lock=True)
            assert record is not None
            changed = msgspec.structs.replace(record, fired=record.fired + 1)
            await store.run_in(tx, store.put_schedules, [changed])

    await asyncio.gather(*[count() for _ in range(8)])
    assert (await kit.schedule_of(store)).fired == 8
