"""What a job and a worker cost PostgreSQL, as counts, and what many idle workers ask of it.

    python -m benchmarks.scale                 # three minutes
    python -m benchmarks.scale --workers 35    # processes that have nothing to do

Statements and WAL bytes are counted by PostgreSQL and the same on every machine; CPU times are this
machine's, of this moment.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from headway import Headway, Job, Request
from proof.tools.fork_server import fork_server, kill, wait_until_gone
from proof.tools.work import Work as ProofWork
from tests.support.servers.pgbouncer import PgBouncer
from tests.support.servers.postgres import PostgresServer, ServerError

JOBS = 5_000
SINGLE = 500
WOKEN = 20
LOOK = 30.0
"""Seconds for which a worker is watched."""
SESSIONS = """select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()"""
COUNTED = """select coalesce(sum(calls), 0), coalesce(sum(wal_bytes), 0)
    from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = current_database() and query not like '%pg_stat%'"""
BY_STATEMENT = """select sum(calls), left(regexp_replace(query, '\\s+', ' ', 'g'), 66)
    from pg_stat_statements s join pg_database d on d.oid = s.dbid
    where d.datname = current_database() and query not like '%pg_stat%'
    group by 2 order by 1 desc limit 8"""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    seconds: float = 0.0
    statements: int = 0
    wal: int = 0
    cpu: float = 0.0
    """Of the server, in seconds."""

    def take_away(self, idle: Cost) -> None:
        """What would have been spent in the same time without anything to do."""
        share = self.seconds / idle.seconds
        self.statements -= round(idle.statements * share)
        self.wal -= round(idle.wal * share)
        self.cpu -= idle.cpu * share

    def per(self, count: float) -> str:
        return (
            f"{self.statements / count:7.3f} statements {self.wal / count:7.0f} WAL bytes "
            f"{self.cpu / count * 1e6:7.0f} µs CPU of the server {count / self.seconds:8.0f} /s"
        )


class Meter:
    def __init__(self, server: PostgresServer, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._postmaster = int(
            (server.directory / "data" / "postmaster.pid").read_text().split()[0]
        )

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def measured(self) -> Iterator[Cost]:
        cost = Cost()
        self._connection.execute("select pg_stat_statements_reset()")
        began, before = time.monotonic(), self._cpu()
        yield cost
        cost.seconds, cost.cpu = time.monotonic() - began, self._cpu() - before
        row = self._connection.execute(COUNTED).fetchone()
        assert row is not None
        cost.statements, cost.wal = int(row[0]), int(row[1])

    def sessions(self) -> int:
        row = self._connection.execute(SESSIONS).fetchone()
        assert row is not None
        return int(row[0])

    def say_statements(self, seconds: float) -> None:
        for calls, text in self._connection.execute(BY_STATEMENT).fetchall():
            print(f"    {int(calls) / seconds:8.2f} /s  {text}")

    def settle(self) -> None:
        self._connection.execute("vacuum analyze headway.job")

    def _cpu(self) -> float:
        """Of all the server's processes, those that have ended as well."""
        ours = _times(self._postmaster)
        children = [
            _times(int(path.name))[:2]
            for path in Path("/proc").iterdir()
            if path.name.isdigit() and _parent(path) == self._postmaster
        ]
        return (sum(ours) + sum(map(sum, children))) / TICKS


def _stat(path: Path) -> list[str]:
    try:
        return (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(path: Path) -> int:
    return int((_stat(path) or ["", "0"])[1])


def _times(pid: int) -> list[int]:
    """Own time and that of children that were reaped."""
    return [int(field) for field in _stat(Path("/proc") / str(pid))[11:15]]


class Work:
    def __init__(self, url: str, direct: str | None = None) -> None:
        self.app = app = Headway(url, notifier=direct or url)

        @app.job
        async def noop(number: int, text: str) -> None:
            pass

        @app.job
        async def long(seconds: float) -> None:
            await asyncio.sleep(seconds)

        @app.job
        async def write(job: Job) -> None:
            tx = await job.complete()
            await tx.execute("select 1")

        self.noop, self.long, self.write = noop, long, write

    def requests(self, count: int) -> list[Request[None]]:
        return [self.noop.request(number, "x" * 100) for number in range(count)]


@asynccontextmanager
async def running(app: Headway) -> AsyncIterator[None]:
    worker = app.worker()
    task = asyncio.create_task(worker.run())
    await asyncio.sleep(1)
    yield
    worker.request_stop()
    await task


async def cost_of_jobs(meter: Meter, url: str, direct: str | None = None) -> None:
    """`direct`, if not `url`, is where notifications come from."""
    work = Work(url, direct)
    async with work.app as app:
        with meter.measured() as cost:
            for request in work.requests(SINGLE):
                await app.start(request)
        print("  start, one by one      ", cost.per(SINGLE))
        with meter.measured() as cost:
            for _ in range(JOBS // 100):
                await app.start_many(work.requests(100))
        print("  start_many, 100 at once", cost.per(JOBS))
        meter.settle()
        with meter.measured() as cost:
            await app.worker().run(drain=True)
        print("  run, from a backlog    ", cost.per(JOBS + SINGLE))
        async with running(app):
            with meter.measured() as cost:
                for request in work.requests(SINGLE):
                    await (await app.start(request)).result()
        print("  start, run, wait, each ", cost.per(SINGLE))


async def cost_of_a_worker(meter: Meter, url: str) -> None:
    work = Work(url)
    async with work.app as app:
        await app.start(work.noop.request(0, ""))
        print(
            f"connections: {meter.sessions()} of a process that starts jobs,", end=" ", flush=True
        )
        async with running(app):
            print(f"{meter.sessions()} with a worker that idles in it,", end=" ", flush=True)
            started = await app.start_many([work.write.request() for _ in range(2_000)])
            await started[-1].result()
            print(f"{meter.sessions()} after {len(started)} jobs with transactions of their own")
    work = Work(url)
    async with work.app as app, running(app):
        await say_load(meter, "an idle worker")
        await app.start_many([work.long.request(2.5 * LOOK) for _ in range(50)])
        await asyncio.sleep(2)
        await say_load(meter, "a worker with 50 jobs that take long")


async def say_load(meter: Meter, who: str) -> Cost:
    with meter.measured() as cost:
        await asyncio.sleep(LOOK)
    share = cost.cpu / cost.seconds * 1e3
    print(f"{who}: {cost.statements / cost.seconds:.2f} statements/s,", end=" ")
    print(f"{cost.wal / cost.seconds:.0f} WAL bytes/s, {share:.1f} ms CPU of the server per s")
    meter.say_statements(cost.seconds)
    return cost


async def cost_of_many(meter: Meter, url: str, workers: int) -> None:
    with tempfile.TemporaryDirectory() as name, fork_server(Path(name)) as parent:
        pids = [parent.spawn(url, Path(name)) for _ in range(workers)]
        try:
            await asyncio.sleep(10 + workers / 10)
            print(f"{workers} idle worker processes hold {meter.sessions()} connections")
            idle = await say_load(meter, f"{workers} idle worker processes")
            work = ProofWork(url)
            async with work.app as app:
                await app.start(work.good.request(0))
                await asyncio.sleep(3)
                with meter.measured() as cost:
                    for number in range(WOKEN):
                        await app.start(work.good.request(number))
                        await asyncio.sleep(0.5)
            cost.take_away(idle)
            print("  a job among them costs, besides that:", cost.per(WOKEN))
        finally:
            for pid in pids:
                kill(pid, signal.SIGTERM)
            wait_until_gone(pids, 60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--workers", type=int, default=30, help="35 at most: the server takes 200 connections"
    )
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with PostgresServer(durable=True) as server:
        with psycopg.connect(server.url(), autocommit=True) as admin:
            admin.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
            admin.execute("alter system set pg_stat_statements.track_utility = on")
        server.stop()
        server.start()
        name = server.create_database()
        url = server.url(name)
        asyncio.run(Headway(url).store.migrate())
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("create extension pg_stat_statements")
        with closing(Meter(server, url)) as meter:
            print("per job, no-op handler, 0.1 kB of input:")
            asyncio.run(cost_of_jobs(meter, url))
            try:
                pooler = PgBouncer(server)
            except ServerError as reason:
                print(f"NOT MEASURED: the same through PgBouncer. {reason}")
            else:
                print("the same through PgBouncer in transaction mode:")
                with pooler:
                    asyncio.run(cost_of_jobs(meter, pooler.url_of(name), url))
            asyncio.run(cost_of_a_worker(meter, url))
            asyncio.run(cost_of_many(meter, url, options.workers))


if __name__ == "__main__":
    main()
