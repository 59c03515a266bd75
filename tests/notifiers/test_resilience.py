"""A notifier that goes away costs time, never a job."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.domain.events import Event, WorkerRecovered, WorkerTroubled
from headway.notifiers.nats import NatsNotifier
from headway.notifiers.postgres import PostgresNotifier
from headway.notifiers.redis import RedisNotifier
from headway.notifiers.remote import RemoteNotifier
from headway.stores.memory import MemoryStore
from tests.support.servers.brokers import NatsServer, RedisServer, ServerProcess, ValkeyServer
from tests.support.servers.postgres import PostgresServer

pytestmark = pytest.mark.slow

HOUR = 3600.0
FALLBACK = 1.0
SOON = 60.0


@pytest.fixture(autouse=True)
def _no_short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.worker.claims.claim_timing.SHORTEST_POLL", HOUR)


@pytest.fixture(params=["redis", pytest.param("valkey", marks=pytest.mark.long), "nats"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that a test may kill."""
    kinds = {"redis": RedisServer, "valkey": ValkeyServer, "nats": NatsServer}
    if request.param == "redis":
        request.getfixturevalue("redis_server")  # or say that there is none
    with kinds[request.param]() as server:
        yield server


def notifier_of(server: ServerProcess) -> RemoteNotifier:
    kind = NatsNotifier if isinstance(server, NatsServer) else RedisNotifier
    return kind(server.url)


class Load:
    """A producer and a worker with a notifier each, around one store. The worker looks for jobs
    every second without notifications, and every hour with them."""

    def __init__(self, make: Callable[[], RemoteNotifier]) -> None:
        self.store = MemoryStore()
        self.events: list[Event] = []
        self.started = self.ran = 0
        self.producer = Headway(self.store, notifier=make())
        self.consumer = Headway(self.store, notifier=make(), observers=[self])
        for app in (self.producer, self.consumer):
            self.work = self._declare(app)

    def _declare(self, app: Headway) -> Any:
        @app.job
        async def work() -> None:
            self.ran += 1

        return work

    def observe(self, event: Event) -> None:
        self.events.append(event)

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[None]:
        options = {"poll_every": FALLBACK, "poll_when_told": HOUR, **options}
        async with self.producer, self.consumer:
            worker = self.consumer.worker(**options)
            await worker.start()
            try:
                yield
            finally:
                await worker.stop()

    async def start(self, seconds: float, every: float = 0.02) -> None:
        """One job after another for so long, and one at least."""
        until = time.monotonic() + seconds
        while True:
            await self.start_one()
            await asyncio.sleep(every)
            if time.monotonic() >= until:
                return

    async def start_one(self) -> None:
        await self.producer.start(self.work.request())
        self.started += 1

    async def all_ran(self) -> None:
        await eventually(lambda: self.ran == self.started)

    async def notifications_arrive(self) -> None:
        """The first job may be found by a last look; the next look is an hour away."""
        for _ in range(3):
            await self.all_ran()
            await self.start_one()
        await self.all_ran()

    async def all_linked(self) -> None:
        for notifier in (self.producer.notifier, self.consumer.notifier):
            assert isinstance(notifier, RemoteNotifier)
            await eventually(lambda notifier=notifier: not notifier._failure)

    def said(self) -> list[type[Event]]:
        return [
            type(event)
            for event in self.events
            if isinstance(event, WorkerTroubled | WorkerRecovered) and event.part == "notifier"
        ]


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.01)


async def test_killing_the_server_under_load_leaves_no_job_waiting(
    server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    load = Load(lambda: notifier_of(server))
    with caplog.at_level(logging.WARNING, logger="headway"):
        async with load.working():
            await load.start(0.7)
            await asyncio.to_thread(server.kill)
            await load.start(1.5)
            await load.all_ran()  # they are found without notifications
            await asyncio.to_thread(server.start)
            await load.start(1.5)
            await eventually(lambda: load.said() == [WorkerTroubled, WorkerRecovered])
            await load.all_linked()
            await load.notifications_arrive()
    said = [record.message for record in caplog.records]
    warnings = [line for line in said if not line.startswith("worker ")]
    # On a very busy machine a new connection may fail once more; each try would give far more.
    assert 2 <= len(warnings) <= 4, "each notifier says so once for each outage"
    assert len(said) == len(warnings) + 1, "and so does the worker"
    assert all(
        message.startswith("no notifications through the notifier on") for message in warnings
    )


async def test_killing_the_postgres_listener_under_load_leaves_no_job_waiting(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.url()
    load = Load(lambda: PostgresNotifier(url, schema="killed"))

    def kill(name: str) -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = %s",
                (name,),
            ).fetchall()
            return len(found)

    async with load.working():
        await load.start(0.5)
        for _ in range(3):
            for name in ("headway listener", "headway notifier"):
                await load.all_linked()
                assert await asyncio.to_thread(kill, name) >= 1
                await load.start(0.5)
        await eventually(lambda: load.said()[:2] == [WorkerTroubled, WorkerRecovered])
        await load.all_linked()
        await load.notifications_arrive()


async def test_a_server_that_hangs_is_noticed_and_polling_takes_over(server: ServerProcess) -> None:
    def make() -> RemoteNotifier:
        notifier = notifier_of(server)
        notifier.timeout = 0.3
        notifier.watch_every = 0.3
        return notifier

    load = Load(make)
    async with load.working():
        await load.start(0.3)
        with server.frozen():
            await load.start(1)
            await eventually(lambda: WorkerTroubled in load.said())
            await load.all_ran()
        await eventually(lambda: load.said()[-1] is WorkerRecovered)


async def test_a_server_that_is_away_keeps_nobody_from_starting(
    server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    server.kill()
    load = Load(lambda: notifier_of(server))
    with caplog.at_level(logging.WARNING, logger="headway"):
        async with load.working(poll_every=0.1):
            assert load.said() == [WorkerTroubled]
            await load.start_one()
            await load.all_ran()
            await asyncio.to_thread(server.start)
            await eventually(lambda: load.said() == [WorkerTroubled, WorkerRecovered])
            await load.all_linked()
            await load.notifications_arrive()


async def test_what_was_published_while_the_server_was_away_is_sent_when_it_is_back(
    server: ServerProcess,
) -> None:
    """The consumer connects long before the producer's, and its next poll is an hour away."""
    load = Load(lambda: notifier_of(server))
    async with load.working():
        await load.start_one()
        await load.all_ran()
        producer = load.producer.notifier
        assert isinstance(producer, RemoteNotifier)
        connect = producer.connect
        away = True

        async def unlucky(callbacks: Any) -> Any:
            if away:
                raise ConnectionError("not yet")
            return await connect(callbacks)

        producer.connect = unlucky
        producer._lose(ConnectionError("cut"))
        await eventually(lambda: bool(producer._failure))
        await load.start_one()
        await asyncio.sleep(0.3)
        assert load.ran == load.started - 1
        away = False
        await load.all_ran()


async def test_a_wrong_password_is_said_without_it(caplog: pytest.LogCaptureFixture) -> None:
    with ValkeyServer() as server:
        url = server.url.replace("://", "://me:hunter2@")
        with caplog.at_level(logging.WARNING, logger="headway"):
            async with Headway(MemoryStore(), notifier=url) as app:
                await app.notifier.subscribe(lambda _: None)
        assert "no notifications through the notifier on Redis at 127.0.0.1" in caplog.text
        assert "hunter2" not in caplog.text
