"""Handlers whose transactions outlast their leases, meet others, or end as the worker does."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headway import After, Headway, Job, JobState
from headway.domain.events import Event, LeaseLost
from headway.ports.store import Store
from headway.stores.sqlite import SqliteStore

LEASE = 1.0
PATIENCE = 60.0


@pytest.fixture
async def store(store_url: str) -> Store:
    store = Headway(store_url).store
    await store.migrate()
    return store


async def outlast_lease(app: Headway, id: str) -> None:
    """Nobody sees the longer lease that an open transaction has."""
    record = await app.get(id)
    assert record.lease is not None
    while datetime.now(UTC) <= record.lease.until:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("how", ["fails", "is put off"])
async def test_what_ends_after_its_lease_is_recorded(store: Store, how: str) -> None:
    app = Headway(store)

    @app.job(atomic=True, max_attempts=1)
    async def work(job: Job) -> None:
        await outlast_lease(app, job.id)
        if how == "fails":
            raise ValueError("a reason of its own")
        job.reschedule(After(hours=1))

    async with app:
        id = (await app.start(work.request())).id
        async with asyncio.timeout(PATIENCE):
            await app.worker(lease_for=LEASE).run(drain=True)
        record = await app.get(id)
        expected = (JobState.FAILED, 1, 0) if how == "fails" else (JobState.PENDING, 0, 0)
        assert (record.state, record.attempts, record.losses) == expected, record.last_error
        assert "LeaseLost" not in (record.last_error or "")


async def test_what_a_worker_leaves_after_its_lease_is_given_back(store: Store) -> None:
    app = Headway(store)
    outlasted = asyncio.Event()

    @app.job(atomic=True, max_attempts=1)
    async def work(job: Job) -> None:
        await outlast_lease(app, job.id)
        outlasted.set()
        await asyncio.Event().wait()

    async with app:
        id = (await app.start(work.request())).id
        worker = app.worker(lease_for=LEASE, grace=0.0)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            await outlasted.wait()
            await worker.stop()
        record = await app.get(id)
        assert (record.state, record.attempts, record.losses) == (JobState.PENDING, 0, 0)
        assert await app.attempts(id) == []


@pytest.mark.parametrize("atomic", [True, False])
async def test_blockers_of_the_same_jobs_may_end_at_once(store: Store, *, atomic: bool) -> None:
    app = Headway(store)
    together = 1 if store.transactions == 1 else 6
    barrier = asyncio.Barrier(together)
    ran: set[int] = set()

    @app.job(atomic=atomic, max_attempts=1)
    async def part(job: Job, number: int) -> None:
        if not atomic:
            await job.complete()
        if number not in ran:
            ran.add(number)
            await barrier.wait()

    @app.job(max_attempts=1)
    async def whole(job: Job[*tuple[None, ...]]) -> None: ...

    async with app:
        parts = [await app.start(part.request(number)) for number in range(6)]
        wholes = [await app.start(whole.request().using(blockers=[*parts])) for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            await app.worker().run(drain=True)
        for each in (*parts, *wholes):
            record = await app.get(each.id)
            assert (record.state, record.attempts) == (JobState.COMPLETED, 0), record.last_error


async def test_a_commit_needs_none_of_the_loops_threads(sqlite_path: Path) -> None:
    """They may all wait for what the transaction holds."""
    store = SqliteStore(sqlite_path, busy_for=PATIENCE)
    app = Headway(store, migrate=True)
    inside, all_taken = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    threads = threading.Barrier(2)

    @app.job(atomic=True, max_attempts=1)
    async def move(job: Job) -> None:
        inside.set()
        await all_taken.wait()

    def write() -> None:
        threads.wait(PATIENCE)
        loop.call_soon_threadsafe(all_taken.set)
        store.run_sync(store.delete_workers, ["nobody"])

    with ThreadPoolExecutor(2) as executor:
        loop.set_default_executor(executor)
        async with app:
            moving = await app.start(move.request())
            worker = app.worker()
            await worker.start()
            async with asyncio.timeout(PATIENCE / 2):
                await inside.wait()
                await asyncio.gather(asyncio.to_thread(write), asyncio.to_thread(write))
                await moving.result()
            await worker.stop()


class Lost:
    def __init__(self) -> None:
        self.seen = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def observe(self, event: Event) -> None:
        if isinstance(event, LeaseLost):
            self._loop.call_soon_threadsafe(self.seen.set)


async def test_a_worker_that_stops_speaks_for_leases_that_the_store_let_run_out(
    sqlite_path: Path,
) -> None:
    lost = Lost()
    app = Headway(SqliteStore(sqlite_path), observers=[lost], migrate=True)
    begun = asyncio.Event()

    @app.job(max_attempts=1)
    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with app:
        id = (await app.start(work.request())).id
        worker = app.worker(lease_for=LEASE)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            other = sqlite3.connect(sqlite_path, isolation_level=None)
            other.execute("begin immediate")
            stopping = asyncio.create_task(worker.stop())
            await lost.seen.wait()
            other.rollback()
            other.close()
            await stopping
        record = await app.get(id)
        assert (record.state, record.losses) == (JobState.PENDING, 0)
        await app.worker(queues=["none"], lease_for=LEASE).run(drain=True)
        assert (await app.get(id)).losses == 0
