"""Whatever happens between a claim and the commit that ends it, at whatever place: every job
completes once, what it wrote with its completion is there once, and what follows from it is there
exactly if it completed.

First a run without trouble notes all places; then, for each of them, the same jobs in a queue of
their own are interrupted there once. What must always be true is checked right then, and again when
a healthy worker has seen all queues to their end.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.system.failpoints.databases import Database, PostgresDatabase, SqliteDatabase
from tests.system.failpoints.failing_stores import FailingPostgres, FailingSqlite, How
from tests.system.failpoints.shop import SCENARIOS, Shop, failing_store

PATIENCE = 60.0

pytestmark = pytest.mark.slow

every_scenario = pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, marks=[pytest.mark.long] * (each != "plain")) for each in SCENARIOS],
)


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest) -> Database:
    found: Database
    if request.param == "sqlite":
        found = SqliteDatabase(request.getfixturevalue("sqlite_path"))
    else:
        found = PostgresDatabase(request.getfixturevalue("postgres_url"))
    await found.prepare()
    return found


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Shop]:
    shop = Shop(failing_store(database.dsn))
    async with shop.app:
        yield shop


@every_scenario
@pytest.mark.parametrize(
    "how", [How.ERROR, How.LOST, How.CANCEL, How.STOP], ids=lambda how: how.name
)
async def test_at_every_place(database: Database, shop: Shop, scenario: str, how: How) -> None:
    places = await all_places(database, shop, scenario)
    failpoints = failing(shop).failpoints
    queues: list[str] = []
    for number, place in enumerate(places):
        queue = f"{scenario}-{number}"
        failpoints.arm(None)
        await shop.start(scenario, queue)
        failpoints.arm(place, how)
        async with asyncio.timeout(PATIENCE):
            await shop.work(queue)
        assert failpoints.happened, place
        with explained(how, place):
            database.look().check(queue, scenario)
        queues.append(queue)
    await heal(database, queues)
    ended = database.look()
    for queue, place in zip(queues, places, strict=True):
        with explained(how, place):
            ended.check_ended(queue, scenario)


@every_scenario
async def test_killed_at_every_place(database: Database, shop: Shop, scenario: str) -> None:
    places = await all_places(database, shop, scenario)
    queues = [f"{scenario}-{number}" for number in range(len(places))]
    failing(shop).failpoints.arm(None)
    for queue in queues:
        await shop.start(scenario, queue)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.system.failpoints.victim", database.dsn],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as victims:
        assert victims.stdin is not None
        assert victims.stdout is not None
        for queue, place in zip(queues, places, strict=True):
            victims.stdin.write(f"{queue}\t{place}\n")
            victims.stdin.flush()
            assert int(victims.stdout.readline()) == signal.SIGKILL, place
            with explained(How.KILL, place):
                database.look().check(queue, scenario)
        victims.stdin.close()
    await heal(database, queues)
    ended = database.look()
    for queue, place in zip(queues, places, strict=True):
        with explained(How.KILL, place):
            ended.check_ended(queue, scenario)


async def all_places(database: Database, shop: Shop, scenario: str) -> list[str]:
    """The places that a run without trouble passes."""
    failpoints = failing(shop).failpoints
    await shop.start(scenario, "untroubled")
    failpoints.arm(None)
    await shop.work("untroubled")
    database.look().check_ended("untroubled", scenario)
    places = list(dict.fromkeys(failpoints.passed))
    assert len(places) > 20
    return places


async def heal(database: Database, queues: list[str]) -> None:
    """Let a healthy worker see to all that is left."""
    shop = Shop(database.dsn)
    async with shop.app:
        worker = shop.app.worker(queues=queues, reap_every=0.1, poll_every=0.1)
        await worker.start()
        deadline = time.monotonic() + PATIENCE
        while database.look().left() and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        await worker.stop()


def failing(shop: Shop) -> FailingSqlite | FailingPostgres:
    assert isinstance(shop.store, FailingSqlite | FailingPostgres)
    return shop.store


class explained:  # noqa: N801 - it reads like a function
    """Says where it was interrupted if something turns out to be wrong."""

    def __init__(self, how: How, place: str) -> None:
        self._text = f"{how} at: {place}"

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, AssertionError):
            error.add_note(self._text)
