"""Part deploy: workers are replaced one after another with SIGTERM, under load. Nothing is lost,
and no job is charged for it: neither an attempt nor a loss."""

from __future__ import annotations

import signal
import tempfile
import time

from headway import Request
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase
from proof.tools.fork_server import kill, wait_until_gone
from proof.tools.part_run import PartRun
from proof.tools.work import Work
from proof.tools.worker_group import LENGTH, worker_group
from tests.support.servers.postgres import PostgresServer

WORKERS = 3


def prove(run: PartRun) -> None:
    restarts = 6 if run.short else 20
    with tempfile.TemporaryDirectory() as folder:
        _try(run, SqliteDatabase(f"{folder}/proof.db"), restarts)
    with PostgresServer() as server:
        _try(run, PostgresDatabase(server.url(server.create_database())), restarts)
    run.leave_out("a migration while workers of the previous version run: there is one release")


def _batch(work: Work) -> list[Request[int]]:
    return [work.chain.request(LENGTH - 1, 0.2) for _ in range(30)]


def _try(run: PartRun, database: Database, restarts: int) -> None:
    with worker_group(run, database, lease_for=10.0, concurrency=10, grace=20.0) as workers:
        for _ in range(WORKERS):
            workers.spawn()
        workers.produce(_batch)
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
    for charged in ("attempts", "losses", "failed"):
        run.check(found[charged] == 0, f"{database.kind}: {found[charged]} {charged} were charged")
