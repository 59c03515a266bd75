"""`python -m benchmarks.start`: where the time of a start goes on PostgreSQL, one at a time and
many at once. From the bare statement up to `app.start`, a layer more in each line, interleaved.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor

from benchmarks.raw import PLAIN, TEXT, RawPostgres, insert_postgres
from benchmarks.work import Work
from headway.drivers.postgres_statement_parameters import text_parameters
from headway.jobs.ids import new_id
from headway.ports.statement import Statement
from headway.stores.postgres.connections import own_pool
from headway.stores.sql.sql_files import load_statements
from tests.support.servers.postgres import PostgresServer

INSERT = load_statements("headway.stores.postgres", '"headway".')["insert"]
REST = (None, None, 0.0, None, None, "noop", *PLAIN)
WARM_UP = 50
BULK = 20_000


async def per_second(start: Callable[[], Awaitable[object]], seconds: float) -> float:
    for _ in range(WARM_UP):
        await start()
    count = 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        await start()
        count += 1
    return count / (time.perf_counter() - began)


async def _insert(connection: AsyncConnection[Any]) -> None:
    cursor = AsyncRawCursor(connection)
    statement = Statement(INSERT, REST, [(new_id(), TEXT, None)])
    await cursor.execute(INSERT.encode(), text_parameters(statement), prepare=True)
    await cursor.fetchall()


async def on_a_connection(dsn: str, seconds: float) -> float:
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        return await per_second(lambda: _insert(connection), seconds)


async def from_a_pool(dsn: str, seconds: float) -> float:
    async with own_pool(dsn, 8) as pool:

        async def start() -> None:
            connection = await pool.getconn()
            await _insert(connection)
            await pool.putconn(connection)

        return await per_second(start, seconds)


async def by_start(dsn: str, notifier: str | None, seconds: float) -> float:
    work = Work(dsn, notifier)
    async with work.app as app:
        return await per_second(lambda: app.start(work.noop.request(1, "x" * 100)), seconds)


async def in_bulk(dsn: str) -> dict[str, float]:
    """Microseconds per job of a bulk start."""
    work = Work(dsn, "none")
    async with work.app as app:
        began, spent = time.perf_counter(), time.process_time()
        requests = [work.noop.request(n, "x" * 100) for n in range(BULK)]
        made = time.perf_counter()
        await app.start_many(requests)
        ended = time.perf_counter()
    with closing(RawPostgres(dsn, "noop")) as raw:
        texts = [TEXT] * BULK
        by_hand = time.perf_counter()
        raw.insert(texts)
        by_hand = time.perf_counter() - by_hand
    return {
        "making the requests": (made - began) / BULK * 1e6,
        "start_many": (ended - made) / BULK * 1e6,
        "of both, CPU of this process": (time.process_time() - spent) / BULK * 1e6,
        "COPY by hand": by_hand / BULK * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="per round and layer")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    seconds = options.seconds
    singly: dict[str, list[float]] = {}
    bulk: dict[str, list[float]] = {}
    with PostgresServer(durable=True) as server:
        dsn = server.url(server.create_database())
        asyncio.run(_migrate(dsn))
        layers: dict[str, Callable[[], float]] = {
            "insert and commit, blocking": lambda: insert_postgres(dsn, "noop", seconds),
            "the same in asyncio": lambda: asyncio.run(on_a_connection(dsn, seconds)),
            "from a pool": lambda: asyncio.run(from_a_pool(dsn, seconds)),
            "app.start without a notifier": lambda: asyncio.run(by_start(dsn, "none", seconds)),
            "app.start": lambda: asyncio.run(by_start(dsn, None, seconds)),
        }
        for number in range(options.rounds):
            for name, run in layers.items():
                singly.setdefault(name, []).append(run())
            for name, found in asyncio.run(in_bulk(dsn)).items():
                bulk.setdefault(name, []).append(found)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    print(_table(singly, bulk))
    if options.json:
        options.json.write_text(json.dumps({"singly, per second": singly, "bulk, µs": bulk}))


def _table(singly: dict[str, list[float]], bulk: dict[str, list[float]]) -> str:
    first = statistics.median(next(iter(singly.values())))
    lines = ["| one at a time | per second | µs each | of the first |", "|---|--:|--:|--:|"]
    for name, found in singly.items():
        rate = statistics.median(found)
        lines.append(f"| {name} | {rate:,.0f} | {1e6 / rate:.0f} | {rate / first:.2f} |")
    lines += ["", f"| {BULK:,} at once | µs per job |", "|---|--:|"]
    lines += [f"| {name} | {statistics.median(found):.1f} |" for name, found in bulk.items()]
    return "\n".join(lines)


async def _migrate(dsn: str) -> None:
    async with Work(dsn, "none").app:
        pass


if __name__ == "__main__":
    main()
