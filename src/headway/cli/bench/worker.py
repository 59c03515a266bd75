"""A worker process to be measured: `python -m headway.cli.bench.worker`.

It says READY, waits for a line, works until nothing is left (if the line is "drain") or until its
input ends, and says how many bytes it holds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from headway.cli.bench.database import BenchDatabase, app_on, existing_database
from headway.cli.bench.work import Work
from headway.cli.event_loop import run_loop

CONCURRENCY = 100
DSN = "HEADWAY_BENCH_DSN"  # in the environment, because everyone can read command lines
SCHEMA = "HEADWAY_BENCH_SCHEMA"


def worker_environment(database: BenchDatabase) -> dict[str, str]:
    return {DSN: database.dsn, SCHEMA: database.schema}


async def work(database: BenchDatabase) -> None:
    async with Work(app_on(database)).app as app:
        worker = app.worker(concurrency=CONCURRENCY)
        print("READY", flush=True)
        drain = (await asyncio.to_thread(sys.stdin.readline)).strip() == "drain"
        if drain:
            await worker.run(drain=True)
        else:
            await worker.start()
            await asyncio.to_thread(sys.stdin.readline)
            await worker.stop()
        print(resident(), flush=True)


def resident() -> int:
    """Bytes of memory that this process holds; where that cannot be told, the most it held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource  # noqa: PLC0415 - not everywhere

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    run_loop(work(existing_database(os.environ[DSN], os.environ[SCHEMA])))
