"""`python -m benchmarks.schedules`: how late the jobs of ticks start on idle workers, how long it
takes to fire many schedules that are due at once, beside the same statements by hand, and what a
look costs that finds nothing due.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from msgspec import structs
from psycopg import RawCursor
from psycopg.types.string import TextLoader

from benchmarks.work import Work
from benchmarks.worker import worker_process
from headway import Every
from headway.cli.bench.database import PostgresBench
from headway.domain.schedules.schedule import ScheduleDefinition, tick_id
from headway.drivers.postgres_statement_parameters import text_parameters
from headway.jobs.schedule_definition import define_schedule
from headway.ports.statement import Statement
from headway.schedules.declaration import new_schedule
from headway.schedules.firing import MOST_AT_ONCE
from headway.stores.postgres.connections import SETTINGS
from headway.stores.sql.sql_files import load_statements
from tests.support.servers.postgres import PostgresServer

WORKERS = 4
AIM_LATE = 0.1
OPTIONS = ("input", "type", "queue", "priority", "max_attempts", "max_losses", "timeout")
ELSEWHERE = "elsewhere"
"""A queue that no worker serves: only the firing is measured."""
SOON = 15
"""Seconds until the schedules are due: until then they are put, and the workers start."""
STARTING = 3
"""Seconds until a worker that says it is ready has claimed, listens and has looked once."""
PER_SECOND = 4
"""Schedules with a tick each second, spread over the second."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def lateness(dsn: str, workers: int, seconds: float) -> dict[str, float]:
    """Milliseconds from a tick to the start of its handler."""
    late = sorted(asyncio.run(_lateness(dsn, workers, seconds)))
    return {
        "ticks": len(late),
        **{f"p{p} ms": 1000 * late[min(len(late) * p // 100, len(late) - 1)] for p in (50, 95, 99)},
        "max ms": 1000 * late[-1],
        "within 100 ms": sum(each <= AIM_LATE for each in late) / len(late),
    }


async def _lateness(dsn: str, workers: int, seconds: float) -> list[float]:
    work = Work(dsn)
    async with work.app as app:
        with ExitStack() as stack:
            for _ in range(workers):
                stack.enter_context(worker_process(dsn))
            await asyncio.sleep(STARTING)
            names = [f"each-second-{number}" for number in range(PER_SECOND)]
            for number, name in enumerate(names):
                anchor = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number / PER_SECOND)
                timetable = Every(seconds=1, anchor=anchor)
                await app.schedules.put(name, timetable, work.ticked.request(), overlap="allow")
            await asyncio.sleep(seconds)
            for name in names:
                await app.schedules.delete(name)
            await asyncio.sleep(1)
    return _outputs(dsn)


def _outputs(dsn: str) -> list[float]:
    """The answers of all jobs, which are deleted."""
    with ExitStack() as stack:
        connection: Any
        if dsn.startswith("sqlite"):
            path = dsn.removeprefix("sqlite:///")
            connection = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
            table = "headway_job"
        else:
            connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
            table = "headway.job"
        where = f"from {table} where type = 'ticked' and state = 'completed'"
        found = [float(output) for (output,) in connection.execute(f"select output {where}")]
        connection.execute(f"delete {where}")
    return found


def due_at_once(dsn: str, count: int, fire: str) -> float:
    """Put schedules that are all due at one moment; seconds from it until all are fired."""
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=SOON)
    asyncio.run(_put(dsn, count, due))
    PostgresBench(dsn).settle()
    commands = {
        "workers": ("-m", "benchmarks.worker", dsn, "--concurrency", "1"),
        "by hand": ("-m", "benchmarks.schedules", "--by-hand", dsn, str(due.timestamp())),
    }
    processes = [
        subprocess.Popen([sys.executable, *commands[fire]], stdout=subprocess.PIPE, text=True)
        for _ in range(WORKERS)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "READY\n"
        assert datetime.now(UTC) < due, "the schedules were due before the workers were ready"
        return _watch(dsn, count, due)
    finally:
        for process in processes:
            process.terminate()
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()


async def _put(dsn: str, count: int, due: datetime) -> None:
    work = Work(dsn)
    async with work.app as app:
        request = work.ticked.request()
        timetable = Every(hours=1, anchor=due)
        definition = define_schedule("due", timetable, request, {"overlap": "skip"})
        now = datetime.now(UTC)
        records = [
            new_schedule(f"due-{number}", _for_tenant(definition, number), now, declaration=None)
            for number in range(count)
        ]
        for start in range(0, count, 1_000):
            await app.store.run(app.store.put_schedules, records[start : start + 1_000])


def _for_tenant(definition: ScheduleDefinition, number: int) -> ScheduleDefinition:
    """With an input of its own, as schedules that are put at run time have."""
    job = structs.replace(definition.job, queue=ELSEWHERE, input=f"[{number}]")
    return structs.replace(definition, job=job)


def _watch(dsn: str, count: int, due: datetime) -> float:
    with psycopg.connect(dsn, autocommit=True) as connection:
        while True:
            row = connection.execute("select count(*) from headway.job").fetchone()
            seconds = time.time() - due.timestamp()
            if row == (count,):
                break
            assert seconds < 120, f"{row} of {count} were fired"
            time.sleep(0.01)
        once = connection.execute(
            "select count(distinct schedule), count(*) from headway.job"
        ).fetchone()
        assert once == (count, count)
        connection.execute("truncate headway.job, headway.schedule, headway.schedule_run")
    return seconds


def fire_by_hand(dsn: str, due: float) -> None:
    """The statements of a worker, 500 schedules at a time, on one connection without asyncio."""
    sql = load_statements("headway.stores.postgres", '"headway".')
    with psycopg.connect(dsn) as connection:
        connection.adapters.register_loader("uuid", TextLoader)
        connection.execute(SETTINGS)
        connection.commit()
        cursor = RawCursor(connection)

        def run(name: str, params: tuple[Any, ...], rows: list[tuple[Any, ...]]) -> None:
            statement = Statement("", params, rows)
            cursor.execute(sql[name].encode(), text_parameters(statement))

        print("READY", flush=True)
        time.sleep(max(0.0, due - time.time()))
        while True:
            cursor.execute(sql["due_schedules"].encode(), ([], MOST_AT_ONCE, None))
            found = cursor.fetchall()
            if not found:
                return
            now = datetime.now(UTC)
            tick, next_at = found[0][4], found[0][4] + timedelta(hours=1)
            jobs = [msgspec.json.decode(row[1])["job"] for row in found]
            ids = [tick_id(row[0], tick) for row in found]
            run(
                "insert_scheduled",
                (now,),
                [
                    (id, *(job[name] for name in OPTIONS), tick, row[0], tick, None)
                    for id, job, row in zip(ids, jobs, found, strict=True)
                ],
            )
            run(
                "advance_schedules",
                (),
                [
                    (row[0], next_at, None, tick, now, id, 1, 0, 1)
                    for id, row in zip(ids, found, strict=True)
                ],
            )
            run(
                "save_schedule_runs",
                (),
                [(row[0], 0, tick, now, id, None) for id, row in zip(ids, found, strict=True)],
            )
            connection.commit()


def idle_look(dsn: str, count: int) -> dict[str, float]:
    """Milliseconds of a look that finds nothing due among so many schedules."""
    asyncio.run(_put(dsn, count, datetime.now(UTC) + timedelta(hours=1)))
    PostgresBench(dsn).settle()
    sql = load_statements("headway.stores.postgres", '"headway".')
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("vacuum analyze headway.schedule")
        connection.execute(SETTINGS)
        cursor = RawCursor(connection)
        found: list[float] = []
        for _ in range(200):
            started = time.perf_counter()
            cursor.execute(sql["due_schedules"].encode(), ([], MOST_AT_ONCE, None), prepare=True)
            assert cursor.fetchall() == []
            cursor.execute(sql["next_schedule"].encode(), ([], None), prepare=True)
            assert cursor.fetchone() is not None
            found.append(1000 * (time.perf_counter() - started))
        connection.execute("truncate headway.schedule")
    return {"median ms": statistics.median(found), "best ms": min(found)}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    parts = options.parts.split(",")
    results: dict[str, Any] = {}

    def note(name: str, found: dict[str, float]) -> None:
        results[name] = found
        say(f"  {name}: {', '.join(f'{key} {value:,.3g}' for key, value in found.items())}")

    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(durable=True))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        dsn = server.url(server.create_database())
        if "lateness" in parts:
            for store, url in (("PostgreSQL", dsn), ("SQLite", f"sqlite:///{folder}/bench.db")):
                for workers in (1, WORKERS):
                    name = f"lateness, {store}, workers: {workers}"
                    note(name, lateness(url, workers, options.seconds))
        if "burst" in parts:
            kinds: dict[str, list[float]] = {"by hand": [], "workers": []}
            for _ in range(options.rounds):
                for kind, found in kinds.items():
                    found.append(due_at_once(dsn, options.schedules, kind))
                    say(f"  {options.schedules:,} due at once, {kind}: {found[-1]:.2f} s")
            medians = {kind: statistics.median(found) for kind, found in kinds.items()}
            note("due at once", {**medians, "ratio": medians["workers"] / medians["by hand"]})
        if "look" in parts:
            note(f"a look at {options.idle:,}", idle_look(dsn, options.idle))
    return results


def main() -> None:
    if sys.argv[1:2] == ["--by-hand"]:
        fire_by_hand(sys.argv[2], float(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedules", description=__doc__)
    parser.add_argument("--parts", default="lateness,burst,look")
    parser.add_argument("--seconds", type=float, default=40.0, help="of ticks")
    parser.add_argument("--schedules", type=int, default=10_000, help="that are due at once")
    parser.add_argument("--idle", type=int, default=100_000, help="schedules that are not due")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    results = measure(options)
    print("| measured | figures |\n|---|---|")
    for name, found in results.items():
        print(f"| {name} | {', '.join(f'{key} {value:,.3g}' for key, value in found.items())} |")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
