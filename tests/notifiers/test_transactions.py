"""Notifications of callers' own transactions: with the commit, never before, never
without it. Polls are an hour apart."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from headway import After, Headway
from headway.notifiers.postgres import PostgresNotifier, channel_name
from headway.ports.notifications import JobsScheduled, Notification, SequenceEnded, Topic
from tests.support.worker_harness import eventually

HOUR = 3600.0


class Shop:
    """A worker's app; another one, as if in another process, starts jobs."""

    def __init__(self, url: str) -> None:
        self.worker_app, self.app = Headway(url, migrate=True), Headway(url, migrate=True)
        self.begun: dict[int, float] = {}
        for app in (self.worker_app, self.app):

            @app.job
            async def work(number: int) -> None:
                self.begun[number] = time.monotonic()

            self.work = work

    async def has_begun(self, number: int) -> None:
        async def yes() -> bool:
            return number in self.begun

        await eventually(yes)


@pytest.fixture
async def shop(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Shop]:
    monkeypatch.setattr("headway.worker.claims.claim_timing.SHORTEST_POLL", HOUR)
    shop = Shop(request.getfixturevalue("url"))
    async with shop.worker_app, shop.app:
        worker = shop.worker_app.worker(poll_every=HOUR, maintain_every=HOUR)
        await worker.start()
        await shop.app.start(shop.work.request(0))
        await shop.has_begun(0)
        yield shop
        await worker.stop()


class OnPostgres:
    @pytest.fixture
    def url(self, postgres_url: str) -> str:
        return postgres_url


async def _with_psycopg(url: str, start: Callable[[Any], Awaitable[None]]) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await start(connection)


async def _with_asyncpg(url: str, start: Callable[[Any], Awaitable[None]]) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await start(connection)
    finally:
        await connection.close()


DRIVERS = pytest.mark.parametrize("driver", [_with_psycopg, _with_asyncpg])


class TestPostgres(OnPostgres):
    @DRIVERS
    async def test_workers_wake_with_the_commit_and_not_before(
        self, shop: Shop, url: str, driver: Any
    ) -> None:
        inside = 0.0

        async def start(tx: Any) -> None:
            nonlocal inside
            await shop.app.start(shop.work.request(1), tx=tx)
            await asyncio.sleep(0.3)
            inside = time.monotonic()

        await driver(url, start)
        await shop.has_begun(1)
        assert shop.begun[1] > inside

    async def test_the_same_from_a_thread_without_a_loop(self, shop: Shop, url: str) -> None:
        def start() -> None:
            with psycopg.connect(url) as connection:
                shop.app.sync.start(shop.work.request(1), tx=connection)

        await asyncio.to_thread(start)
        await shop.has_begun(1)
        await asyncio.to_thread(shop.app.sync.close)

    @DRIVERS
    async def test_a_transaction_that_is_rolled_back_tells_nobody(
        self, shop: Shop, url: str, driver: Any
    ) -> None:
        heard: list[Notification] = []
        await shop.worker_app.notifier.subscribe(heard.append)

        async def start(tx: Any) -> None:
            await shop.app.start(shop.work.request(1), tx=tx)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await driver(url, start)
        await shop.app.start(shop.work.request(2))
        await shop.has_begun(2)
        assert 1 not in shop.begun
        assert [
            notification
            for notification in heard
            if isinstance(notification, JobsScheduled) and not notification.count
        ] == []

    async def test_a_thousand_starts_in_one_transaction_are_one_notification(
        self, shop: Shop, url: str
    ) -> None:
        other = PostgresNotifier(url)
        heard: list[Notification] = []
        await other.open()
        await other.subscribe(heard.append)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            for number in range(1, 201):
                await shop.app.start(shop.work.request(number), tx=connection)
        await shop.has_begun(200)
        await asyncio.sleep(0.1)
        await other.close()
        unknown = [
            notification
            for notification in heard
            if isinstance(notification, JobsScheduled) and not notification.count
        ]
        assert len(unknown) == 1
        assert unknown[0].run_at is not None

    async def test_a_job_that_is_due_later_is_taken_when_it_is_due(
        self, shop: Shop, url: str
    ) -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await shop.app.start(shop.work.request(1), tx=connection, schedule=After(seconds=0.6))
        committed = time.monotonic()
        await shop.has_begun(1)
        assert shop.begun[1] - committed > 0.3

    async def test_a_late_commit_below_the_bound_is_found_at_once(
        self, shop: Shop, url: str
    ) -> None:
        """Others are claimed meanwhile, so a claim no longer looks where this job lies."""
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await shop.app.start(shop.work.request(1), tx=connection)
            for number in range(2, 30):
                await shop.app.start(shop.work.request(number))
                await asyncio.sleep(0.02)
            await shop.has_begun(29)
            assert 1 not in shop.begun
        await shop.has_begun(1)

    async def test_ends_are_told_with_the_commit_too(self, shop: Shop, url: str) -> None:
        sequence = await shop.app.start(shop.work.request(1), schedule=After(hours=1))
        heard: list[Notification] = []
        other = PostgresNotifier(url)
        await other.open()
        await other.subscribe(heard.append)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await shop.app.cancel(sequence, tx=connection)
            await asyncio.sleep(0.1)
            assert heard == []

        async def told() -> bool:
            return SequenceEnded(sequence.id) in heard

        await eventually(told)
        await other.close()


class TestSqlite:
    @pytest.fixture
    def url(self, sqlite_path: Path) -> str:
        return f"sqlite:///{sqlite_path}"

    async def test_workers_see_a_commit_that_nobody_announced(
        self, shop: Shop, sqlite_path: Path
    ) -> None:
        connection = sqlite3.connect(sqlite_path)
        await shop.app.start(shop.work.request(1), tx=connection)
        await asyncio.sleep(0.3)
        assert 1 not in shop.begun
        connection.commit()
        connection.close()
        await shop.has_begun(1)


def test_channels_have_names_that_postgresql_takes() -> None:
    assert channel_name("headway", Topic.ENDED) == "headway:headway:ended"
    names = {channel_name("x" * length, topic) for length in (10, 62, 63) for topic in Topic}
    assert len(names) == 3 * len(Topic)
    assert max(len(name) for name in names) <= 63


def test_notifications_in_a_transaction_need_a_listener() -> None:
    notifier = PostgresNotifier("postgresql://db.example:5432/shop")
    assert notifier.within("PostgreSQL database 'shop' at pooler.example:6432")
    assert not notifier.within("PostgreSQL database 'other' at db.example:5432")
    assert not notifier.within("SQLite file shop.db")
