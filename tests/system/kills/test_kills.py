"""Worker processes are killed with SIGKILL over and over: every job completes, once, and nothing
that a dead or stale worker did shows.

Checked from outside: a trigger in the database writes down every completion.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.alone]

JOBS = 3_000
KILLS = 30
WORKERS = 4
LEASE = 1.0
PATIENCE = 90.0

Completion = tuple[str, int, str | None, str | None]
"""Job, lease version, worker and output, as they were in the row when it became completed."""


class Database(Protocol):
    dsn: str

    def watch(self) -> None: ...

    def completions(self) -> list[Completion]: ...

    def left(self) -> int: ...


class Postgres:
    def __init__(self, url: str) -> None:
        self.dsn = url

    def watch(self) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(
                """
                create table seen (id uuid, version int, worker text, output text);
                create function note() returns trigger language plpgsql as $$
                begin
                    insert into seen values (new.id, new.lease_version, new.worker, new.output);
                    return null;
                end $$;
                create trigger note after update on headway.job for each row
                when (new.state = 'completed') execute function note();
                """
            )

    def completions(self) -> list[Completion]:
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(
                "select id::text, version, worker, output from seen"
            ).fetchall()

    def left(self) -> int:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute(
                "select count(*) from headway.job where state <> 'completed'"
            ).fetchone()
            assert row is not None
            return int(row[0])


class Sqlite:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.dsn = f"sqlite:///{path}"

    def watch(self) -> None:
        with closing(self._connect()) as connection, connection:
            connection.executescript(
                """
                create table seen (id text, version int, worker text, output text);
                create trigger note after update on headway_job when new.state = 'completed'
                begin
                    insert into seen values (new.id, new.lease_version, new.worker, new.output);
                end;
                """
            )

    def completions(self) -> list[Completion]:
        with closing(self._connect()) as connection:
            return connection.execute("select id, version, worker, output from seen").fetchall()

    def left(self) -> int:
        with closing(self._connect()) as connection:
            found = connection.execute(
                "select count(*) from headway_job where state <> 'completed'"
            ).fetchone()
            return int(found[0])

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30)


def test_kills_on_postgres(postgres_url: str) -> None:
    kill_and_check(Postgres(postgres_url))


def test_kills_on_sqlite(sqlite_path: Path) -> None:
    kill_and_check(Sqlite(sqlite_path))


def kill_and_check(database: Database) -> None:
    os.environ["KILLS_DSN"] = database.dsn
    started = asyncio.run(start_jobs(database))
    workers = [start_worker() for _ in range(WORKERS)]
    kills = 0
    deadline = time.monotonic() + PATIENCE
    try:
        while database.left() and time.monotonic() < deadline:
            time.sleep(random.uniform(0.05, 0.25))
            if kills < KILLS:
                victim = random.randrange(WORKERS)
                workers[victim].kill()
                workers[victim].wait()
                kills += 1
                workers[victim] = start_worker()
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        codes = [worker.wait(30) for worker in workers]
    assert kills == KILLS
    assert database.left() == 0
    completions = database.completions()
    check_completions(started, completions)
    assert sum(version > 1 for _, version, _, _ in completions) > 0, "no kill hit a running job"
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


async def start_jobs(database: Database) -> list[str]:
    sys.modules.pop("tests.system.kills.shop", None)
    from tests.system.kills.shop import app, touch

    await app.store.migrate()
    database.watch()
    async with app:
        return [
            sequence.id
            for sequence in await app.start_many([touch.request(n) for n in range(JOBS)])
        ]


def start_worker() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "headway",
            "worker",
            "tests.system.kills.shop:app",
            "--lease",
            str(LEASE),
            "--concurrency",
            "10",
        ],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture(autouse=True)
def _long_enough(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.timeout(PATIENCE * 2))
