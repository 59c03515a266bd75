"""`python -m benchmarks.sequences`: what a step of a sequence costs beside a plain job.

The same number of no-op jobs, once as plain ones and once as sequences of ten steps, each of which
continues with the next. Both are timed from the first start to the last completion, so that the
plain jobs pay for being stored too: a step is stored by the one before it. Rounds alternate, in one
run on one server, and medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from benchmarks.databases import Database, Postgres
from benchmarks.work import TEXT, Work
from benchmarks.worker import worker_process
from headway.cli.bench.measurements import start_in_bulk
from tests.support.servers.postgres import PostgresServer

STEPS = 10
MOST = 1.5
"""How many times a plain job a step may cost."""


async def load_sequences(database: Database, count: int) -> float:
    """Start the first jobs of sequences that have `count` steps together; steps per second."""
    work = Work(database.dsn)
    async with work.app as app:
        started = time.perf_counter()
        await app.start_many([work.step.request(STEPS - 1, TEXT) for _ in range(count // STEPS)])
        return count / (time.perf_counter() - started)


def microseconds(
    database: Database, start: Callable[[Database, int], Awaitable[float]], count: int
) -> tuple[float, float]:
    """What one job costs: all of it, and only the draining."""

    async def begin() -> float:
        return await start(database, count)

    starting = 1 / asyncio.run(begin())
    database.settle()
    with worker_process(database.dsn, "--drain") as process:
        process.wait(600)
    done, seconds = database.drained()
    if done != count:
        raise RuntimeError(f"{done} of {count} jobs were completed")
    draining = seconds / done
    database.clear()
    return (starting + draining) * 1e6, draining * 1e6


def measure(database: Database, count: int, rounds: int) -> dict[str, float]:
    """Medians of the cost of a plain job and of a step, and how they compare."""
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, start in (("plain job", start_in_bulk), ("step", load_sequences)):
            whole, draining = microseconds(database, start, count)
            figures.setdefault(name, []).append(whole)
            figures.setdefault(f"{name}, drained", []).append(draining)
            print(f"  {database.kind}: {name} {whole:.0f} µs, {draining:.0f} of it to drain",
                  file=sys.stderr, flush=True)  # fmt: skip
    medians = {name: statistics.median(values) for name, values in figures.items()}
    return {
        **medians,
        "ratio": medians["step"] / medians["plain job"],
        "drained ratio": medians["step, drained"] / medians["plain job, drained"],
    }


def sentence(result: dict[str, float]) -> str:
    return (
        f"A plain job costs {result['plain job']:.0f} µs, a step of a sequence of {STEPS} "
        f"{result['step']:.0f} µs: ratio {result['ratio']:.2f} (at most {MOST}); draining alone "
        f"{result['drained ratio']:.2f}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sequences", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with PostgresServer(durable=True) as server:
        database = Postgres(server.url(server.create_database()))
        result = measure(database, options.jobs, options.rounds)
    print(sentence(result))


if __name__ == "__main__":
    main()
