"""Part copy: jobs move from SQLite to PostgreSQL while a producer starts more and workers of both
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
from proof.accounts import read_diaries
from proof.herd import LENGTH, Herd, herd
from proof.places import Place, PostgresPlace, SqlitePlace, left
from proof.trial import Trial
from proof.work import Work
from tests.servers import PostgresServer

KILLS = 2
QUEUE = "bulk"
"""Where the backlog lies: the source's worker leaves it alone."""


def prove(trial: Trial) -> None:
    backlog = 3_000 if trial.short else 100_000
    with tempfile.TemporaryDirectory() as folder, PostgresServer(durable=True) as server:
        source = SqlitePlace(f"{folder}/proof.db")
        target = PostgresPlace(server.url(server.create_database()))
        settings = {"concurrency": 20, "lease_for": 10.0}
        with (
            herd(trial, source, queues=["default"], **settings) as here,
            herd(trial, target, queues=["default", QUEUE], **settings) as there,
        ):
            _try(trial, here, there, backlog)


def _try(trial: Trial, here: Herd, there: Herd, backlog: int) -> None:
    here.spawn()
    there.spawn()
    there.spawn()
    here.produce(_backlog(backlog), backlog=sys.maxsize)
    while len(here.ledger.ids) < backlog:
        trial.check(here.producer is not None and here.producer.error is None, "no producer")
        time.sleep(0.1)
    began = time.monotonic()
    for number in range(KILLS):
        mover = _copy(here.place, there.place)
        goal = backlog * (number + 1) // (KILLS + 2)
        while _arrived(there.place) < goal and mover.poll() is None:
            time.sleep(random.random() * 0.02)
        trial.check(mover.poll() is None, f"headway copy ended by itself: {mover.poll()}")
        os.kill(mover.pid, signal.SIGKILL)
        mover.wait()
    mover = _copy(here.place, there.place)
    time.sleep(2)
    if here.producer is not None:
        here.producer.stop()
    code = mover.wait(600)
    seconds = time.monotonic() - began
    trial.check(code == 0, f"headway copy ended with {code}")
    here.drain(60)
    there.drain(240)
    here.stop()
    there.stop()
    trial.figure("kills of headway copy", KILLS)
    trial.figure("seconds", round(seconds, 1))
    _balance(trial, here, there)


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


def _copy(source: Place, target: Place) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "headway", "copy", source.dsn, target.dsn, "--yes"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _arrived(place: Place) -> int:
    return int(place.ask("select count(*) from {job}")[0][0])


def _balance(trial: Trial, here: Herd, there: Herd) -> None:
    jobs = [_jobs(each.place) for each in (here, there)]
    trial.figure("jobs left at the source, having ended there", len(jobs[0]))
    trial.figure("jobs that moved", len(jobs[1]))
    both = jobs[0].keys() & jobs[1].keys()
    trial.check(not both, f"{len(both)} jobs are in both places: {list(both)[:3]}")
    every = {**jobs[0], **jobs[1]}
    lost = here.ledger.ids - every.keys()
    trial.check(not lost, f"{len(lost)} acknowledged sequences are lost: {list(lost)[:3]}")
    unfinished = [id for id, state in every.items() if state != "completed"]
    trial.check(not unfinished, f"{len(unfinished)} jobs have not completed: {unfinished[:3]}")
    starts = Counter(
        entry.job
        for folder in (here.logs, there.logs)
        for entry in read_diaries(folder)
        if entry.what == "start"
    )
    twice = [id for id, count in starts.items() if count > 1]
    trial.check(not twice, f"{len(twice)} jobs ran twice: {twice[:3]}")
    unrun = every.keys() - starts.keys()
    trial.check(not unrun, f"{len(unrun)} jobs completed without running: {list(unrun)[:3]}")
    staged = there.place.ask("select count(*) from headway.staged_job")[0][0]
    trial.check(staged == 0, f"{staged} jobs are still on the stage")
    for each in (here, there):
        crashed = each.parent.crashes()
        trial.check(not crashed, f"{each.place.kind}: {crashed}")
        trial.check(left(each.place) == 0, f"{each.place.kind}: jobs have not ended")


def _jobs(place: Place) -> dict[str, str]:
    return dict(place.ask("select cast(id as text), state from {job}"))
