"""The store is away for longer than a lease: no job is charged a loss for it."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway import Headway, Job
from headway.domain.events import AttemptStarted, Event, LeaseLost
from headway.domain.request import Request
from headway.ports.store import Store
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore
from headway.worker.settings import WorkerSettings
from tests.support.servers.postgres import PostgresServer

pytestmark = [pytest.mark.long, pytest.mark.slow]

LEASE = 5.0
JOBS = 12
PATIENCE = 60.0

HOLD = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("begin immediate")
print("held", flush=True)
sys.stdin.read()
"""


class Watch:
    """Sees what two workers do."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._started: list[str] = []
        self._lost: list[str] = []

    def observe(self, event: Event) -> None:
        if isinstance(event, AttemptStarted):
            self._started.append(event.job_id)
        elif isinstance(event, LeaseLost):
            self._lost.append(event.job_id)
        else:
            return
        self._loop.call_soon_threadsafe(self._changed.set)

    async def all_started(self, times: int) -> None:
        await self._until(lambda: self._each(self._started, times))

    async def all_lost(self, times: int) -> None:
        await self._until(lambda: self._each(self._lost, times))

    @staticmethod
    def _each(seen: list[str], times: int) -> bool:
        return len({id for id in seen if seen.count(id) >= times}) == JOBS

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


async def go_through_absences(
    make: Callable[[], Store], away: Callable[[], contextlib.AbstractContextManager[None]]
) -> None:
    """Two workers of two apps hold jobs while the store is away, twice."""
    watch, go = Watch(), asyncio.Event()

    def make_app() -> tuple[Headway, Callable[[], Request[None]]]:
        app = Headway(make(), observers=[watch], migrate=True)

        @app.job
        async def work(job: Job) -> None:
            await go.wait()

        return app, work.request

    app, request = make_app()
    other, _ = make_app()
    async with app, other:
        started = await app.start_many([request() for _ in range(JOBS)])
        settings = {"lease_for": LEASE, "concurrency": JOBS, "poll_every": 0.1}
        workers = [each.worker(WorkerSettings(**settings)) for each in (app, other)]
        for worker in workers:
            await worker.start()
        try:
            for absence in (1, 2):
                await watch.all_started(absence)
                with away():
                    await watch.all_lost(absence)
                    await asyncio.sleep(LEASE)  # until they have run out by any clock
            await watch.all_started(3)
            go.set()
            async with asyncio.timeout(PATIENCE):
                for sequence in started:
                    await app.wait(sequence)
            for sequence in started:
                assert (await app.get(sequence)).losses == 0
                errors = [each.failure.message for each in await app.attempts(sequence)]
                assert all("no loss was charged" in error for error in errors), errors
        finally:
            go.set()
            for worker in workers:
                await worker.stop()


@contextlib.contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@contextlib.contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("away", [frozen, stopped])
async def test_a_server_that_is_away_costs_no_job_a_loss(
    away: Callable[[PostgresServer], contextlib.AbstractContextManager[None]],
) -> None:
    with PostgresServer() as server:
        dsn = server.url(server.create_database())
        await go_through_absences(lambda: PostgresStore(dsn), lambda: away(server))


@pytest.mark.timeout(180)
async def test_a_file_that_is_held_by_another_program_costs_no_job_a_loss(
    sqlite_path: Path,
) -> None:
    @contextlib.contextmanager
    def held() -> Iterator[None]:
        command = [sys.executable, "-c", HOLD, str(sqlite_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == b"held\n"
            try:
                yield
            finally:
                program.communicate()

    await go_through_absences(lambda: SqliteStore(str(sqlite_path)), held)
