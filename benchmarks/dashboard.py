"""`python -m benchmarks.dashboard`: how long every page and every question of the API takes when
there are many jobs: 1,000,000 on PostgreSQL, 200,000 on SQLite. Says so if one is too slow.

The rows are written past the engine: a week of jobs, most of them completed, in the mix of states,
types and queues of a busy shop.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg

from headway import Headway
from headway.domain.failure import encode_failure, fingerprint
from headway.errors import Failure
from headway.web import Open, dashboard_server
from tests.support.servers.postgres import PostgresServer

LIMIT = 0.3
"""Seconds that a page may take."""
ROUNDS = 5
WEEK = timedelta(days=7)

COLUMNS = (
    "id", "sequence_id", "root_id", "run_at", "created_at", "started_at", "finished_at", "position",
    "attempts", "max_attempts", "max_losses", "lease_token", "lease_until", "lease_version",
    "waiting", "priority", "state", "type", "queue", "worker", "last_error", "fingerprint", "input",
    "output",
)  # fmt: skip
STATES = {
    "completed": 0.90, "failed": 0.05, "pending": 0.03, "blocked": 0.005, "running": 0.0005,
    "cancelled": 0.0145,
}  # fmt: skip
TYPES = tuple(f"shop.job_{number}" for number in range(25))
QUEUES = ("default", "mail", "media", "shipping", "reports", "imports")
ERRORS = tuple(
    Failure(
        "TimeoutError", f"host {number} did not answer", f'  File "a{number}.py", line 1, in x\n'
    )
    for number in range(40)
)


def rows(count: int) -> Iterator[dict[str, Any]]:
    """The newest last. The same rows each time, but for the hour."""
    chance = random.Random(7)
    began = datetime.now(UTC) - WEEK
    states = chance.choices(list(STATES), list(STATES.values()), k=count)
    before = ""
    for number, state in enumerate(states):
        created = began + WEEK * (number / count)
        millis = int(created.timestamp() * 1000)
        low = (0b10 << 62) | (number << 20) | chance.getrandbits(20)
        id = str(UUID(int=(millis << 80) | (7 << 76) | low))
        continues = bool(before) and number % 10 == 0
        first = before if continues else id
        ended = state in ("completed", "failed", "cancelled")
        started = created + timedelta(seconds=chance.random())
        type = TYPES[number % len(TYPES)]
        failure = ERRORS[number % len(ERRORS)] if state == "failed" else None
        scheduled = state == "pending" and number % 3 == 0
        yield {
            "id": id,
            "sequence_id": first,
            "root_id": first,
            "run_at": datetime.now(UTC) + timedelta(hours=number % 100) if scheduled else created,
            "created_at": created,
            "started_at": started if ended or state == "running" else None,
            "finished_at": started + timedelta(seconds=chance.random()) if ended else None,
            "position": 1 if continues else 0,
            "attempts": 4 if failure else 0,
            "max_attempts": 4,
            "max_losses": 5,
            "lease_token": id if state == "running" else None,
            "lease_until": datetime.now(UTC) + timedelta(hours=1) if state == "running" else None,
            "lease_version": 1,
            "waiting": 1 if state == "blocked" else 0,
            "priority": number % 2,
            "state": state,
            "type": type,
            "queue": QUEUES[number % len(QUEUES)],
            "worker": "host-1:4711",
            "last_error": encode_failure(failure) if failure else None,
            "fingerprint": fingerprint(type, failure) if failure else None,
            "input": f'{{"order_id":{number},"customer":{{"city":"Berlin","id":{number % 997}}}}}',
            "output": f'"receipt-{number}"' if state == "completed" else None,
        }
        before = "" if continues else id


def fill_sqlite(path: Path, count: int) -> None:
    def stored(value: object) -> object:
        return int(value.timestamp() * 1_000_000) if isinstance(value, datetime) else value

    marks = ", ".join("?" * len(COLUMNS))
    with sqlite3.connect(path) as db:
        db.executemany(
            f"insert into headway_job ({', '.join(COLUMNS)}) values ({marks})",
            ([stored(row[name]) for name in COLUMNS] for row in rows(count)),
        )
    db.close()


def fill_postgres(url: str, count: int) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        with db.transaction(), db.cursor() as cursor:
            names = ", ".join(COLUMNS)
            with cursor.copy(f"copy headway.job ({names}) from stdin") as copy:
                for row in rows(count):
                    copy.write_row([row[name] for name in COLUMNS])
        db.execute("vacuum analyze headway.job")  # as autovacuum does while a table grows


async def paths(app: Headway) -> list[str]:
    """Pages, and questions of the API."""
    failed = (await app.list(state="failed", limit=1)).jobs[0]
    old = (await app.list(type=TYPES[0], limit=50)).jobs[-1]
    continued = (await app.list(state="completed", limit=50)).jobs
    sequence = next((job.sequence_id for job in continued if job.position), old.sequence_id)
    page = await app.list(limit=1000)
    return [
        "/",
        "/overview/rest",
        "/jobs",
        f"/jobs?cursor={page.cursor}",
        "/jobs?q=state:failed",
        "/jobs?q=state:scheduled",
        "/jobs?q=state:completed+type:shop.job_7",
        "/jobs?q=queue:mail+type:shop.job_1",
        "/jobs?q=args.order_id:77",
        "/jobs?q=error:host+created:>3d",
        f"/jobs?q=state:failed+fingerprint:{failed.fingerprint}",
        f"/jobs/{failed.id}",
        f"/jobs/{old.id}",
        "/jobs/all?action=retry&q=state:failed",
        "/jobs/all?action=delete&q=state:completed",
        "/sequences",
        "/sequences?q=state:failed",
        f"/sequences/{sequence}",
        "/failures",
        "/failures?q=type:shop.job_3",
        "/queues",
        "/types",
        "/workers",
        "/audit",
        "/schedules",
        "/api/v1/overview",
        "/api/v1/jobs?limit=200",
        "/api/v1/jobs/count?q=state:completed",
        "/api/v1/check",
    ]


async def measure(app: Headway, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds, by path; the first round, in which caches fill, is counted too."""
    times: dict[str, list[float]] = {}
    async with (
        app,
        dashboard_server(app, auth=Open(), port=0) as address,
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):
        for path in await paths(app):
            for _ in range(rounds):
                began = time.perf_counter()
                answer = await client.get(path)
                times.setdefault(path, []).append(time.perf_counter() - began)
                answer.raise_for_status()
    return times


def report(title: str, times: dict[str, list[float]]) -> bool:
    """Whether all was fast enough: by the median, for a machine may be busy with something else."""
    print(f"\n{title}\n  first     median    worst")
    for path, taken in times.items():
        slow = "  TOO SLOW" if statistics.median(taken) > LIMIT else ""
        figures = (taken[0], statistics.median(taken), max(taken))
        print("".join(f"{each * 1000:7.0f} ms" for each in figures), f" {path}{slow}")
    return all(statistics.median(taken) <= LIMIT for taken in times.values())


async def on_sqlite(count: int) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "many.db"
        app = Headway(f"sqlite:///{path}")
        async with app:
            pass  # creates the tables
        fill_sqlite(path, count)
        return report(f"SQLite, {count:,} jobs", await measure(app))


async def on_postgres(count: int) -> bool:
    with PostgresServer(durable=True) as server:
        url = server.url(server.create_database())
        app = Headway(url, migrate=True)
        async with app:
            pass
        fill_postgres(url, count)
        return report(f"PostgreSQL {server.major}, {count:,} jobs", await measure(app))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sqlite", type=int, default=200_000, metavar="JOBS", help="0: leave out")
    parser.add_argument("--postgres", type=int, default=1_000_000, metavar="JOBS")
    asked = parser.parse_args()
    fast = [
        asyncio.run(measured(count))
        for measured, count in ((on_sqlite, asked.sqlite), (on_postgres, asked.postgres))
        if count
    ]
    return 0 if all(fast) else 1


if __name__ == "__main__":
    sys.exit(main())
