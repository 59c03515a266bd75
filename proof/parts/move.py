"""Part move: jobs move from SQLite to PostgreSQL while a producer starts more and workers of both
run them; the command that moves them is killed on the way. Every job that was acknowledged ends in
one of the two places, and ran once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable

from headway import Request
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase, left
from proof.tools.invariants import read_logs
from proof.tools.part_run import PartRun
from proof.tools.work import Work
from proof.tools.worker_group import LENGTH, WorkerGroup, worker_group
from tests.support.servers.postgres import PostgresServer

KILLS = 2
QUEUE = "bulk"
"""Where the backlog lies: the source's worker leaves it alone."""


def prove(run: PartRun) -> None:
    backlog = 3_000 if run.short else 100_000
    with tempfile.TemporaryDirectory() as folder, PostgresServer(durable=True) as server:
        source = SqliteDatabase(f"{folder}/proof.db")
        target = PostgresDatabase(server.url(server.create_database()))
        settings = {"concurrency": 20, "lease_for": 10.0}
        with (
            worker_group(run, source, queues=["default"], **settings) as here,
            worker_group(run, target, queues=["default", QUEUE], **settings) as there,
        ):
            _try(run, here, there, backlog)


def _try(run: PartRun, here: WorkerGroup, there: WorkerGroup, backlog: int) -> None:
    here.spawn()
    there.spawn()
    there.spawn()
    here.produce(_backlog(backlog), backlog=sys.maxsize)
    while len(here.start_log.ids) < backlog:
        run.check(here.producer is not None and here.producer.error is None, "no producer")
        time.sleep(0.1)
    began = time.monotonic()
    for number in range(KILLS):
        mover = _move(here.database, there.database)
        goal = backlog * (number + 1) // (KILLS + 2)
        while _arrived(there.database) < goal and mover.poll() is None:
            time.sleep(random.random() * 0.02)
        run.check(mover.poll() is None, f"headway move ended by itself: {mover.poll()}")
        os.kill(mover.pid, signal.SIGKILL)
        mover.wait()
    mover = _move(here.database, there.database)
    time.sleep(2)
    if here.producer is not None:
        here.producer.stop()
    code = mover.wait(600)
    seconds = time.monotonic() - began
    run.check(code == 0, f"headway move ended with {code}")
    here.drain(60)
    there.drain(240)
    here.stop()
    there.stop()
    run.figure("kills of headway move", KILLS)
    run.figure("seconds", round(seconds, 1))
    _balance(run, here, there)


def _backlog(count: int) -> Callable[[Work], list[Request[int]]]:
    started = 0

    def batch(work: Work) -> list[Request[int]]:
        nonlocal started
        if started < count:
            size = min(2_000, count - started)
            started += size
            return [work.steady.request(0.0).using(queue=QUEUE) for _ in range(size)]
        return [work.chain.request(LENGTH - 1, 0.02) for _ in range(5)]

    return batch


def _move(source: Database, target: Database) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "headway", "move", source.dsn, target.dsn, "--yes"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _arrived(database: Database) -> int:
    return int(database.ask("select count(*) from {job}")[0][0])


def _balance(run: PartRun, here: WorkerGroup, there: WorkerGroup) -> None:
    jobs = [_jobs(each.database) for each in (here, there)]
    run.figure("jobs left at the source, having ended there", len(jobs[0]))
    run.figure("jobs that moved", len(jobs[1]))
    both = jobs[0].keys() & jobs[1].keys()
    run.check(not both, f"{len(both)} jobs are in both places: {list(both)[:3]}")
    every = {**jobs[0], **jobs[1]}
    lost = here.start_log.ids - every.keys()
    run.check(not lost, f"{len(lost)} acknowledged sequences are lost: {list(lost)[:3]}")
    unfinished = [id for id, state in every.items() if state != "completed"]
    run.check(not unfinished, f"{len(unfinished)} jobs have not completed: {unfinished[:3]}")
    starts = Counter(
        entry.job
        for folder in (here.logs, there.logs)
        for entry in read_logs(folder)
        if entry.what == "start"
    )
    twice = [id for id, count in starts.items() if count > 1]
    run.check(not twice, f"{len(twice)} jobs ran twice: {twice[:3]}")
    unrun = every.keys() - starts.keys()
    run.check(not unrun, f"{len(unrun)} jobs completed without running: {list(unrun)[:3]}")
    staged = there.database.ask("select count(*) from headway.staged_job")[0][0]
    run.check(staged == 0, f"{staged} jobs are still on the stage")
    for each in (here, there):
        crashed = each.parent.crashes()
        run.check(not crashed, f"{each.database.kind}: {crashed}")
        run.check(left(each.database) == 0, f"{each.database.kind}: jobs have not ended")


def _jobs(database: Database) -> dict[str, str]:
    return dict(database.ask("select cast(id as text), state from {job}"))
