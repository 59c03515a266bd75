"""What is measured of Headway, always from outside: by the times that the store itself recorded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from headway.cli.bench import measurements as benching
from headway.cli.bench.database import MemoryBench, PostgresBench, SqliteBench, existing_database


class Place:
    """A database to measure on."""

    def __init__(self, kind: str, dsn: str) -> None:
        self.kind = kind
        self.dsn = dsn
        self._there = PostgresBench(dsn) if kind == "postgres" else SqliteBench(dsn)

    @property
    def path(self) -> str:
        return self.dsn.removeprefix("sqlite:///")

    def settle(self) -> None:
        """Start each measurement from the same state: statistics taken, nothing left to flush."""
        self._there.settle()
        if self.kind == "postgres":
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                connection.execute("checkpoint")

    def clear(self) -> None:
        self._there.clear()

    def drained(self) -> tuple[int, float]:
        """Jobs completed, and seconds from the first claim to the last completion."""
        return self._there.drained()


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
    return await benching.start_in_bulk(existing_database(dsn, "headway"), count)


async def start_singly(dsn: str, seconds: float) -> float:
    return await benching.start_singly(existing_database(dsn, "headway"), seconds)


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
    return list((await benching.latency(existing_database(dsn, "headway"), count, gap)).values)


async def memory_drain(count: int) -> tuple[float, float]:
    """Bulk start and drain in this process; jobs per second of each."""
    started, drained = await benching.drain_here(MemoryBench(), count)
    return started, drained.rate
