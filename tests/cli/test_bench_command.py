"""`headway bench` as a user runs it: it measures, and leaves a database as it found it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway import Headway
from headway.cli.bench.database import SCHEMA
from headway.cli.bench.schema import MARK

pytestmark = [pytest.mark.long, pytest.mark.slow]

JOBS = "60"
ALL = ["A", "B", "C", "D", "E", "F", "G", "H"]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headway", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def figures(*arguments: str) -> dict[str, Any]:
    done = bench(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nobody watches
    return json.loads(done.stdout)


def schemas(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        return [
            name
            for (name,) in connection.execute(
                "select nspname from pg_namespace where nspname like 'headway%' order by nspname"
            )
        ]


def check_figures(measured: dict[str, Any]) -> None:
    for letter in "ABCDG":
        assert measured[letter]["jobs_per_second"] > 0
    for letter in "EF":
        waits = measured[letter]["milliseconds"]
        assert 0 < waits["p50"] <= waits["p95"] <= waits["p99"]
    assert 10 < measured["H"]["megabytes"] < 500


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_measures_on_postgres_and_leaves_nothing(postgres_url: str) -> None:
    found = figures(postgres_url, "--jobs", JOBS)

    assert list(found["measured"]) == ALL
    assert found["jobs"] == int(JOBS)
    assert found["store"].startswith("PostgreSQL ")
    assert found["fsync"] in ("on", "off")
    check_figures(found["measured"])
    assert schemas(postgres_url) == []


def test_measures_beside_a_sqlite_file_and_leaves_nothing(sqlite_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path)) as connection, connection:
        connection.execute("create table theirs (n)")
    before = sqlite_path.read_bytes()

    found = figures(f"sqlite:///{sqlite_path}", "--jobs", JOBS)

    assert list(found["measured"]) == ALL
    check_figures(found["measured"])
    assert list(sqlite_path.parent.iterdir()) == [sqlite_path]
    assert sqlite_path.read_bytes() == before


def test_measures_in_memory_without_worker_processes() -> None:
    assert list(figures("memory://", "--jobs", JOBS)["measured"]) == ["A", "B", "C", "E", "F"]


def test_prints_a_table_for_people() -> None:
    done = bench("memory://", "--jobs", JOBS)

    assert done.returncode == 0, done.stderr
    first, *rows = done.stdout.splitlines()
    assert first == "memory"
    assert [row[0] for row in rows] == ["A", "B", "C", "E", "F"]
    assert "jobs/s" in rows[0]
    assert "in this process" in rows[2]


def test_does_not_touch_jobs_that_are_there(postgres_url: str) -> None:
    async def start() -> None:
        app = Headway(postgres_url, migrate=True)

        @app.job
        async def noop(n: int, text: str) -> None:
            pass

        async with app:
            await app.start_many([noop.request(n, "theirs") for n in range(5)])

    asyncio.run(start())

    figures(postgres_url, "--jobs", JOBS)

    assert schemas(postgres_url) == ["headway"]
    with psycopg.connect(postgres_url) as connection:
        states = connection.execute("select state, count(*) from headway.job group by 1").fetchall()
    assert states == [("pending", 5)]


def test_refuses_a_schema_that_it_did_not_make(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create schema {SCHEMA}")
        connection.execute(f"create table {SCHEMA}.theirs as select 1 as n")

    done = bench(postgres_url, "--jobs", JOBS)

    assert done.returncode == 1
    assert f"a schema {SCHEMA!r} that no benchmark made" in done.stderr
    assert done.stdout == ""
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(f"select n from {SCHEMA}.theirs").fetchall() == [(1,)]


def test_drops_what_a_killed_benchmark_left(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create schema {SCHEMA}")
        connection.execute(f"comment on schema {SCHEMA} is '{MARK}'")
        connection.execute(f"create table {SCHEMA}.job (left_over int)")

    check_figures(figures(postgres_url, "--jobs", JOBS)["measured"])

    assert schemas(postgres_url) == []


def test_refuses_while_another_benchmark_runs(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtextextended(%s, 0))", (MARK,))
        done = bench(postgres_url, "--jobs", JOBS)

    assert done.returncode == 1
    assert "another benchmark runs in this database" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_removes_its_schema_and_workers_when_interrupted(
    postgres_url: str, number: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", "bench", postgres_url, "--jobs", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: schemas(postgres_url) == [SCHEMA])
        wait_until(lambda: sessions(postgres_url) > 1)
        process.send_signal(number)
        out, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 1
    assert out == ""
    assert said == "Error: interrupted; what was made for the benchmark is removed\n"
    assert schemas(postgres_url) == []
    wait_until(lambda: sessions(postgres_url) == 0)


def test_interrupted_while_draining_it_ends_its_worker(sqlite_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", "bench", f"sqlite:///{sqlite_path}", "--jobs", "20000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers: list[int] = []
    try:
        wait_until(lambda: bool(workers.extend(children(process.pid)) or workers))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()

    assert process.returncode == 1
    assert "interrupted" in said
    assert list(sqlite_path.parent.iterdir()) == []
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("dsn", "problem"),
    [
        ("shop:app", "name the database by a URL"),
        ("mysql://localhost/shop", "unknown scheme 'mysql'"),
        ("sqlite:////nowhere/at/all/shop.db", "no file can be made in /nowhere/at/all"),
        ("postgresql://postgres@127.0.0.1:1/shop", "PostgreSQL cannot be reached"),
    ],
)
def test_says_what_is_wrong_with_the_database(dsn: str, problem: str) -> None:
    done = bench(dsn, "--jobs", JOBS)

    assert done.returncode == 1
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def sessions(dsn: str) -> int:
    """Connections to the database, besides the one that asks."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return row[0]


def children(pid: int) -> list[int]:
    listing = subprocess.check_output(["ps", "-A", "-o", "ppid=,pid="], text=True)
    pairs = (map(int, line.split()) for line in listing.splitlines())
    return [child for parent, child in pairs if parent == pid]
