"""MongoDB: workers are killed, and so is the primary of three nodes, over and over, under load.
Every start that was acknowledged is completed, once, and workers go on by themselves.

Checked from outside: a change stream tells of every completion that a majority has. The part
`mongodb` of the proof kills more often, and checks more invariants.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pymongo
import pytest

from headway.errors import StoreUnreachable
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.shop_processes import load_shop
from tests.system.kills.test_kills import (
    LEASE,
    Completion,
    check_completions,
    start_jobs,
    start_worker,
    touch,
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.usefixtures("dropped_sockets"),
]

WORKER_KILLS = 6
PRIMARY_KILLS = 3
RECOVERY = 30.0
"""Seconds within which work has to go on after a kill, on a busy machine."""


class Mongo:
    def __init__(self, url: str) -> None:
        self.dsn = url
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
        self._jobs = self.client.get_default_database()["headway.job"]
        self._since: Any = None

    def watch(self) -> None:
        self._since = self.client.admin.command("ping")["operationTime"]

    def completions(self) -> list[Completion]:
        completed = {"$match": {"updateDescription.updatedFields.state": "completed"}}
        found: list[Completion] = []
        with self._jobs.watch(
            [completed], full_document="updateLookup", start_at_operation_time=self._since
        ) as changes:
            while (change := changes.try_next()) is not None:
                job = change["fullDocument"]
                found.append((job["_id"], job["version"], job.get("worker"), job["output"]))
        return found

    def completed(self) -> int:
        return self._jobs.count_documents({"state": "completed"})

    def left(self) -> int:
        return self._jobs.count_documents({"state": {"$ne": "completed"}})


def test_workers_are_killed(mongo_url: str) -> None:
    database = Mongo(mongo_url)
    with database.client:
        asyncio.run(load_shop(database.dsn).app.store.migrate())
        database.watch()
        started = asyncio.run(start_jobs(database.dsn))
        workers = [start_worker(database.dsn) for _ in range(3)]
        try:
            for _ in range(WORKER_KILLS):
                _wait_for_completions(database, 100)
                victim = workers.pop(0)
                victim.kill()
                victim.wait()
                workers.append(start_worker(database.dsn))
            _wait_until_nothing_is_left(database, 60)
        finally:
            for worker in workers:
                worker.terminate()
            codes = [worker.wait(30) for worker in workers]
        completions = database.completions()
    check_completions(started, completions)
    assert sum(version > 1 for _, version, _, _ in completions) > 0, "no kill hit a running job"
    assert codes == [0] * len(workers)


@pytest.mark.timeout(120 + 40 * PRIMARY_KILLS)
def test_the_primary_is_killed() -> None:
    with MongoReplicaSet(3) as replica_set:
        database = Mongo(replica_set.url("shop"))
        with database.client:
            started, refused = asyncio.run(_produce_while_primaries_die(replica_set, database))
            completions = database.completions()
    counted = Counter(job_id for job_id, *_ in completions)
    assert set(counted.values()) == {1}, "a job was completed more than once"
    assert set(started) <= set(counted), "an acknowledged start was lost"
    assert len(counted) <= len(started) + refused
    for job_id, version, worker, output in completions:
        assert worker is not None
        assert output == f'"{worker.split(":")[1]}:{version}"', f"job {job_id} is a stale one's"


async def _produce_while_primaries_die(
    replica_set: MongoReplicaSet, database: Mongo
) -> tuple[list[str], int]:
    """Ids of the jobs whose start was acknowledged, and how many starts were not."""
    shop = load_shop(database.dsn)
    app = shop.app
    await app.store.migrate()
    database.watch()
    started: list[str] = []
    refused = 0
    enough = asyncio.Event()

    async def produce() -> None:
        nonlocal refused
        while not enough.is_set():
            try:
                started.append((await app.start(touch(shop))).id)
            except StoreUnreachable:
                refused += 1

    workers = [start_worker(database.dsn) for _ in range(2)]
    try:
        async with app:
            producers = [asyncio.create_task(produce()) for _ in range(3)]
            for _ in range(PRIMARY_KILLS):
                await asyncio.to_thread(_wait_for_completions, database, 100)
                primary = await asyncio.to_thread(replica_set.primary)
                primary.kill()
                killed = time.monotonic()
                await asyncio.to_thread(_wait_for_completions, database, 1)
                print(f"work went on after {time.monotonic() - killed:.1f} s")  # noqa: T201
                primary.start()
                await asyncio.to_thread(replica_set.wait_until_healthy)
            enough.set()
            await asyncio.gather(*producers)
        await asyncio.to_thread(_wait_until_nothing_is_left, database, 60 + LEASE)
    finally:
        for worker in workers:
            worker.terminate()
        codes = [worker.wait(60) for worker in workers]
    assert codes == [0, 0]
    print(f"{len(started)} starts acknowledged, {refused} not")  # noqa: T201
    return started, refused


def _wait_for_completions(database: Mongo, more: int) -> None:
    """Until so many more jobs are completed than now."""
    before = database.completed()
    deadline = time.monotonic() + RECOVERY
    while database.completed() < before + more:
        assert time.monotonic() < deadline, "the workers did not go on"
        time.sleep(0.05)


def _wait_until_nothing_is_left(database: Mongo, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while left := database.left():
        assert time.monotonic() < deadline, f"{left} jobs are left"
        time.sleep(0.1)
