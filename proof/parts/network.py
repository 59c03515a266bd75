"""Part network: between workers and PostgreSQL, connections are slow, cut, reset after COMMIT, and
swallow everything. Nothing is lost, and handlers stop before the lease that they hold runs out."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from proof.tools.databases import PostgresDatabase
from proof.tools.invariants import Entry
from proof.tools.part_run import PartRun
from proof.tools.proxy import Proxy
from proof.tools.worker_group import WorkerGroup, worker_group
from tests.support.servers.postgres import PostgresServer

LEASE = 4.0
WORKERS = 3
RESUMED = 5.0


def prove(run: PartRun) -> None:
    rounds = 1 if run.short else 4
    with PostgresServer() as server:
        proxy = Proxy(server.port)
        try:
            name = server.create_database()
            database = PostgresDatabase(server.url(name))
            with worker_group(run, database, lease_for=LEASE, concurrency=10) as workers:
                through = f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}"
                _work_through(run, workers, proxy, through, rounds)
        finally:
            proxy.close()


def _work_through(
    run: PartRun, workers: WorkerGroup, proxy: Proxy, through: str, rounds: int
) -> None:
    direct = workers.database
    workers.database = PostgresDatabase(through)
    for _ in range(WORKERS):
        workers.spawn()
    workers.produce()
    workers.database = direct
    run.check(workers.wait_for_progress(20) is not None, "nothing was done to begin with")
    resumed: list[float] = []
    for number in range(rounds):
        for trouble in (_slow, _cuts, _commits, _swallowed):
            trouble(workers, proxy)
            seconds = workers.wait_for_progress(30)
            name = trouble.__name__.removeprefix("_")
            if run.check(seconds is not None, f"nothing was done after {name}"):
                resumed.append(round(seconds or 0.0, 2))
                run.say(f"round {number + 1}, {name}: resumed after {resumed[-1]} s")
    workers.drain(90)
    workers.stop()
    _, entries = workers.check_invariants("invariants")
    run.figure("resumed after s", {"max": max(resumed), "all": resumed})
    run.check(max(resumed) <= RESUMED, f"workers resumed only after {max(resumed)} s")
    run.figure("connections reset after COMMIT", proxy.commits_cut)
    run.check(proxy.commits_cut > 0, "no connection was reset after COMMIT")
    run.figure("starts not answered", workers.start_log.refused)
    overlaps = _overlaps(entries)
    run.figure("executions that went on beside the next one", len(overlaps))
    run.check(not overlaps, f"handlers outlived their lease: {overlaps[:3]}")


def _slow(workers: WorkerGroup, proxy: Proxy) -> None:
    proxy.delay = 0.1
    _look_for(workers, 2.0)
    proxy.delay = 0.0


def _cuts(workers: WorkerGroup, proxy: Proxy) -> None:
    for _ in range(5):
        proxy.reset_all()
        _look_for(workers, random.uniform(0.1, 0.5))


def _commits(workers: WorkerGroup, proxy: Proxy) -> None:
    proxy.cut_commits = 0.2
    _look_for(workers, 2.0)
    proxy.cut_commits = 0.0


def _swallowed(workers: WorkerGroup, proxy: Proxy) -> None:
    """Longer than a lease: all of them run out, and every handler has to stop in time."""
    proxy.swallow = True
    _look_for(workers, LEASE * 1.5)
    proxy.reset_all()
    proxy.swallow = False


def _overlaps(entries: list[Entry]) -> list[Entry]:
    """Executions whose end was noted after a later execution of the same job had begun."""
    begun: dict[str, int] = {}
    found: list[Entry] = []
    for entry in entries:
        if entry.what == "start":
            begun[entry.job] = max(begun.get(entry.job, 0), entry.version)
        elif entry.version < begun.get(entry.job, 0):
            found.append(replace(entry))
    return found


def _look_for(workers: WorkerGroup, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        workers.look()
        time.sleep(0.05)
