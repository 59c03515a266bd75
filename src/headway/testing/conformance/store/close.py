"""close and migrate: a closed store refuses operations; a migration keeps all jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headway.domain.job import JobState
from headway.domain.lease import Held
from headway.domain.orders import PruneRule
from headway.domain.queries import JobFilter
from headway.domain.settlement import Release
from headway.errors import StoreClosed
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import LEASE, StoreCases

case = StoreCases("close")

RULE = PruneRule(state=JobState.FAILED, older_than=1.0)
VERBS: dict[str, Callable[[Store], Callable[[], Operation[Any]]]] = {
    "insert": lambda store: lambda: store.insert([kit.new_job()]),
    "claim": lambda store: lambda: store.claim(kit.order()),
    "extend": lambda store: lambda: store.extend([Held(kit.new_id(), kit.new_token())], LEASE),
    "settle": lambda store: lambda: store.settle([Release(kit.new_id(), kit.new_token())]),
    "get": lambda store: lambda: store.get([kit.new_id()]),
    "find": lambda store: lambda: store.find(JobFilter()),
    "cancel": lambda store: lambda: store.cancel([kit.new_id()]),
    "prune": lambda store: lambda: store.prune(RULE, 1),
}


@case.each(VERBS)
async def a_closed_store_refuses(
    store: Store, verb: Callable[[Store], Callable[[], Operation[Any]]]
) -> None:
    await store.close()
    with raises(StoreClosed):
        await store.run(verb(store))


@case
async def a_closed_store_refuses_threads(store: Store) -> None:
    await store.close()

    def work() -> None:
        with raises(StoreClosed):
            store.run_sync(store.claim, kit.order())

    await asyncio.to_thread(work)


@case.only(kit.has_transactions)
async def a_closed_store_begins_nothing(store: Store) -> None:
    await store.close()
    with raises(StoreClosed):
        async with store.begin():
            pass


@case
async def closing_twice_is_fine(store: Store) -> None:
    await kit.add(store)
    await store.close()
    await store.close()


@case
async def closing_at_once_from_many_is_fine(store: Store) -> None:
    await asyncio.gather(*[store.close() for _ in range(5)])
    with raises(StoreClosed):
        await store.run(store.counts)


@case
async def migrating_again_changes_nothing(store: Store) -> None:
    await kit.add(store)
    before = await kit.snapshot(store)
    assert await store.migrate() == []
    assert await kit.snapshot(store) == before


@case
async def migrating_at_once_from_many_changes_nothing(store: Store) -> None:
    await kit.add(store)
    assert await asyncio.gather(*[store.migrate() for _ in range(4)]) == [[]] * 4
    assert len(await kit.everything(store)) == 1


@case
async def a_store_has_a_name_for_people(store: Store) -> None:
    assert store.name
    assert "password" not in store.name
