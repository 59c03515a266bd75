"""The job types of the proof, the log that workers write, and a worker process's main."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from time import time as real_time  # whatever happens to the process's clock later
from typing import Any

from headway import Backoff, Continuation, Headway, Job

POSTGRES_EFFECT = "insert into effect (job, token, version) values (%s, %s, %s)"
SQLITE_EFFECT = "insert into effect (job, token, version) values (?, ?, ?)"
SOON = Backoff(base=0.5, cap=30.0)
DECLARED_EVERY = 1.0
"""Seconds between the ticks of declared schedules."""


class WorkerLog:
    """Appends lines to a file of this process: whatever was written survives a kill -9."""

    def __init__(self, folder: Path) -> None:
        path = folder / f"{os.getpid()}-{monotonic_ns()}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, what: str, job: Job[*tuple[Any, ...]]) -> None:
        lease = job.lease
        line = f"{what} {job.id} {lease.token} {lease.version} {real_time()} {os.getpid()}\n"
        os.write(self._file, line.encode())


class Work:
    """The app and its job types on one database. `log` is None for those who only start jobs."""

    def __init__(self, dsn: str, log: WorkerLog | None = None, **options: Any) -> None:
        self.app = app = Headway(dsn, migrate=False, **options)
        postgres, mongodb = dsn.startswith("postgres"), dsn.startswith("mongodb")
        note: Callable[[str, Job[*tuple[Any, ...]]], None]
        note = (lambda _what, _job: None) if log is None else log.note

        @app.job(max_losses=10_000, max_attempts=50, retry=SOON)
        async def chain(job: Job, left: int, seconds: float) -> Continuation[int] | int:
            note("start", job)
            await asyncio.sleep(random.random() * seconds)
            tx = await job.complete()
            values = job.id, job.lease.token, job.lease.version
            if postgres:
                await tx.execute(POSTGRES_EFFECT, values)
            elif mongodb:
                effect = dict(zip(("job", "token", "version"), values, strict=True))
                await tx.client.get_default_database()["effect"].insert_one(effect, session=tx)
            else:
                tx.execute(SQLITE_EFFECT, values)
            note("end", job)
            if left == 0:
                return job.position
            return job.continue_with(chain.request(left - 1, seconds))

        @app.job(max_losses=10_000, max_attempts=50, retry=SOON)
        async def steady(job: Job, seconds: float) -> int:
            """No transaction of its own: completes through the committer."""
            note("start", job)
            await asyncio.sleep(seconds)
            note("end", job)
            return job.lease.version

        @app.job
        async def good(job: Job, number: int) -> int:
            note("start", job)
            await asyncio.sleep(0.01)
            note("end", job)
            return number

        @app.job(queue="poison")
        async def die(job: Job) -> None:
            note("start", job)
            os.kill(os.getpid(), signal.SIGKILL)

        @app.job(queue="poison", max_attempts=2, retry=SOON)
        async def eat(job: Job) -> int:
            note("start", job)
            eaten = [bytearray(64 << 20) for _ in range(1_000)]
            return len(eaten)

        @app.job
        async def gate(job: Job) -> int:
            note("start", job)
            return 1

        @app.job
        async def gated(job: Job[int], number: int) -> int:
            return number

        self.chain, self.steady, self.good = chain, steady, good
        self.die, self.eat, self.gate, self.gated = die, eat, gate, gated


def declared_name(number: int) -> str:
    return f"declared-{number}"


async def run_worker(dsn: str, logs: Path, settings: dict[str, Any]) -> None:
    """Until SIGTERM; a second one hurries it. `declared`: number of schedules in its code.
    `limited`: it works on queues with limits."""
    if settings.pop("limited", False):
        # The release before this one runs this module, too, and has no limits.
        from proof.limits.work import run_limited_worker  # noqa: PLC0415

        await run_limited_worker(dsn, logs, settings)
        return
    work = Work(dsn, WorkerLog(logs))
    if declared := settings.pop("declared", 0):
        _declare(work, declared)
    async with work.app:
        worker = work.app.worker(**settings)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.request_stop)
        await worker.run()


def _declare(work: Work, count: int) -> None:
    # The release before this one runs this module, too, and may have no schedules.
    from headway import CatchUp, Every  # noqa: PLC0415

    for number in range(count):
        work.app.schedule(
            declared_name(number),
            Every(seconds=DECLARED_EVERY),
            work.good.request(number),
            overlap="allow",
            catch_up=CatchUp.all(hours=1, at_most=10_000),
        )
