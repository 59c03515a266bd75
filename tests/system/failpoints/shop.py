"""The jobs that are interrupted: sequences of two, plain, staged, atomic and gathering ones, and a
job that waits for each of them. What they do in the completing transaction is a row in `effect`."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import psycopg

from headway import Continuation, Fixed, Headway, Job
from headway.jobs.job_type import TypeOptions
from headway.ports.store import Store
from tests.system.failpoints.failing_stores import FailingPostgres, FailingSqlite

SCENARIOS = ("plain", "staged", "atomic", "gathering")
LEASE = 1.0
OPTIONS: TypeOptions = {"max_attempts": None, "max_losses": 100, "retry": Fixed(0)}
ATOMIC: TypeOptions = {**OPTIONS, "atomic": True}


def failing_store(dsn: str) -> FailingSqlite | FailingPostgres:
    if dsn.startswith("sqlite"):
        return FailingSqlite(dsn.removeprefix("sqlite:///"))
    return FailingPostgres(dsn, connections=3)


class Shop:
    def __init__(self, store: Store | str) -> None:
        self.app = app = Headway(store)
        self.store = app.store

        @app.job(**OPTIONS)
        async def first_plain(job: Job) -> Continuation[str]:
            await self._reach("between")
            return job.continue_with(last_plain.request(), queue=job.queue)

        @app.job(entry=False, **OPTIONS)
        async def last_plain() -> str:
            await self._reach("between")
            return "done"

        @app.job(**OPTIONS)
        async def first_staged(job: Job) -> Continuation[str]:
            await self._stage(job)
            return job.continue_with(last_staged.request(), queue=job.queue)

        @app.job(entry=False, **OPTIONS)
        async def last_staged(job: Job) -> str:
            await self._stage(job)
            return "done"

        @app.job(**ATOMIC)
        async def first_atomic(job: Job) -> Continuation[str]:
            await self._write(job)
            return job.continue_with(last_atomic.request(), queue=job.queue)

        @app.job(entry=False, **ATOMIC)
        async def last_atomic(job: Job) -> str:
            await self._write(job)
            return "done"

        @app.job(**OPTIONS)
        async def part() -> str:
            return "part"

        @app.job(**OPTIONS)
        async def first_gathering(job: Job) -> Continuation[str]:
            await self._reach("between")
            return job.continue_with(
                last_gathering.request().using(blockers=(part.request().using(queue=job.queue),)),
                queue=job.queue,
            )

        @app.job(entry=False, **OPTIONS)
        async def last_gathering(job: Job[str]) -> str:
            return job.blockers[0]

        @app.job(**OPTIONS)
        async def dependent(job: Job[str]) -> str:
            return job.blockers[0]

        self._firsts = {
            "plain": first_plain,
            "staged": first_staged,
            "atomic": first_atomic,
            "gathering": first_gathering,
        }
        self._dependent = dependent

    async def start(self, scenario: str, queue: str) -> None:
        """A sequence, and a job that waits for it, in a queue of their own."""
        sequence = await self.app.start(self._firsts[scenario].request(), queue=queue)
        await self.app.start(self._dependent.request().using(blockers=(sequence,)), queue=queue)

    async def work(self, queue: str) -> None:
        """Run what is in the queue; leave it to somebody else to find what was lost."""
        worker = self.app.worker(
            queues=[queue],
            lease_for=LEASE,
            reap_every=3600,
            maintain_every=3600,
            poll_every=0.05,
        )
        running = asyncio.create_task(worker.run(drain=True))
        if isinstance(self.store, FailingSqlite | FailingPostgres):
            self.store.failpoints.worker = running
        await asyncio.wait({running})
        if not running.cancelled():
            running.result()

    async def _stage(self, job: Job) -> None:
        async with job.prepare() as tx:
            await _execute(tx, "select 1")
            await self._reach("preparing")
        await self._reach("between")
        await job.complete()
        await self._write(job)

    async def _write(self, job: Job) -> None:
        await self._reach("before its write")
        await _execute(job.tx, f"insert into effect (job_id) values ('{job.id}')")
        await self._reach("after its write")

    async def _reach(self, where: str) -> None:
        if isinstance(self.store, FailingSqlite | FailingPostgres):
            visit = self.store.failpoints.visit(f"handler {where}")
            assert visit is not None
            await visit.reach("")


async def _execute(tx: Any, statement: str) -> None:
    if isinstance(tx, psycopg.AsyncConnection):
        await tx.execute(statement.encode())
    else:
        assert isinstance(tx, sqlite3.Connection)
        tx.execute(statement)
