"""Schedules in MongoDB: conflicts of transactions that fire, and the plans of their queries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest
from pymongo import AsyncMongoClient

from headway.domain.queries import JobFilter, WorkerRecord
from headway.domain.schedules.schedule import ScheduleDefinition, ScheduledJob, ScheduleRecord
from headway.domain.schedules.timetable import Every
from headway.schedules.firing import fire
from headway.stores.mongodb import MongoStore
from headway.stores.mongodb.schedules import FEW, LockSearch
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import T0, at
from tests.stores.test_mongodb import ANSWERS_LOST, failing
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.stores import opened

Client = AsyncMongoClient[dict[str, Any]]


@pytest.fixture
async def store(mongo_url: str) -> AsyncIterator[MongoStore]:
    async with opened(MongoStore(mongo_url)) as store:
        yield store


def schedule(name: str, seconds: float = 0) -> ScheduleRecord:
    job = ScheduledJob(
        type="work",
        input="[]",
        queue="default",
        priority=0,
        max_attempts=None,
        max_losses=3,
        timeout=None,
    )
    return ScheduleRecord(
        name=name,
        definition=ScheduleDefinition(timetable=Every(hours=1), job=job),
        declaration=None,
        next_at=at(seconds),
        created_at=T0,
        changed_at=T0,
    )


async def put(store: MongoStore, count: int) -> set[str]:
    names = [f"s{number:05}" for number in range(count)]
    await store.run(store.put_schedules, [schedule(name) for name in names])
    return set(names)


async def fired(store: MongoStore) -> dict[str, int]:
    return {each.name: each.fired for each in await store.run(store.list_schedules, limit=10_000)}


async def fire_all(store: MongoStore, *, tries: int = 200) -> None:
    """Fire what is due, as a worker does."""
    for _ in range(tries):
        answer = await store.run(fire, store, (), now=at(1))
        if answer.next_in is None or answer.next_in > 0:
            return
        if not answer.schedules:
            await asyncio.sleep(0.02)
    raise AssertionError("some schedules stay due")


@pytest.mark.parametrize("count", [1, 40, 2_200])
async def test_four_fire_each_schedule_once(store: MongoStore, mongo_url: str, count: int) -> None:
    names = await put(store, count)
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(opened(MongoStore(mongo_url))) for _ in range(4)]
        await asyncio.gather(*map(fire_all, others))
    assert await fired(store) == dict.fromkeys(names, 1)
    jobs = await store.run(store.count, JobFilter(types=("work",)), 10_000)
    assert jobs.value == count


async def test_a_locked_schedule_among_many_holds_up_none(store: MongoStore) -> None:
    names = await put(store, 300)
    async with store.begin() as tx:
        await store.run_in(tx, store.schedules, ["s00000", "s00150", "s00299"], lock=True)
        free = names - {"s00000", "s00150", "s00299"}
        seen: set[str] = set()
        for _ in range(60):
            await store.run(fire, store, (), now=at(1))
            seen = {name for name, count in (await fired(store)).items() if count}
            if seen == free:
                break
        assert seen == free
    await fire_all(store)
    assert await fired(store) == dict.fromkeys(names, 1)


async def test_many_locked_schedules_do_not_hold_up_all_others(store: MongoStore) -> None:
    names = sorted(await put(store, 200))
    async with store.begin() as tx:
        await store.run_in(tx, store.schedules, names[::4], lock=True)
        before: set[str] = set()
        for _ in range(5):
            await store.run(fire, store, (), now=at(1))
            before = {name for name, count in (await fired(store)).items() if count}
        assert before
        assert before.isdisjoint(names[::4])


async def test_of_many_due_schedules_another_batch_is_taken(store: MongoStore) -> None:
    batch = 2 * FEW
    await put(store, 8 * batch)

    async def take(tx: Any) -> set[str]:
        found = await store.run_in(tx, store.due_schedules, (), batch, now=at(1))
        return {each.name for each in found}

    async with store.begin() as one:
        first = await take(one)
        assert len(first) == batch
        for _ in range(20):
            async with store.begin() as two:
                second = await take(two)
            assert first.isdisjoint(second)
            if len(second) == batch:
                return
    raise AssertionError("no whole batch was found")


def test_each_of_a_few_that_is_not_locked_is_found() -> None:
    random = Random(7)
    for _ in range(500):
        due = [f"{number:02}" for number in range(random.randint(1, FEW))]
        locked = set(random.sample(due, random.randint(0, len(due))))
        limit = random.choice([1, 3, FEW, 500])
        search = LockSearch(limit, crowded=False)
        names: list[str] = []
        for _ in range(2 * FEW):
            search.begin()
            assert not search.hopeless
            names = search.choose(due)
            if all(locked.isdisjoint(group) for group in search.groups(names)):
                break
        assert names == [name for name in due if name not in locked][:limit]


@pytest.mark.parametrize("command", ANSWERS_LOST)
async def test_a_tick_is_fired_once_though_an_answer_is_lost(
    store: MongoStore, mongo_replica_set: MongoReplicaSet, command: str
) -> None:
    names = await put(store, 3)
    with failing(mongo_replica_set, command, **ANSWERS_LOST[command]):
        await fire_all(store)
    assert await fired(store) == dict.fromkeys(names, 1)
    assert [len(await kit.runs_of(store, name)) for name in names] == [1, 1, 1]


async def test_a_look_at_many_schedules_reads_those_that_are_due(
    store: MongoStore, client: Client
) -> None:
    later = [schedule(f"later{number:04}", 60) for number in range(1_000)]
    await store.run(store.put_schedules, [*later, schedule("due")])
    database = client.get_default_database()
    await database.command("profile", 2)
    answer = await store.run(fire, store, ["declared"], now=at(1))
    await store.run(store.save_worker, _worker({"declared": ""}), now=at(1))
    await database.command("profile", 0)
    assert (answer.schedules, answer.next_in) == (1, 59.0)
    seen = await database["system.profile"].find({"ns": {"$regex": r"schedule$"}}).to_list()
    assert len(seen) > 4
    for entry in seen:
        assert "COLLSCAN" not in entry.get("planSummary", ""), entry
        assert entry.get("docsExamined", 0) <= 2, entry


async def test_a_heartbeat_reads_schedules_only_where_they_are_fired(
    store: MongoStore, client: Client
) -> None:
    for schedules, commands in ((None, 1), ({}, 2)):
        before = await _commands(client)
        await store.run(store.save_worker, _worker(schedules), now=T0)
        assert await _commands(client) - before == commands


async def test_a_schedule_that_is_put_again_keeps_its_age_and_its_runs(store: MongoStore) -> None:
    await put(store, 1)
    await fire_all(store)
    again = msgspec.structs.replace(schedule("s00000", 60), created_at=at(30), changed_at=at(30))
    await store.run(store.put_schedules, [again])
    (found,) = await store.run(store.schedules, ["s00000"])
    assert found == msgspec.structs.replace(again, created_at=T0)
    assert len(await kit.runs_of(store, "s00000")) == 1


async def test_a_name_is_never_taken_for_an_expression(store: MongoStore) -> None:
    for name in ("$name", "$$ROOT", "a.b.$[]", "{}"):
        await store.run(store.put_schedules, [schedule(name)])
        await store.run(store.save_worker, _worker({name: "$host"}), now=T0)
        assert (await store.run(store.workers))[0].schedules == {name: "$host"}
        found = await store.run(store.due_schedules, [name], 10, ended=[name], now=T0)
        assert [each.name for each in found] == [name]
        assert await store.run(store.delete_schedules, [name, "none"]) == [name]


@pytest.fixture
async def client(mongo_url: str) -> AsyncIterator[Client]:
    async with Client(mongo_url) as client:
        yield client


async def _commands(client: Client) -> int:
    status = await client.admin.command("serverStatus")
    metrics = status["metrics"]["commands"]
    return sum(metrics[name]["total"] for name in ("find", "aggregate", "update"))


def _worker(schedules: dict[str, str] | None) -> WorkerRecord:
    return WorkerRecord(
        id="host:1",
        host="host",
        pid=1,
        queues=("default",),
        types=("work",),
        concurrency=1,
        running=0,
        started_at=T0 - timedelta(days=1),
        seen_at=T0,
        schedules=schedules,
    )
