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
from benchmarks.measuring import (
    Place,
    drain,
    latency,
    load,
    memory_drain,
    start_singly,
)
from tests.support.servers.postgres import PostgresServer

BATCH = 500


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def raw_drain(place: Place) -> float:
    run = raw.drain_postgres if place.kind == "postgres" else raw.drain_sqlite
    target = place.dsn if place.kind == "postgres" else place.path
    count, seconds = run(target, "noop", BATCH)
    return count / seconds


def measure_store(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    jobs = options.jobs
    figures: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)
        say(f"  {place.kind}: {name} {value:,.0f}/s")

    for _ in range(options.rounds):
        note("bulk start", asyncio.run(load(place.dsn, jobs)))
        place.settle()
        note("raw drain", raw_drain(place))
        place.clear()
        asyncio.run(load(place.dsn, jobs))
        place.settle()
        note("drain", drain(place, jobs))
        place.clear()
    if place.kind == "postgres":
        note("raw single start", raw.insert_postgres(place.dsn, "noop", 2))
    note("single start", asyncio.run(start_singly(place.dsn, 2)))
    place.clear()
    if options.large and place.kind == "postgres":
        asyncio.run(load(place.dsn, options.large))
        place.settle()
        note(f"drain of {options.large:,}", drain(place, options.large))
        place.clear()
    waits = asyncio.run(latency(place.dsn, 200, 0.02))
    place.clear()
    medians = {name: statistics.median(values) for name, values in figures.items()}
    return {
        "figures": figures,
        "medians": medians,
        "drain / raw": medians["drain"] / medians["raw drain"],
        "latency ms": {
            "p50": waits[len(waits) // 2] * 1000,
            "p99": waits[int(len(waits) * 0.99)] * 1000,
        },
    }


def measure_memory(options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, list[float]] = {"bulk start": [], "drain": []}
    for _ in range(options.rounds):
        started, drained = asyncio.run(memory_drain(options.jobs))
        figures["bulk start"].append(started)
        figures["drain"].append(drained)
        say(f"  memory: bulk start {started:,.0f}/s, drain {drained:,.0f}/s")
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
            place = Place("sqlite", f"sqlite:///{folder}/bench.db")
            results["stores"]["sqlite"] = measure_store(place, options)
    if "postgres" in stores:
        with PostgresServer(durable=True) as server:
            dsn = server.url(server.create_database())
            with psycopg.connect(dsn) as connection:
                results["postgres"] = connection.info.parameter_status("server_version")
            say(f"PostgreSQL {results['postgres']}, fsync and synchronous_commit on")
            place = Place("postgres", dsn)
            results["stores"]["postgres"] = measure_store(place, options)
            results["sequences"] = sequences.measure(place, options.jobs, options.rounds)
    print(table(results))
    if "sequences" in results:
        print(f"\n{sequences.sentence(results['sequences'])}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
