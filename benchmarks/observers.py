"""What being watched costs: `python -m benchmarks.observers`.

One worker process drains no-op jobs, once without observers and once with each kind, in turns, in
one run; the medians are set in proportion. OpenTelemetry runs its real SDK: a reader that collects
every second, a batch processor, every span sampled, and an exporter that throws all of it away.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from benchmarks.databases import Database, Postgres, Sqlite
from headway import Headway, Worker, WorkerSettings
from headway.cli.bench.work import TEXT, Work
from headway.cli.event_loop import run_loop
from headway.cli.worker.log_setup import set_up_logs
from headway.observers.otel import PER_SECOND, OtelObserver
from headway.observers.prometheus import PrometheusObserver, QueueCollector, exposition
from headway.ports.observer import Observer
from tests.support.servers.postgres import PostgresServer

KINDS = ("nobody", "logs", "prometheus", "otel", "otel, all spans")
GOALS = {"logs": 0.95, "otel": 0.7}
CONCURRENCY = 100
AT_ONCE = 5_000


class NoMetrics(MetricExporter):
    def export(self, *_: Any, **__: Any) -> MetricExportResult:
        return MetricExportResult.SUCCESS

    def force_flush(self, *_: Any, **__: Any) -> bool:
        return True

    def shutdown(self, *_: Any, **__: Any) -> None: ...


class NoSpans(SpanExporter):
    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def opentelemetry(per_second: float | None = PER_SECOND) -> OtelObserver:
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(NoSpans()))
    reader = PeriodicExportingMetricReader(NoMetrics(), export_interval_millis=1_000)
    return OtelObserver(
        tracer_provider=tracers,
        meter_provider=MeterProvider([reader]),
        per_second=per_second,
    )


def observers(kind: str) -> list[Observer]:
    match kind:
        case "nobody":
            return []
        case "logs":  # the app's own
            set_up_logs(verbose=False)
            return []
        case "prometheus":
            return [PrometheusObserver()]
        case "otel":
            return [opentelemetry()]
        case _:
            return [opentelemetry(None)]


async def load(app: Headway, count: int) -> None:
    """Jobs that carry the context of who started them, whoever watches later."""
    work = Work(app)
    async with app:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            await app.start_many([work.noop.request(n, TEXT) for n in numbers])


def worker_of(app: Headway, kind: str) -> Worker:
    if kind != "nobody":
        return app.worker(concurrency=CONCURRENCY)
    settings = WorkerSettings(concurrency=CONCURRENCY, queues=app.worked_queues())
    return Worker(app.store, app.handlers(), settings, notifier=app.notifier)


async def drain(dsn: str, kind: str) -> float:
    """Seconds of CPU that it took."""
    work = Work(Headway(dsn, observers=observers(kind)))
    page = None
    if kind == "prometheus":
        found = work.app.observers.find(PrometheusObserver)
        assert found is not None
        page = exposition(found, QueueCollector(work.app.store))
    async with work.app as app:
        began = time.process_time()
        worker = asyncio.create_task(worker_of(app, kind).run(drain=True))
        while not worker.done():
            await asyncio.wait({worker}, timeout=1.0)
            if page is not None:
                await asyncio.to_thread(page)
        await worker
        return time.process_time() - began


async def drain_memory(kind: str, count: int) -> tuple[float, float]:
    """In this process: nobody else reaches its jobs. Jobs per second, seconds of CPU."""
    work = Work(Headway("memory://", observers=observers(kind)))
    loop = asyncio.get_running_loop()
    async with work.app as app:
        for first in range(0, count, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, count))
            await app.start_many([work.noop.request(n, TEXT) for n in numbers])
        began, busy = loop.time(), time.process_time()
        await worker_of(app, kind).run(drain=True)
        return count / (loop.time() - began), time.process_time() - busy


async def tell(found: Awaitable[float | tuple[float, float]]) -> None:
    """Print it and end, without waiting for what the SDK would still export."""
    told = await found
    print(*(told if isinstance(told, tuple) else (told,)), flush=True)
    os._exit(0)


def worker(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.observers", *arguments],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def measure(database: Database | None, kind: str, count: int) -> tuple[float, float]:
    """Jobs per second, and microseconds of the worker's CPU for each."""
    if database is None:
        rate, cpu = map(float, worker("--memory", kind, "--jobs", str(count)).split())
        return rate, cpu / count * 1e6
    database.clear()
    asyncio.run(load(Headway(database.dsn, observers=[opentelemetry()], migrate=True), count))
    database.settle()
    cpu = float(worker("--drain", kind, "--dsn", database.dsn))
    done, seconds = database.drained()
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs were completed")
    return done / seconds, cpu / count * 1e6


def compare(name: str, database: Database | None, options: argparse.Namespace) -> bool:
    """Print the proportions; whether the goals are met. A store in memory has none: there the
    worker's own CPU is all that counts."""
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(options.rounds):
        for kind in KINDS:
            rate, cpu = measure(database, kind, options.jobs)
            found[kind].append((rate, cpu))
            print(f"  {name}, {kind}: {rate:,.0f}/s, {cpu:.1f} µs", file=sys.stderr, flush=True)
    rates = {kind: statistics.median(each[0] for each in found[kind]) for kind in KINDS}
    goals = {} if database is None else GOALS
    for kind in KINDS:
        cpu = statistics.median(each[1] for each in found[kind])
        share = rates[kind] / rates["nobody"]
        goal = f"at least {goals[kind]}" if kind in goals else ""
        print(f"| {name} | {kind} | {rates[kind]:,.0f} | {share:.2f} | {cpu:.1f} | {goal} |")
    return all(rates[kind] >= goal * rates["nobody"] for kind, goal in goals.items())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observers", description=__doc__)
    parser.add_argument("--stores", default="postgres,sqlite,memory")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--drain", help=argparse.SUPPRESS)
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    parser.add_argument("--dsn", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drain:
        run_loop(tell(drain(options.dsn, options.drain)))
    if options.memory:
        run_loop(tell(drain_memory(options.memory, options.jobs)))
    logging.basicConfig(level=logging.WARNING)
    print("| store | who watches | jobs/s (median) | of nobody | CPU µs/job | goal |")
    print("|---|---|---|---|---|---|")
    met = True
    stores = options.stores.split(",")
    if "postgres" in stores:
        with PostgresServer(durable=True) as server:
            database = Postgres(server.url(server.create_database()))
            asyncio.run(Headway(database.dsn).store.migrate())
            met &= compare("PostgreSQL", database, options)
    if "sqlite" in stores:
        with tempfile.TemporaryDirectory() as folder:
            database = Sqlite(f"sqlite:///{folder}/bench.db")
            asyncio.run(Headway(database.dsn).store.migrate())
            met &= compare("SQLite", database, options)
    if "memory" in stores:
        met &= compare("memory", None, options)
    print("\nAll goals are met." if met else "\nNOT all goals are met.")
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
