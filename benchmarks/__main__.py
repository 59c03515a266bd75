"""`make bench`: Headway beside the raw statements on three stores, in one run.

Rounds are interleaved and medians are printed, because machines are noisy. The raw loop runs the
store's own claim and completion statements, same batch and same durability, with nothing around
them: its figure is the ceiling.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sqlite3
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import raw, sequences
from benchmarks.databases import Database, Postgres, Sqlite
from headway.cli.bench.database import MemoryBench
from headway.cli.bench.measurements import (
    drain,
    drain_here,
    latency,
    start_in_bulk,
    start_singly,
)
from tests.support.servers.postgres import PostgresServer

BATCH = 500


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def raw_drain(database: Database) -> float:
    if isinstance(database, Postgres):
        count, seconds = raw.drain_postgres(database.dsn, "noop", BATCH)
    else:
        count, seconds = raw.drain_sqlite(database.path, "noop", BATCH)
    return count / seconds


def measure_store(database: Database, options: argparse.Namespace) -> dict[str, Any]:
    jobs = options.jobs
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)
        say(f"  {database.kind}: {name} {value:,.0f}/s")

    def load(count: int) -> float:
        rate = asyncio.run(start_in_bulk(database, count))
        database.settle()
        return rate

    def drain_all(count: int) -> float:
        rate = asyncio.run(drain(database, count)).rate
        database.clear()
        return rate

    for _ in range(options.rounds):
        note("bulk start", load(jobs))
        note("raw drain", raw_drain(database))
        database.clear()
        load(jobs)
        note("drain", drain_all(jobs))
    if database.kind == "postgres":
        note("raw single start", raw.insert_postgres(database.dsn, "noop", 2))
    note("single start", asyncio.run(start_singly(database, 2)))
    database.clear()
    if options.large and database.kind == "postgres":
        load(options.large)
        note(f"drain of {options.large:,}", drain_all(options.large))
    waits = asyncio.run(latency(database, 200))
    database.clear()
    medians = {name: statistics.median(values) for name, values in figures.items()}
    return {
        "figures": figures,
        "medians": medians,
        "drain / raw": medians["drain"] / medians["raw drain"],
        "latency ms": waits.in_milliseconds(),
    }


def measure_memory(options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, list[float]] = {"bulk start": [], "drain": []}
    for _ in range(options.rounds):
        started, drained = asyncio.run(drain_here(MemoryBench(), options.jobs))
        figures["bulk start"].append(started)
        figures["drain"].append(drained.rate)
        say(f"  memory: bulk start {started:,.0f}/s, drain {drained.rate:,.0f}/s")
    return {
        "figures": figures,
        "medians": {name: statistics.median(values) for name, values in figures.items()},
    }


def table(results: dict[str, Any]) -> str:
    lines = ["| store | measured | jobs/s (median) | of raw |", "|---|---|---|---|"]
    for store, result in results["stores"].items():
        medians = result["medians"]
        for name, value in medians.items():
            ceiling = medians.get(f"raw {name}")
            ratio = f"{value / ceiling:.2f}" if ceiling else ""
            lines.append(f"| {store} | {name} | {value:,.0f} | {ratio} |")
        large = next((name for name in medians if name.startswith("drain of")), None)
        if large:
            ratio = medians[large] / medians["drain"]
            lines.append(f"| {store} | {large} against {results['jobs']:,} | | {ratio:.2f} |")
        if "latency ms" in result:
            wait = result["latency ms"]
            lines.append(
                f"| {store} | latency, a job every 20 ms | "
                f"p50 {wait['p50']:.1f} ms, p99 {wait['p99']:.1f} ms | |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--stores", default="memory,sqlite,postgres")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--large", type=int, default=200_000, help="0 leaves it out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    stores = options.stores.split(",")
    results: dict[str, Any] = {
        "jobs": options.jobs,
        "batch": BATCH,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "psycopg": psycopg.__version__,
        "stores": {},
    }
    if "memory" in stores:
        say("memory")
        results["stores"]["memory"] = measure_memory(options)
    if "sqlite" in stores:
        say("SQLite, WAL, synchronous=FULL")
        with tempfile.TemporaryDirectory() as folder:
            database = Sqlite(f"sqlite:///{folder}/bench.db")
            results["stores"]["sqlite"] = measure_store(database, options)
    if "postgres" in stores:
        with PostgresServer(durable=True) as server:
            dsn = server.url(server.create_database())
            with psycopg.connect(dsn) as connection:
                results["postgres"] = connection.info.parameter_status("server_version")
            say(f"PostgreSQL {results['postgres']}, fsync and synchronous_commit on")
            database = Postgres(dsn)
            results["stores"]["postgres"] = measure_store(database, options)
            results["sequences"] = sequences.measure(database, options.jobs, options.rounds)
    print(table(results))
    if "sequences" in results:
        print(f"\n{sequences.sentence(results['sequences'])}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
