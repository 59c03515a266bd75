"""The measurements: how fast jobs are started, drained and answered, and what a worker holds.

Draining is timed by what the store recorded, so that nothing is added to what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headway.cli.bench.database import BenchDatabase, app_on
from headway.cli.bench.processes import worker_processes
from headway.cli.bench.work import TEXT, Work
from headway.cli.bench.worker import CONCURRENCY
from headway.domain.job import JobState
from headway.errors import HeadwayError

SECONDS = 3.0
GAP = 0.02
DRAIN_WITHIN = 600.0
AT_ONCE = 20_000
LARGE = 10
"""How many times the jobs make a large backlog."""


class Incomplete(HeadwayError):
    """Not all jobs were completed, so there is nothing to divide by."""


@dataclass(frozen=True)
class Drained:
    rate: float
    held: tuple[int, ...] = ()
    """Bytes, of each worker process."""


@dataclass(frozen=True)
class Waits:
    """Seconds, sorted."""

    values: tuple[float, ...]

    def percentile(self, share: float) -> float:
        return self.values[min(round(share * (len(self.values) - 1)), len(self.values) - 1)]

    def in_milliseconds(self) -> dict[str, float]:
        return {f"p{share}": self.percentile(share / 100) * 1000 for share in (50, 95, 99)}


async def start_singly(
    database: BenchDatabase, seconds: float = SECONDS, most: int = 10**9
) -> float:
    """Jobs per second, started one after the other."""
    work = Work(app_on(database))
    async with work.app as app:
        count, began = 0, time.perf_counter()
        while count < most and time.perf_counter() - began < seconds:
            await app.start(work.noop.request(count, TEXT))
            count += 1
        return count / (time.perf_counter() - began)


async def start_in_bulk(database: BenchDatabase, count: int) -> float:
    """Jobs per second, started all at once, or 20,000 at a time."""
    work = Work(app_on(database))
    async with work.app:
        return await _load(work, count)


async def drain(database: BenchDatabase, count: int, processes: int = 1) -> Drained:
    """Jobs per second that are completed, from the first claim to the last completion."""
    async with worker_processes(database, processes) as workers:
        held = await asyncio.gather(*(worker.drain(DRAIN_WITHIN) for worker in workers))
    done, seconds = await asyncio.to_thread(database.drained)
    if done != count:
        raise Incomplete(f"{done} of {count} jobs were completed")
    return Drained(count / seconds, tuple(held))


async def drain_here(database: BenchDatabase, count: int) -> tuple[float, Drained]:
    """The same for a store that only this process can reach, after the bulk start's rate."""
    work = Work(app_on(database))
    async with work.app as app:
        started = await _load(work, count)
        began = time.perf_counter()
        await app.worker(concurrency=CONCURRENCY).run(drain=True)
        took = time.perf_counter() - began
        done = sum(each.count for each in await app.counts() if each.state is JobState.COMPLETED)
        if done != count:
            raise Incomplete(f"{done} of {count} jobs were completed")
        return started, Drained(count / took)


async def latency(database: BenchDatabase, count: int, gap: float = GAP) -> Waits:
    """From the call that starts a job to its handler, for one job every `gap` seconds."""
    work = Work(app_on(database))
    async with work.app as app, _working(database, work):
        await (await app.start(work.clocked.request(time.monotonic()))).result(timeout=30)
        sequences: list[Any] = []
        next_at = time.monotonic() + 0.1
        for _ in range(count):
            await asyncio.sleep(max(next_at - time.monotonic(), 0))
            sequences.append(await app.start(work.clocked.request(time.monotonic())))
            next_at += gap
        waits = [await sequence.result(timeout=30) for sequence in sequences]
    return Waits(tuple(sorted(waits)))


async def results(database: BenchDatabase, count: int, seconds: float = SECONDS) -> Waits:
    """From the call that starts a job to its result, one job after the other."""
    work = Work(app_on(database))
    took: list[float] = []
    async with work.app as app, _working(database, work):
        await (await app.start(work.clocked.request(0.0))).result(timeout=30)
        end = time.perf_counter() + seconds
        while len(took) < count and time.perf_counter() < end:
            began = time.perf_counter()
            await (await app.start(work.clocked.request(0.0))).result(timeout=30)
            took.append(time.perf_counter() - began)
    return Waits(tuple(sorted(took)))


@asynccontextmanager
async def _working(database: BenchDatabase, work: Work) -> AsyncGenerator[None]:
    """While somebody works: another process if it can reach the store, else this one."""
    if database.separate:
        async with worker_processes(database, 1) as (worker,):
            worker.begin()
            yield
        return
    here = work.app.worker(concurrency=CONCURRENCY)
    await here.start()
    try:
        yield
    finally:
        await here.stop()


async def _load(work: Work, count: int) -> float:
    began = time.perf_counter()
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        await work.app.start_many([work.noop.request(n, TEXT) for n in numbers])
    return count / (time.perf_counter() - began)


async def measure(
    database: BenchDatabase, jobs: int, said: Callable[[str], None]
) -> dict[str, Any]:
    """All of them, by the letter that they have in the comparison with other queues."""
    found: dict[str, Any] = {}

    async def clear() -> None:
        await asyncio.to_thread(database.clear)

    async def load(count: int = jobs) -> float:
        rate = await start_in_bulk(database, count)
        await asyncio.to_thread(database.settle)
        return rate

    said("A: starting one at a time")
    found["A"] = {"jobs_per_second": await start_singly(database, most=jobs)}
    await clear()
    if database.separate:
        said(f"B: starting {jobs:,} in bulk")
        found["B"] = {"jobs_per_second": await load()}
        said("C: draining them with one worker process")
        one = await drain(database, jobs)
        found["C"] = {"jobs_per_second": one.rate}
        await clear()
        said("D: and with two")
        await load()
        found["D"] = {"jobs_per_second": (await drain(database, jobs, 2)).rate}
        await clear()
        said(f"G: draining {LARGE * jobs:,}")
        await load(LARGE * jobs)
        found["G"] = {"jobs_per_second": (await drain(database, LARGE * jobs)).rate}
        await clear()
        found["H"] = {"megabytes": max(one.held) / 1e6}
    else:
        said(f"B, C: starting {jobs:,} in bulk and draining them in this process")
        started, drained = await drain_here(database, jobs)
        found["B"] = {"jobs_per_second": started}
        found["C"] = {"jobs_per_second": drained.rate}
    said("E: a job every 20 ms")
    found["E"] = {"milliseconds": (await latency(database, min(jobs, 200))).in_milliseconds()}
    await clear()
    said("F: waiting for results")
    found["F"] = {"milliseconds": (await results(database, min(jobs, 200))).in_milliseconds()}
    return dict(sorted(found.items()))
