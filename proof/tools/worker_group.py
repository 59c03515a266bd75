"""Worker processes on one database, and a producer of jobs: what most parts start."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from headway import Request
from proof.tools.databases import Database, left
from proof.tools.fork_server import ForkServer, alive, fork_server, kill, wait_until_gone
from proof.tools.invariants import Entry, check, read_logs
from proof.tools.part_run import PartRun
from proof.tools.producer import Producer, StartLog
from proof.tools.work import Work

LENGTH = 3


class WorkerGroup:
    """Worker processes on a database, and a producer that keeps them busy until stopped."""

    def __init__(
        self,
        run: PartRun,
        database: Database,
        folder: Path,
        parent: ForkServer,
        settings: dict[str, Any],
    ) -> None:
        self.run = run
        self.database = database
        self.parent = parent
        self.settings = settings
        self.logs = folder / "logs"
        self.logs.mkdir(exist_ok=True)
        self.start_log = StartLog(folder / "start_log")
        self.pids: list[int] = []
        self.producer: Producer | None = None
        self._backlog = 0

    def spawn(self, **more: Any) -> int:
        pid = self.parent.spawn(self.database.dsn, self.logs, **{**self.settings, **more})
        self.pids.append(pid)
        return pid

    def produce(
        self, batch: Callable[[Work], list[Request[int]]] | None = None, *, backlog: int = 600
    ) -> None:
        """Keep about this many jobs waiting."""
        self.producer = Producer(
            self.database.dsn, self.start_log, batch or chains(), lambda: self._backlog < backlog
        )

    def look(self) -> int:
        """How many jobs are left; a database that is away is not asked."""
        with suppress(psycopg.Error):
            self._backlog = left(self.database)
        return self._backlog

    def ended(self) -> int:
        return int(self.database.ask("select count(*) from ended")[0][0])

    def wait_for_progress(self, seconds: float) -> float | None:
        """Seconds until a job ends that had not ended before; None if none does in time."""
        began = time.monotonic()
        before: int | None = None
        while time.monotonic() - began < seconds:
            with suppress(psycopg.Error):
                now = self.ended()
                if before is None:
                    before = now
                elif now > before:
                    return time.monotonic() - began
            time.sleep(0.02)
            self.look()
        return None

    def look_for(self, seconds: float) -> None:
        """Let the workers work, and the producer know how many jobs are left."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(0.1)

    def keep_up(self, count: int) -> None:
        """Replace workers that have died."""
        for pid in [pid for pid in self.pids if not alive(pid)]:
            self.pids.remove(pid)
        while len(self.pids) < count:
            self.spawn()

    def drain(self, seconds: float, *, workers: int = 0) -> None:
        """Stop producing, and wait until nothing is left to do."""
        if self.producer is not None:
            self.producer.stop()
            self.run.check(
                self.producer.error is None, f"the producer failed: {self.producer.error!r}"
            )
        deadline = time.monotonic() + seconds
        while self.look() and time.monotonic() < deadline:
            if workers:
                self.keep_up(workers)
            time.sleep(0.1)

    def stop(self) -> None:
        for pid in self.pids:
            kill(pid, signal.SIGTERM)
        stuck = wait_until_gone(self.pids, 40)
        self.run.check(not stuck, f"{len(stuck)} workers did not stop")
        self.pids = []

    def check_invariants(
        self, name: str, length: int = LENGTH
    ) -> tuple[dict[str, int], list[Entry]]:
        crashed = self.parent.crashes()
        self.run.check(not crashed, f"{name}: {crashed}")
        entries = read_logs(self.logs)
        return check(self.run, name, self.database, self.start_log, entries, length), entries


@contextmanager
def worker_group(run: PartRun, database: Database, **settings: Any) -> Iterator[WorkerGroup]:
    database.prepare()
    with tempfile.TemporaryDirectory() as folder, fork_server(Path(folder)) as parent:
        found = WorkerGroup(run, database, Path(folder), parent, settings)
        try:
            yield found
        finally:
            if found.producer is not None:
                found.producer.stop()
            found.start_log.close()


def chains(count: int = 40) -> Callable[[Work], list[Request[int]]]:
    """Batches of so many sequences, for a producer."""
    return lambda work: [work.chain.request(LENGTH - 1, 0.02) for _ in range(count)]
