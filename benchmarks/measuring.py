"""What is measured of Headway, always from outside: by the times that the store itself recorded."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from benchmarks.work import TEXT, Work
from headway import JobState, Sequence


class Place:
    """A database to measure on."""

    def __init__(self, kind: str, dsn: str) -> None:
        self.kind = kind
        self.dsn = dsn

    @property
    def path(self) -> str:
        return self.dsn.removeprefix("sqlite:///")

    def settle(self) -> None:
        """Start each measurement from the same state: statistics taken, nothing left to flush."""
        if self.kind == "postgres":
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                connection.execute("vacuum analyze headway.job")
                connection.execute("checkpoint")

    def clear(self) -> None:
        if self.kind == "postgres":
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                connection.execute("truncate headway.job")
        else:
            with closing(sqlite3.connect(self.path)) as connection, connection:
                connection.execute("delete from headway_job")

    def drained(self) -> tuple[int, float]:
        """Jobs completed, and seconds from the first claim to the last completion."""
        if self.kind == "postgres":
            with psycopg.connect(self.dsn) as connection:
                row = connection.execute(
                    "select count(*), extract(epoch from max(finished_at) - min(started_at))::float"
                    " from headway.job where state = 'completed'"
                ).fetchone()
        else:
            with closing(sqlite3.connect(self.path)) as connection:
                row = connection.execute(
                    "select count(*), (max(finished_at) - min(started_at)) / 1e6"
                    " from headway_job where state = 'completed'"
                ).fetchone()
        assert row is not None
        return row[0], row[1]


@contextmanager
def worker_process(dsn: str, *extra: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", dsn, *extra],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "READY":
            raise RuntimeError("the worker did not start")
        yield process
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


async def load(dsn: str, count: int) -> float:
    """Start jobs in bulk; how many per second."""
    work = Work(dsn)
    async with work.app as app:
        started = time.perf_counter()
        for first in range(0, count, 20_000):
            await app.start_many(
                [work.noop.request(n, TEXT) for n in range(first, min(first + 20_000, count))]
            )
        return count / (time.perf_counter() - started)


async def start_singly(dsn: str, seconds: float) -> float:
    work = Work(dsn)
    async with work.app as app:
        count = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            await app.start(work.noop.request(count, TEXT))
            count += 1
        return count / (time.perf_counter() - started)


def drain(place: Place, count: int, processes: int = 1) -> float:
    """Jobs per second that worker processes complete, from the first claim to the last ack."""
    if processes == 1:
        with worker_process(place.dsn, "--drain") as process:
            process.wait(600)
    else:
        with (
            worker_process(place.dsn, "--drain") as one,
            worker_process(place.dsn, "--drain") as two,
        ):
            one.wait(600)
            two.wait(600)
    done, seconds = place.drained()
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs were completed")
    return done / seconds


async def latency(dsn: str, count: int, gap: float) -> list[float]:
    """Seconds from the call of start to the handler, for one job every `gap` seconds."""
    with worker_process(dsn):
        work = Work(dsn)
        async with work.app as app:
            sequences: list[Sequence[float]] = []
            next_at = time.monotonic() + 0.5
            for _ in range(count):
                await asyncio.sleep(max(next_at - time.monotonic(), 0))
                sequences.append(await app.start(work.clocked.request(time.monotonic())))
                next_at += gap
            return sorted([await sequence.result(timeout=30) for sequence in sequences])


async def memory_drain(count: int) -> tuple[float, float]:
    """Bulk start and drain in this process; jobs per second of each."""
    work = Work("memory://")
    async with work.app as app:
        started = time.perf_counter()
        await app.start_many([work.noop.request(n, TEXT) for n in range(count)])
        loaded = time.perf_counter()
        await app.worker(concurrency=100).run(drain=True)
        done = time.perf_counter()
        completed = sum(c.count for c in await app.counts() if c.state is JobState.COMPLETED)
        assert completed == count
        return count / (loaded - started), count / (done - loaded)
