"""Part deploy: workers are replaced one after another with SIGTERM, under load. Nothing is lost,
and no job is charged for it: neither an attempt nor a loss. Then the same with an upgrade: workers
and clients of the release before run while the schema is migrated, and are replaced by this one."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headway import Headway, Request
from headway.errors import SchemaOutdated
from proof.parts.mongodb import MongoDatabase
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase, left
from proof.tools.fork_server import ForkServer, fork_server, kill, wait_until_gone
from proof.tools.invariants import check, read_logs
from proof.tools.part_run import PartRun
from proof.tools.previous_release import PREVIOUS, PreviousRelease, ReleaseMissing
from proof.tools.producer import StartLog
from proof.tools.work import Work
from proof.tools.worker_group import LENGTH, worker_group
from tests.support.servers.mongodb import MongoReplicaSet, MongoServer
from tests.support.servers.postgres import PostgresServer

WORKERS = 3
MIGRATE = """
import asyncio, sys
import headway
assert headway.__file__.startswith(sys.argv[1]), headway.__file__
for dsn in sys.argv[2:]:
    asyncio.run(headway.Headway(dsn).store.migrate())
"""
"""Run by the release before."""
SETTINGS: dict[str, Any] = {"lease_for": 10.0, "concurrency": 10, "grace": 20.0}


def prove(run: PartRun) -> None:
    restarts = 2 if run.short else 20
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PostgresServer())
        _restart(run, SqliteDatabase(f"{folder}/restarts.db"), restarts)
        _restart(run, PostgresDatabase(server.url(server.create_database())), restarts)
        try:
            release = PreviousRelease(folder)
        except ReleaseMissing as missing:
            run.leave_out(f"the upgrade from version {PREVIOUS.version}: {missing}")
            return
        databases: list[Database] = [
            SqliteDatabase(f"{folder}/upgrade.db"),
            PostgresDatabase(server.url(server.create_database())),
        ]
        if MongoServer.find() is None:
            run.leave_out("the upgrade on MongoDB: this machine has no MongoDB")
        else:
            replica_set = stack.enter_context(MongoReplicaSet())
            mongodb = MongoDatabase(replica_set.url("proof"))
            stack.callback(mongodb.close)
            databases.append(mongodb)
        _upgrade_all(run, release, databases, folder)


def _batch(work: Work) -> list[Request[int]]:
    return [work.chain.request(LENGTH - 1, 0.2) for _ in range(30)]


def _restart(run: PartRun, database: Database, restarts: int) -> None:
    with worker_group(run, database, **SETTINGS) as workers:
        for _ in range(WORKERS):
            workers.spawn()
        workers.produce(_batch, backlog=200 if run.short else 600)
        workers.wait_for_progress(20)
        slowest = 0.0
        for _ in range(restarts):
            old = workers.pids.pop(0)
            workers.spawn()
            pause = time.monotonic() + 0.4
            while time.monotonic() < pause:
                workers.look()
                time.sleep(0.05)
            began = time.monotonic()
            kill(old, signal.SIGTERM)
            stuck = wait_until_gone([old], 30)
            run.check(not stuck, f"{database.kind}: a worker did not stop")
            slowest = max(slowest, time.monotonic() - began)
        workers.drain(60)
        workers.stop()
        found, _ = workers.check_invariants(database.kind)
    run.figure(f"{database.kind}: restarts", restarts)
    run.figure(f"{database.kind}: slowest stop s", round(slowest, 2))
    _check_uncharged(run, database.kind, found)


def _check_uncharged(run: PartRun, name: str, found: dict[str, int]) -> None:
    for charged in ("attempts", "losses", "failed"):
        run.check(found[charged] == 0, f"{name}: {found[charged]} {charged} were charged")


class _Upgrade:
    """Processes of both releases on one database, in a folder with their logs."""

    def __init__(self, run: PartRun, database: Database, folder: Path) -> None:
        self.run = run
        self.name = f"upgrade of {database.kind}"
        self.database = database
        self.folder = folder
        self.logs, self.starts = folder / "logs", folder / "starts"
        self.logs.mkdir(parents=True)
        self.starts.mkdir()
        self._warnings = str(folder / "warnings")

    def worker(self, release: ForkServer) -> int:
        """Start one, and wait until it has run a job."""
        pid = release.spawn(self.database.dsn, self.logs, warnings=self._warnings, **SETTINGS)
        self._wait_for(lambda: self._wrote(self.logs, f"{pid}-*"), f"worker {pid} ran no job")
        return pid

    def producer(self, release: ForkServer) -> int:
        """Start one, and wait until it has started jobs."""
        pid = release.spawn(
            self.database.dsn,
            self.starts,
            warnings=self._warnings,
            produces=True,
            length=LENGTH,
        )
        self._wait_for(lambda: self._wrote(self.starts, f"*-{pid}"), f"client {pid} started no job")
        return pid

    def stop(self, *pids: int) -> None:
        for pid in pids:
            kill(pid, signal.SIGTERM)
        stuck = wait_until_gone(list(pids), 60)
        self.run.check(not stuck, f"{self.name}: {len(stuck)} processes did not stop")

    def work(self, who: str) -> None:
        """Wait until some more jobs have ended."""
        goal = self._ended() + 20
        self._wait_for(lambda: self._ended() >= goal, f"no work was done by {who}")

    def drain(self) -> None:
        self._wait_for(lambda: not left(self.database), "jobs did not end")

    def _ended(self) -> int:
        return int(self.database.ask("select count(*) from ended")[0][0])

    def _wait_for(self, happened: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            if time.monotonic() > deadline:
                self.run.fail(f"{self.name}: {otherwise} in 60 s")
                return
            time.sleep(0.1)

    @staticmethod
    def _wrote(folder: Path, files: str) -> bool:
        return any(path.stat().st_size for path in folder.glob(files))

    def check(self) -> None:
        """Nothing is lost, doubled or charged, and no process has complained."""
        ids = {what: self._started(what) for what in ("chains", "singles")}
        log = StartLog(self.folder / "start_log")
        log.note(list(ids["chains"]))
        log.close()
        entries = read_logs(self.logs)
        found = check(self.run, self.name, self.database, log, entries, LENGTH)
        _check_uncharged(self.run, self.name, found)
        rows = self.database.ask("select cast(id as text), state from {job} where type = 'steady'")
        done = {id for id, state in rows if state == "completed"}
        lost = ids["singles"] - done
        self.run.check(not lost, f"{self.name}: {len(lost)} jobs are lost: {list(lost)[:3]}")
        for problems in ("errors", "warnings"):
            path = self.folder / problems
            said = path.read_text() if path.exists() else ""
            self.run.check(not said, f"{self.name}: {problems} of processes:\n{said[:2000]}")
        self.run.figure(f"{self.name}: jobs", found["jobs"])

    def _started(self, what: str) -> set[str]:
        return {
            id for path in self.starts.glob(f"{what}-*") for id in path.read_text().splitlines()
        }


def _upgrade_all(
    run: PartRun, release: PreviousRelease, databases: list[Database], folder: Path
) -> None:
    for name in ("old", "new"):
        (folder / name).mkdir()
    with (
        fork_server(folder / "old", release.environment()) as old,
        fork_server(folder / "new") as new,
    ):
        release.run("-c", MIGRATE, str(release.path), *(database.dsn for database in databases))
        for database in databases:
            database.watch()
            upgrade = _Upgrade(run, database, folder / database.kind)
            missing = asyncio.run(_missing_steps(database.dsn))
            if missing:
                asyncio.run(_check_refused(upgrade))
            _upgrade(upgrade, old, new, missing)
            upgrade.check()
        deaths = old.deaths() + new.deaths()
        run.check(not deaths, f"processes of an upgrade: {deaths}")


def _upgrade(upgrade: _Upgrade, old: ForkServer, new: ForkServer, missing: list[str]) -> None:
    """Migrate, replace the workers one by one, go back to the old code, and finish with it."""
    name, run = upgrade.name, upgrade.run
    producers = [upgrade.producer(old), upgrade.producer(old)]
    workers = [upgrade.worker(old) for _ in range(2 if run.short else WORKERS)]
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "headway", "migrate", "up", upgrade.database.dsn],
        capture_output=True,
        text=True,
        check=False,
    )
    run.figure(f"{name}: headway migrate up s", round(time.monotonic() - began, 2))
    applied = "".join(f"applied {step}\n" for step in missing)
    run.check(
        (done.returncode, done.stdout) == (0, applied),
        f"{name}: headway migrate up said {done.stdout!r}, {done.stderr!r}",
    )
    upgrade.work("the old workers on the new schema")
    producers.append(upgrade.producer(new))
    for pid in list(workers):
        workers.append(upgrade.worker(new))
        upgrade.stop(pid)
        workers.remove(pid)
    back = upgrade.worker(old)
    upgrade.stop(*workers)
    upgrade.work("an old worker that was started on the new schema")
    upgrade.stop(*producers)
    upgrade.drain()
    upgrade.stop(back)


async def _missing_steps(dsn: str) -> list[str]:
    steps = await Headway(dsn).store.migration_status()
    return [step.name for step in steps if step.applied_at is None]


async def _check_refused(upgrade: _Upgrade) -> None:
    """New code on the old schema says what to do, in one sentence."""
    app = Headway(upgrade.database.dsn, migrate=False)
    try:
        async with app:
            upgrade.run.fail(f"{upgrade.name}: new code opened the old schema")
    except SchemaOutdated as error:
        upgrade.run.check(
            str(error).endswith("; run `headway migrate up`"), f"{upgrade.name}: {error}"
        )
