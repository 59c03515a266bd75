"""Processes for long and for many measurements: a worker, and a producer that keeps it busy.

    python -m benchmarks.steady_load work | produce      # told what to do by the environment

Handlers touch the probe, which costs them under a microsecond and the store nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta

import psycopg

from benchmarks.peers import probe
from benchmarks.peers.location import Location
from benchmarks.peers.probe import Probe
from benchmarks.peers.processes import end, launch, parent_of, reaped_seconds, running_seconds, tree
from headway import Headway, Retention
from headway.cli.event_loop import run_loop

VARIABLE = "HEADWAY_STEADY"
STEP = 1000


@dataclass(frozen=True)
class Steady:
    """What the processes are told."""

    dsn: str
    queues: int = 1
    size: int = 100
    """Bytes of text in a job's input."""
    jobs: int = 0
    """That a producer starts."""
    backlog: int = 20_000
    """How far a producer runs ahead of the workers."""
    keep: float | None = None
    """Seconds that completed jobs are kept; None: for ever."""
    concurrency: int = 100

    @property
    def names(self) -> list[str]:
        return ["default"] if self.queues == 1 else [f"queue{n}" for n in range(self.queues)]


class Work:
    def __init__(self, told: Steady) -> None:
        self.told = told
        self.app = Headway(told.dsn, migrate=True)

        @self.app.job
        async def noop(n: int, text: str) -> None:
            probe.hit(n)

        self.noop = noop

    async def start(self, numbers: range) -> None:
        """Some jobs in each queue, in turn."""
        names, text = self.told.names, "x" * self.told.size
        requests = [self.noop.request(n, text).using(queue=names[n % len(names)]) for n in numbers]
        await self.app.start_many(requests)


async def work(told: Steady, gate: Probe) -> None:
    kept = None if told.keep is None else timedelta(seconds=told.keep)
    async with Work(told).app as app:
        worker = app.worker(
            queues=told.names,
            concurrency=told.concurrency,
            retention=Retention(completed=kept, cancelled=kept),
            maintain_every=60.0 if told.keep is None else min(told.keep / 4, 60.0),
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.request_stop)
        await asyncio.to_thread(gate.wait_at_gate)
        await worker.run()


async def produce(told: Steady, seen: Probe) -> None:
    """Start jobs, as far ahead of the handlers as is allowed."""
    work = Work(told)
    async with work.app:
        for first in range(0, told.jobs, STEP):
            while first - seen.read().count > told.backlog:
                await asyncio.sleep(0.01)
            await work.start(range(first, min(first + STEP, told.jobs)))


async def load(told: Steady, jobs: int) -> None:
    work = Work(told)
    async with work.app:
        for first in range(0, jobs, STEP * 5):
            await work.start(range(first, min(first + STEP * 5, jobs)))


class Crew:
    """Workers and producers that share a probe."""

    def __init__(self, told: Steady, folder: str, stack: ExitStack) -> None:
        self._told = told
        self._location = Location(folder, "", 0, "steady")
        self._stack = stack
        self.probe = Probe(self._location)
        self.probe.reset()
        self.workers: list[subprocess.Popen[bytes]] = []

    def hire(self, count: int) -> None:
        """Workers that stand ready; the probe's gate lets them loose."""
        self.workers += [self._launch("work") for _ in range(count)]
        deadline = time.monotonic() + 60
        while self.probe.ready() < count:
            self.check()
            if time.monotonic() > deadline:
                raise RuntimeError("a worker did not start")
            time.sleep(0.01)

    def produce(self) -> subprocess.Popen[bytes]:
        return self._launch("produce")

    def check(self) -> None:
        for worker in self.workers:
            if worker.poll() is not None:
                raise RuntimeError(f"a worker ended with {worker.returncode}")

    def _launch(self, what: str) -> subprocess.Popen[bytes]:
        environment = {VARIABLE: json.dumps(asdict(self._told)), **self._location.to_environment()}
        process = launch(
            [sys.executable, "-m", "benchmarks.steady_load", what],
            output=sys.stderr.buffer,
            environment=environment,
        )
        self._stack.callback(end, process, patience=10.0)
        return process


@contextmanager
def crew(told: Steady) -> Iterator[Crew]:
    """Whoever is hired or launched inside the block is gone after it."""
    with (
        tempfile.TemporaryDirectory(prefix="headway-steady-") as folder,
        ExitStack() as stack,
    ):
        yield Crew(told, folder, stack)


class PostgresCpu:
    """CPU seconds of all processes of a server, those that have ended included."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._postmaster = parent_of(connection.info.backend_pid)

    def read(self) -> float:
        living = sum(running_seconds(pid) for pid in tree({self._postmaster}))
        return living + reaped_seconds(self._postmaster)


def main() -> None:
    told = Steady(**json.loads(os.environ[VARIABLE]))
    shared = Probe(Location.from_environment())
    run_loop(work(told, shared) if sys.argv[1] == "work" else produce(told, shared))


if __name__ == "__main__":
    main()
