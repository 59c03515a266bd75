"""Worker processes are killed with SIGKILL over and over: every job completes, once, and nothing
that a dead or stale worker did shows.

Checked from outside: a trigger in the database writes down every completion.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headway import Request
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase, left
from tests.support.shop_processes import APP, ROOT, load_shop

pytestmark = [pytest.mark.slow, pytest.mark.alone]

JOBS = 3_000
KILLS = 30
WORKERS = 4
LEASE = 1.0
PATIENCE = 90.0

Completion = tuple[str, int, str | None, str | None]
"""Job, lease version, worker and output of one completion; triggers count them."""


def completions(database: Database) -> list[Completion]:
    return database.ask(
        "select ended.id, ended.version, job.worker, job.output"
        " from ended join {job} as job on cast(job.id as text) = ended.id"
    )


def test_kills_on_postgres(postgres_url: str) -> None:
    kill_and_check(PostgresDatabase(postgres_url))


def test_kills_on_sqlite(sqlite_path: Path) -> None:
    kill_and_check(SqliteDatabase(str(sqlite_path)))


def kill_and_check(database: Database) -> None:
    database.prepare()
    started = asyncio.run(start_jobs(database.dsn))
    workers = [start_worker(database.dsn) for _ in range(WORKERS)]
    kills = 0
    deadline = time.monotonic() + PATIENCE
    try:
        while (waiting := left(database)) and time.monotonic() < deadline:
            time.sleep(random.uniform(0.05, 0.25))
            if kills < KILLS and waiting < JOBS:  # the first workers have begun
                victim = random.randrange(WORKERS)
                workers[victim].kill()
                workers[victim].wait()
                kills += 1
                workers[victim] = start_worker(database.dsn)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        codes = [worker.wait(30) for worker in workers]
    assert kills == KILLS
    assert left(database) == 0
    found = completions(database)
    check_completions(started, found)
    assert sum(version > 1 for _, version, _, _ in found) > 0, "no kill hit a running job"
    assert codes == [0] * WORKERS


def check_completions(started: list[str], completions: list[Completion]) -> None:
    """Every job that was acknowledged was completed, once, by the execution that its row shows."""
    counted = Counter(completion[0] for completion in completions)
    assert set(counted) == set(started)
    assert set(counted.values()) == {1}, "a job was completed more than once"
    for job_id, version, worker, output in completions:
        assert worker is not None
        pid = worker.split(":")[1]
        assert output == f'"{pid}:{version}"', f"job {job_id} shows a stale execution's output"


async def start_jobs(dsn: str) -> list[str]:
    shop = load_shop(dsn)
    requests = [touch(shop) for _ in range(JOBS)]
    async with shop.app as app:
        return [sequence.id for sequence in await app.start_many(requests)]


def touch(shop: Any) -> Request[str]:
    return shop.stay.request(random.uniform(0.0, 0.1)).using(max_losses=100)


def start_worker(dsn: str) -> subprocess.Popen[bytes]:
    options = ("--lease", str(LEASE), "--concurrency", "10")
    return subprocess.Popen(
        [sys.executable, "-m", "headway", "worker", APP, *options],
        cwd=ROOT,
        env={**os.environ, "SHOP_DSN": dsn},
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture(autouse=True)
def _long_enough(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.timeout(PATIENCE * 2))
