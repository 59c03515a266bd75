"""`python -m benchmarks.limits`: what limits cost.

No-op jobs are drained by one worker process from a queue without limits, with a cap and a cap per
key that do not bind, and with keys that take turns, in one run, interleaved; and a large tenant is
ahead of many small ones, with and without turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from benchmarks.databases import Database, Postgres, Sqlite
from headway.cli.bench.database import app_on
from headway.cli.bench.measurements import drain
from headway.cli.bench.work import TEXT, Work
from headway.domain.job import DEFAULT_QUEUE
from headway.domain.limits.queue_limits import QueueLimits, QueueState, StoredLimits
from headway.domain.queries import JobFilter
from tests.support.servers.postgres import PostgresServer

NOT_BINDING = 100_000
KEYS = (100, 10_000)
LIMITS = {
    "no limits": QueueLimits(),
    "cap that does not bind": QueueLimits(running=NOT_BINDING),
    "cap per key that does not bind": QueueLimits(per_key=NOT_BINDING),
    "fair": QueueLimits(fair=True),
    "fair, cap and cap per key": QueueLimits(fair=True, running=NOT_BINDING, per_key=NOT_BINDING),
}
AIMS = {"cap that does not bind": 0.75, "fair": 0.9}
LARGE, SMALL, SMALL_JOBS = 40_000, 1_000, 20
"""Jobs of the large tenant; small tenants, and the jobs of each."""
AT_ONCE = 20_000


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rate_of(database: Database, keys: Sequence[str | None], limits: QueueLimits) -> float:
    """Jobs per second, of jobs with these keys."""
    asyncio.run(_load(database, keys, limits))
    database.settle()
    return asyncio.run(drain(database, len(keys))).rate


async def _load(database: Database, keys: Sequence[str | None], limits: QueueLimits) -> None:
    work = Work(app_on(database))
    async with work.app as app:
        state = QueueState(name=DEFAULT_QUEUE, limits=StoredLimits(declared=limits))
        await app.store.run(app.store.save_queue, state)
        for first in range(0, len(keys), AT_ONCE):
            part = keys[first : first + AT_ONCE]
            await app.start_many([work.noop.request(0, TEXT).using(key=key) for key in part])


async def _small_done_after(database: Database) -> int:
    """How many jobs had been completed when the last one of the small tenants was."""
    async with Work(app_on(database)).app as app:
        store = app.store
        ended: list[tuple[datetime, bool]] = []
        cursor: str | None = None
        while True:
            page = await store.run(store.find, JobFilter(), cursor=cursor, limit=1_000)
            ended += [(job.finished_at, job.key != "large") for job in page.jobs if job.finished_at]
            cursor = page.cursor
            if cursor is None:
                break
    ended.sort()
    return max(place for place, (_, small) in enumerate(ended, 1) if small)


def measure(database: Database, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for count in KEYS:
            keys = [f"tenant-{number % count:05}" for number in range(options.jobs)]
            for name, limits in LIMITS.items():
                rate = rate_of(database, keys, limits)
                database.clear()
                found.setdefault(f"{name}, {count:,} keys", []).append(rate)
                say(f"  {database.kind}: {name}, {count:,} keys: {rate:,.0f}/s")
        rate = rate_of(database, [None] * options.jobs, QueueLimits())
        database.clear()
        found.setdefault("no limits, no keys", []).append(rate)
        say(f"  {database.kind}: no limits, no keys: {rate:,.0f}/s")
    figures: dict[str, Any] = {
        name: {"jobs/s": round(statistics.median(rates))} for name, rates in found.items()
    }
    for count in KEYS:
        base = statistics.median(found[f"no limits, {count:,} keys"])
        for name in LIMITS:
            label = f"{name}, {count:,} keys"
            figures[label]["of no limits"] = round(statistics.median(found[label]) / base, 2)
            if name in AIMS:
                figures[label]["aim"] = AIMS[name]
    keys = ["large"] * LARGE
    keys += [f"small-{number:04}" for number in range(SMALL)] * SMALL_JOBS
    for name in ("no limits", "fair"):
        rate = rate_of(database, keys, LIMITS[name])
        after = asyncio.run(_small_done_after(database))
        database.clear()
        figures[f"a large tenant ahead, {name}"] = {
            "jobs/s": round(rate),
            "small tenants done after": after,
            "of": len(keys),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stores", default="postgres,sqlite")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    with ExitStack() as stack:
        for kind in options.stores.split(","):
            say(kind)
            if kind == "postgres":
                server = stack.enter_context(PostgresServer(durable=True))
                database: Database = Postgres(server.url(server.create_database()))
            else:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                database = Sqlite(f"sqlite:///{folder}/limits.db")
            report[kind] = measure(database, options)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
