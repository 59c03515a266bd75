"""Handlers' transactions: as many at once as the store can give, and no job pays for their want."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway, Job, JobState
from headway.domain.events import Event, JobReleased, WorkerTroubled
from headway.ports.store import Store
from headway.stores.memory import MemoryStore
from headway.stores.mongodb import MongoStore
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore
from headway.worker.handler_transactions import Permits

PATIENCE = 60.0
WAIT = 2.0
"""Seconds that a store waits for what is not there: less than all handlers take together."""
STORES = ("sqlite", "postgres", "mongodb")


class Seen:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def observe(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


class AtOnce:
    """How many are in the block at once, at most."""

    def __init__(self) -> None:
        self._now = 0
        self.most = 0

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            yield
        finally:
            self._now -= 1


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, sqlite_path: Path) -> Store:
    """PostgreSQL gives two transactions at once, SQLite one, MongoDB any number."""
    store: Any
    match request.param:
        case "sqlite":
            store = SqliteStore(sqlite_path, busy_for=WAIT)
        case "mongodb":
            store = MongoStore(request.getfixturevalue("mongo_url"))
        case _:
            request.getfixturevalue("short_wait")
            store = PostgresStore(request.getfixturevalue("postgres_url"), connections=2)
    await store.migrate()
    return store


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.stores.postgres.connections.WAIT_FOR_CONNECTION", WAIT)


async def run(app: Headway, done: Callable[[], bool]) -> int:
    """Work until it is done; how many jobs with atomic handlers the worker had at once."""
    worker = app.worker(concurrency=50, poll_every=0.05)
    await worker.start()
    most = 0
    try:
        async with asyncio.timeout(PATIENCE):
            while not done():
                most = max(most, sum(each.type == "move" for each in worker.running))
                await asyncio.sleep(0.02)
    finally:
        await worker.stop()
    return most


async def assert_uncharged(app: Headway, ids: list[str]) -> None:
    for id in ids:
        record = await app.get(id)
        assert (record.state, record.attempts, record.losses) == (JobState.COMPLETED, 0, 0)
        assert await app.attempts(id) == []


async def test_atomic_handlers_take_turns_and_others_go_on(store: Store) -> None:
    seen, at_once = Seen(), AtOnce()
    app = Headway(store, observers=[seen])
    ended: list[str] = []

    @app.job(atomic=True, max_attempts=1, timeout=5)
    async def move(job: Job) -> None:
        async with at_once.one():
            await asyncio.sleep(0.3)
        ended.append("move")

    @app.job(max_attempts=1)
    async def add() -> None:
        ended.append("add")

    async with app:
        moves = [(await app.start(move.request())).id for _ in range(10)]
        adds = [(await app.start(add.request())).id for _ in range(10)]
        claimed = await run(app, lambda: len(ended) == 20)
        await assert_uncharged(app, moves + adds)
    if store.transactions is not None:
        assert claimed <= store.transactions  # the others are left to other workers
        assert at_once.most <= store.transactions
        assert ended.index("add") < 5  # they do not wait for all who were there first
        assert not seen.of(JobReleased)
    assert not seen.of(WorkerTroubled)


@pytest.mark.long
async def test_preparing_and_completing_handlers_wait_for_their_turn(store: Store) -> None:
    seen, at_once = Seen(), AtOnce()
    app = Headway(store, observers=[seen])
    ended: list[int] = []

    @app.job(max_attempts=1)
    async def place(job: Job, number: int) -> None:
        async with job.prepare(), at_once.one():
            await asyncio.sleep(0.3)
        await job.complete()
        async with at_once.one():
            await asyncio.sleep(0.3)
        ended.append(number)

    @app.job(atomic=True, max_attempts=1)
    async def move(job: Job, number: int) -> None:
        async with at_once.one():
            await asyncio.sleep(0.1)
        ended.append(number)

    async with app:
        ids = [(await app.start(place.request(number))).id for number in range(16)]
        ids += [(await app.start(move.request(number))).id for number in range(4)]
        await run(app, lambda: len(ended) == 20)
        await assert_uncharged(app, ids)
    if store.transactions is not None:
        assert at_once.most <= store.transactions
    assert not seen.of(WorkerTroubled)


@pytest.mark.parametrize("how", ["atomic", "prepare", "complete", "wrapped"])
async def test_a_job_whose_transaction_cannot_be_had_is_given_back(how: str) -> None:
    """Whatever opens transactions may fail; the handler's own code may pass that on."""
    away = [OSError("no connection")] * 3
    store = MemoryStore()
    seen = Seen()

    @asynccontextmanager
    async def transactions() -> AsyncIterator[Any]:
        if away:
            raise away.pop()
        async with store.begin() as tx:
            yield tx

    app = Headway(store, observers=[seen], transactions=transactions)
    ended = asyncio.Event()

    @app.job(atomic=how == "atomic", max_attempts=1, name="work")
    async def work(job: Job) -> None:
        if how == "prepare":
            async with job.prepare():
                pass
        elif how != "atomic":
            try:
                await job.complete()
            except OSError as error:
                if how == "wrapped":
                    raise RuntimeError("the shop is closed") from error
                raise
        ended.set()

    async with app:
        id = (await app.start(work.request())).id
        await run(app, ended.is_set)
        await assert_uncharged(app, [id])
    assert len(seen.of(JobReleased)) == 3
    assert [event.part for event in seen.of(WorkerTroubled)] == ["transaction"]  # type: ignore[attr-defined]


async def test_a_transaction_that_is_lost_before_its_commit_is_not_charged(
    postgres_url: str,
) -> None:
    app = Headway(postgres_url, migrate=True)
    runs: list[int] = []

    @app.job(max_attempts=1, atomic=True)
    async def work(job: Job) -> None:
        runs.append(1)
        if len(runs) == 1:
            cursor = await job.tx.execute("select pg_backend_pid()")
            (pid,) = await cursor.fetchone()
            async with await psycopg.AsyncConnection.connect(postgres_url) as other:
                await other.execute("select pg_terminate_backend(%s, 5000)", (pid,))

    async with app:
        id = (await app.start(work.request())).id
        await run(app, lambda: len(runs) == 2)
        await assert_uncharged(app, [id])


async def test_an_error_of_the_handlers_own_is_charged_as_ever() -> None:
    app = Headway("memory://")
    ended = asyncio.Event()

    @app.job(max_attempts=1, atomic=True)
    async def work(job: Job) -> None:
        ended.set()
        raise OSError("a file of its own")

    async with app:
        id = (await app.start(work.request())).id
        await run(app, ended.is_set)
        record = await app.get(id)
        assert (record.state, record.attempts) == (JobState.FAILED, 1)


async def test_a_file_that_another_program_has_locked_is_waited_for(sqlite_path: Path) -> None:
    store = SqliteStore(sqlite_path, busy_for=0.2)
    await store.migrate()
    app = Headway(store, notifier=None)
    begun, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.job(max_attempts=1)
    async def work(job: Job) -> None:
        begun.set()
        await go.wait()
        try:
            await job.complete()
        finally:
            go.set()
        ended.set()

    async with app:
        id = (await app.start(work.request())).id
        worker = app.worker(poll_every=0.05)
        await worker.start()
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
            with sqlite3.connect(sqlite_path, isolation_level=None) as other:
                other.execute("begin immediate")
                go.set()
                while not any("transaction" in each for each in worker.health.problems):
                    await asyncio.sleep(0.02)
                other.execute("rollback")
            other.close()
            await ended.wait()
        await worker.stop()
        await assert_uncharged(app, [id])


async def test_a_permit_that_nobody_waits_for_any_more_is_not_lost() -> None:
    permits = Permits(1)
    await permits.take()
    first, second = asyncio.create_task(permits.take()), asyncio.create_task(permits.take())
    await asyncio.sleep(0)
    permits.give_back()
    first.cancel()  # at the moment when the permit is given
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(first, return_exceptions=True)
        await second
