"""Part clocks: workers whose clocks are an hour ahead and behind, and a store whose clock jumps."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from headway import After, Request
from proof.herd import LENGTH, Herd, herd
from proof.places import PostgresPlace, SqlitePlace
from proof.shifting import write_shift
from proof.trial import Trial
from proof.work import Work
from tests.servers import PostgresServer

HOUR = 3600.0
DELAY = 1.0
LATE = 3.0
"""Seconds after which a job that fell due must have been claimed, under load."""


def prove(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _wrong_workers(trial, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _jumping_store(trial, Path(folder))
    trial.leave_out(
        "a PostgreSQL server whose clock jumps: that would take the machine's own clock; "
        "the store's clock jumps on SQLite here, and in the simulation"
    )


def _wrong_workers(trial: Trial, folder: Path) -> None:
    """PostgreSQL's clock decides, so nothing is early, late or lost whatever workers believe."""
    seconds = 4 if trial.short else 15
    with PostgresServer() as server:
        place = PostgresPlace(server.url(server.create_database()))
        with herd(trial, place, lease_for=5.0, concurrency=10) as workers:
            for shift in (-HOUR, 0.0, HOUR):
                clock = str(folder / f"clock{shift}")
                write_shift(clock, shift)
                workers.spawn(clock=clock)
            workers.produce(_mixed)
            _look_for(workers, seconds)
            workers.drain(60)
            workers.stop()
            found, _ = workers.balance("workers an hour off")
        early, late = place.ask(
            "select coalesce(min(c.at - extract(epoch from j.run_at)), 0),"
            " coalesce(max(c.at - extract(epoch from j.run_at)), 0)"
            " from claimed c join {job} j on cast(j.id as text) = c.id and c.version = 1"
            " where j.step = 0 and j.run_at > j.created_at + interval '0.5 seconds'"
        )[0]
    trial.figure(
        "scheduled jobs were claimed after s", [round(float(early), 3), round(float(late), 3)]
    )
    trial.check(early >= 0, f"a job was claimed {-float(early):.3f} s before it was due")
    trial.check(late <= LATE, f"a job was claimed {float(late):.3f} s after it was due")
    for charged in ("attempts", "losses"):
        trial.check(found[charged] == 0, f"{found[charged]} {charged} were charged")


def _jumping_store(trial: Trial, folder: Path) -> None:
    """SQLite's clock is that of its processes: all of them jump together."""
    clock = str(folder / "clock")
    write_shift(clock, 0.0)
    place = SqlitePlace(str(folder / "proof.db"))
    jumps = 4 if trial.short else 20
    with herd(trial, place, lease_for=3.0, concurrency=10, clock=clock) as workers:
        for _ in range(3):
            workers.spawn()
        workers.produce()
        for _ in range(jumps):
            _look_for(workers, 0.7)
            write_shift(clock, random.uniform(-20, 20))
        write_shift(clock, 20.0)  # everything that was stored is in the past now
        workers.drain(60)
        workers.stop()
        workers.balance("the store's clock jumped")
    trial.figure("jumps", jumps)


def _mixed(work: Work) -> list[Request[int]]:
    later = work.chain.request(LENGTH - 1, 0.02).using(schedule=After(seconds=DELAY))
    return [later, *(work.chain.request(LENGTH - 1, 0.02) for _ in range(20))]


def _look_for(workers: Herd, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        workers.look()
        time.sleep(0.05)
