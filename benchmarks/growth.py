"""`make growth`: jobs per second and PostgreSQL's CPU per job as something grows.

Worker processes, queues, payloads and retained rows, each by itself from the same base: one worker
process, one queue, 0.1 kB, nothing retained. Writes a page with its plots.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import psycopg

from benchmarks.plots import lines
from benchmarks.steady_load import PostgresCpu, Steady, crew, load
from headway import Headway
from tests.support.servers.postgres import PostgresServer

FILL = """insert into headway.job (id, sequence_id, root_id, run_at, created_at, started_at,
        finished_at, position, max_losses, priority, state, type, queue, input)
    select id, id, id, now(), now(), now(), now(), 0, 5, 0, 'completed', 'noop', 'default', %s
    from (select gen_random_uuid() as id from generate_series(1, %s)) made"""


@dataclass(frozen=True)
class Point:
    workers: int = 1
    queues: int = 1
    size: int = 100
    retained: int = 0


@dataclass(frozen=True)
class Axis:
    key: str
    title: str
    values: tuple[int, ...]
    name: Callable[[int], str]

    def points(self) -> list[Point]:
        return [replace(Point(), **{self.key: value}) for value in self.values]


def _rows(count: int) -> str:
    if count >= 1_000_000:
        return f"{count // 1_000_000}M"
    return f"{count // 1000}k" if count >= 1000 else str(count)


AXES = (
    Axis("workers", "worker processes", (1, 2, 4, 8), str),
    Axis("queues", "queues", (1, 10, 100), str),
    Axis("size", "payload, kB", (100, 1_000, 10_000, 100_000), lambda size: f"{size / 1000:g}"),
    Axis("retained", "retained rows", (0, 10_000, 1_000_000, 5_000_000), _rows),
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def jobs_for(point: Point, jobs: int) -> int:
    """Fewer of the large ones: a backlog of 200 MB is enough."""
    return max(min(jobs, 200_000_000 // point.size), min(jobs, 500))


def measure(dsn: str, point: Point, jobs: int, limit: float) -> dict[str, float]:
    """Load, then drain: the first claim to the last completion, as the store recorded them."""
    told = Steady(dsn, queues=point.queues, size=point.size)
    count = jobs_for(point, jobs)
    asyncio.run(load(told, count))
    with crew(told) as hands, psycopg.connect(dsn, autocommit=True) as watcher:
        watcher.execute("vacuum analyze headway.job")
        watcher.execute("checkpoint")
        hands.hire(point.workers)
        cpu = PostgresCpu(watcher)
        spent = cpu.read()
        hands.probe.open_gate()
        deadline = time.monotonic() + limit
        while hands.probe.read().count < count or _left(watcher):
            hands.check()
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{_left(watcher)} of {count} jobs were left after {limit:.0f} s"
                )
            time.sleep(0.02)
        spent = cpu.read() - spent
        row = watcher.execute(
            "select count(*), extract(epoch from max(finished_at) - min(started_at))::float8"
            " from headway.job where worker is not null"
        ).fetchone()
        assert row is not None
        assert row[0] == count
        # What was drained goes, what is retained stays for the next round.
        watcher.execute("delete from headway.job where worker is not null")
    return {"jobs/s": count / row[1], "postgres µs per job": spent / count * 1e6, "jobs": count}


def _left(watcher: psycopg.Connection) -> int:
    row = watcher.execute(
        "select (select count(*) from headway.job where state = 'pending')"
        " + (select count(*) from headway.job where state = 'running')"
    ).fetchone()
    assert row is not None
    return row[0]


def prepare(server: PostgresServer, retained: int) -> str:
    """A database with so many completed jobs in it."""
    dsn = server.url(server.create_database())
    asyncio.run(_migrate(dsn))
    text = json.dumps({"n": 0, "text": "x" * 100})
    with psycopg.connect(dsn, autocommit=True) as connection:
        for first in range(0, retained, 500_000):
            connection.execute(FILL, (text, min(500_000, retained - first)))
    return dsn


async def _migrate(dsn: str) -> None:
    await Headway(dsn).store.migrate()


def run(options: argparse.Namespace) -> dict[str, Any]:
    axes = [axis for axis in AXES if axis.key in options.axes]
    found: dict[Point, list[dict[str, float]]] = {}
    errors: dict[Point, str] = {}
    with PostgresServer(durable=True) as server:
        databases: dict[int, str] = {}
        points = list(dict.fromkeys(point for axis in axes for point in axis.points()))
        points = [point for point in points if point.retained <= options.most_retained]
        for number in range(options.rounds):
            for point in points:
                if point.retained not in databases:
                    say(f"filling in {point.retained:,} completed jobs")
                    databases[point.retained] = prepare(server, point.retained)
                try:
                    measured = measure(
                        databases[point.retained], point, options.jobs, options.limit
                    )
                except (RuntimeError, AssertionError, psycopg.Error) as error:
                    say(f"round {number + 1} {point}: {error}")
                    errors[point] = str(error)
                    server.drop_database(databases.pop(point.retained).rpartition("/")[2])
                    continue
                say(f"round {number + 1} {point}: {measured['jobs/s']:,.0f} jobs/s")
                found.setdefault(point, []).append(measured)
        with psycopg.connect(server.url()) as connection:
            version = connection.info.parameter_status("server_version")
    return {
        "command": "make growth" + (f' ARGS="{" ".join(sys.argv[1:])}"' if sys.argv[1:] else ""),
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "postgres": version,
        },
        "rounds": options.rounds,
        "jobs": options.jobs,
        "axes": {
            axis.key: [
                {
                    "at": axis.name(value),
                    "rounds": found.get(point, []),
                    "error": errors.get(point),
                }
                for value, point in zip(axis.values, axis.points(), strict=True)
                if point in found or point in errors
            ]
            for axis in axes
        },
    }


def median(point: dict[str, Any], key: str) -> float | None:
    values = [each[key] for each in point["rounds"]]
    return statistics.median(values) if values else None


def page(results: dict[str, Any], plots: dict[str, str]) -> str:
    machine = results["machine"]
    about = (
        "Drained jobs per second, and PostgreSQL's CPU time per job, while one quantity grows and "
        "the others stay small: one worker process, one queue, 0.1 kB of input, nothing retained. "
        f"No-op handlers; {results['jobs']:,} jobs per measurement (fewer of the largest); medians "
        f"of {results['rounds']} rounds; PostgreSQL {machine['postgres']} with fsync and "
        f"synchronous_commit on, Python {machine['python']}, {machine['cpus']} CPUs for database "
        "and workers."
    )
    parts = ["# Growth", "", about, "", f"Reproduce it with `{results['command']}`."]
    for axis in AXES:
        points = results["axes"].get(axis.key)
        if not points:
            continue
        parts += ["", f"## {axis.title[0].upper()}{axis.title[1:]}", ""]
        parts += [f"![{axis.title}]({plots[axis.key]})", ""] if axis.key in plots else []
        parts += [f"| {axis.title} | jobs/s | PostgreSQL, µs of CPU per job |", "|--:|--:|--:|"]
        for point in points:
            rate, cpu = median(point, "jobs/s"), median(point, "postgres µs per job")
            if rate is None or cpu is None:
                parts.append(f"| {point['at']} | failed: {point['error']} | |")
            else:
                parts.append(f"| {point['at']} | {rate:,.0f} | {cpu:,.0f} |")
    return "\n".join(parts) + "\n"


def plot(axis: Axis, points: list[dict[str, Any]]) -> str:
    """Both figures as shares of the first point's, so that one picture holds them."""
    series: dict[str, list[float | None]] = {}
    for key, name in (("jobs/s", "jobs/s"), ("postgres µs per job", "PostgreSQL CPU per job")):
        values = [median(point, key) for point in points]
        base = values[0] or 1.0
        series[f"{name} (100 % is {base:,.0f})"] = [
            None if value is None else value / base * 100 for value in values
        ]
    return lines(f"By {axis.title}", [point["at"] for point in points], series, "% of the first")


def _terminated(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--axes", default=",".join(axis.key for axis in AXES))
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most-retained", type=int, default=5_000_000)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a drain may take")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path, default=Path("docs/growth.md"))
    options = parser.parse_args()
    options.axes = options.axes.split(",")
    signal.signal(signal.SIGTERM, _terminated)
    results = run(options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    plots: dict[str, str] = {}
    for axis in AXES:
        if points := results["axes"].get(axis.key):
            path = options.page.with_name(f"{options.page.stem}-{axis.key}.svg")
            path.write_text(plot(axis, points))
            plots[axis.key] = path.name
    options.page.write_text(page(results, plots))
    say(f"written: {options.page}")


if __name__ == "__main__":
    main()
