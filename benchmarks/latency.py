"""`python -m benchmarks.latency`: how long from the call of start to the handler, for each notifier
and for polling, with one job every 20 ms on an idle worker in another process; beside it the same
done by hand on PostgreSQL; and what NOTIFY costs those who commit. All in one run, interleaved.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.databases import Postgres
from benchmarks.latency_floor import waits_by_hand
from benchmarks.notify_cost import MODES, PRODUCERS, commits_per_second
from benchmarks.work import Work
from benchmarks.worker import worker_process
from headway import Sequence
from tests.support.servers.brokers import NatsServer, ValkeyServer
from tests.support.servers.postgres import PostgresServer

GAP = 0.02
BY_HAND = "insert, commit, NOTIFY and claim by hand"
OWN = "PostgreSQL, its own notifier"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def _waits(dsn: str, notifier: str | None, count: int) -> list[float]:
    work = Work(dsn, notifier)
    async with work.app as app:
        sequences: list[Sequence[float]] = []
        next_at = time.monotonic() + 0.5
        for _ in range(count):
            await asyncio.sleep(max(next_at - time.monotonic(), 0))
            sequences.append(await app.start(work.clocked.request(time.monotonic())))
            next_at += GAP
        return sorted([await sequence.result(timeout=60) for sequence in sequences])


def waits(dsn: str, notifier: str | None, count: int) -> list[float]:
    """Seconds from the call of start to the handler in another process, sorted."""
    extra = () if notifier is None else ("--notifier", notifier)
    with worker_process(dsn, *extra):
        return asyncio.run(_waits(dsn, notifier, count))


def measure(kinds: dict[str, Callable[[], list[float]]], rounds: int) -> dict[str, Any]:
    figures: dict[str, dict[str, list[float]]] = {
        name: {"p50 ms": [], "p99 ms": []} for name in kinds
    }
    for _ in range(rounds):
        for name, run in kinds.items():
            found = run()
            p50, p99 = found[len(found) // 2] * 1000, found[int(len(found) * 0.99)] * 1000
            figures[name]["p50 ms"].append(p50)
            figures[name]["p99 ms"].append(p99)
            say(f"  {name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    return {
        name: {key: statistics.median(values) for key, values in found.items()} | {"rounds": found}
        for name, found in figures.items()
    }


def table(results: dict[str, Any]) -> str:
    lines = []
    if latency := results.get("latency"):
        floor = latency[BY_HAND]["p50 ms"]
        lines += ["| from start to handler | p50 | p99 | p50 of by hand |", "|---|---|---|---|"]
        for name, found in latency.items():
            ratio = f"{found['p50 ms'] / floor:.2f}" if name.startswith("PostgreSQL") else ""
            lines.append(
                f"| {name} | {found['p50 ms']:.1f} ms | {found['p99 ms']:.1f} ms | {ratio} |"
            )
    if cost := results.get("notify"):
        lines += ["", f"| NOTIFY, {PRODUCERS} producers | commits/s | of none |", "|---|---|---|"]
        for mode, rate in cost.items():
            lines.append(f"| {mode} | {rate:,.0f} | {rate / cost['none']:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--jobs", type=int, default=500, help="per round and kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="of commits, per round and mode")
    parser.add_argument("--only", choices=("latency", "notify"))
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    results: dict[str, Any] = {"python": platform.python_version()}
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(durable=True))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        dsn = postgres.url(postgres.create_database())
        sqlite = f"sqlite:///{folder}/bench.db"
        asyncio.run(_migrate(dsn))
        if options.only != "notify":
            valkey = stack.enter_context(ValkeyServer())
            nats = stack.enter_context(NatsServer())
            jobs = options.jobs
            kinds: dict[str, Callable[[], list[float]]] = {
                BY_HAND: lambda: waits_by_hand(dsn, jobs, GAP),
                OWN: lambda: waits(dsn, None, jobs),
                "PostgreSQL, Redis (Valkey)": lambda: waits(dsn, valkey.url, jobs),
                "PostgreSQL, NATS with JetStream": lambda: waits(dsn, nats.url, jobs),
                "PostgreSQL, polling": lambda: waits(dsn, "none", jobs),
                "SQLite, its own notifier": lambda: waits(sqlite, None, jobs),
                "SQLite, polling": lambda: waits(sqlite, "none", jobs),
            }
            results["latency"] = measure(kinds, options.rounds)
        if options.only != "latency":
            rates: dict[str, list[float]] = {mode: [] for mode in MODES}
            database = Postgres(dsn)
            for _ in range(options.rounds):
                for mode in MODES:
                    database.clear()
                    database.settle()
                    rates[mode].append(commits_per_second(dsn, mode, options.seconds))
                    say(f"  NOTIFY {mode}: {rates[mode][-1]:,.0f} commits/s")
            results["notify"] = {mode: statistics.median(found) for mode, found in rates.items()}
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


async def _migrate(dsn: str) -> None:
    async with Work(dsn, "none").app:
        pass


if __name__ == "__main__":
    main()
