"""Part clocks: workers whose clocks are an hour ahead and behind, and a store whose clock jumps."""

from __future__ import annotations

import random
import struct
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from headway import After, Request
from proof.tools.databases import PostgresDatabase, SqliteDatabase
from proof.tools.part_run import PartRun
from proof.tools.preloaded_library import compile_library
from proof.tools.work import Work
from proof.tools.worker_group import LENGTH, WorkerGroup, worker_group
from proof.tools.wrong_clock import write_shift
from tests.support.servers.postgres import PostgresServer

HOUR = 3600.0
DELAY = 1.0
LATE = 3.0
"""Seconds after which a job that fell due must have been claimed, under load."""

C_SOURCE = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *shift;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("CLOCK_SHIFT");
    int file = path ? open(path, O_RDONLY) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    shift = mapped == MAP_FAILED ? 0 : mapped;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    long long micros = real.tv_sec * 1000000LL + real.tv_nsec / 1000 + (shift ? *shift : 0);
    now->tv_sec = micros / 1000000;
    now->tv_usec = micros % 1000000;
    return 0;
}
"""
"""PostgreSQL asks gettimeofday what time it is."""


def prove(run: PartRun) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _wrong_workers(run, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _jumping_store(run, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _jumping_server(run, Path(folder))


def _wrong_workers(run: PartRun, folder: Path) -> None:
    """PostgreSQL's clock decides, so nothing is early, late or lost whatever workers believe."""
    seconds = 4 if run.short else 15
    with PostgresServer() as server:
        database = PostgresDatabase(server.url(server.create_database()))
        with worker_group(run, database, lease_for=5.0, concurrency=10) as workers:
            for shift in (-HOUR, 0.0, HOUR):
                clock = str(folder / f"clock{shift}")
                write_shift(clock, shift)
                workers.spawn(clock=clock)
            workers.produce(_mixed)
            _look_for(workers, seconds)
            workers.drain(60)
            workers.stop()
            found, _ = workers.check_invariants("workers an hour off")
        early, late = database.ask(
            "select coalesce(min(c.at - extract(epoch from j.run_at)), 0),"
            " coalesce(max(c.at - extract(epoch from j.run_at)), 0)"
            " from claimed c join {job} j on cast(j.id as text) = c.id and c.version = 1"
            " where j.position = 0 and j.run_at > j.created_at + interval '0.5 seconds'"
        )[0]
    run.figure(
        "scheduled jobs were claimed after s", [round(float(early), 3), round(float(late), 3)]
    )
    run.check(early >= 0, f"a job was claimed {-float(early):.3f} s before it was due")
    run.check(late <= LATE, f"a job was claimed {float(late):.3f} s after it was due")
    for charged in ("attempts", "losses"):
        run.check(found[charged] == 0, f"{found[charged]} {charged} were charged")


def _jumping_store(run: PartRun, folder: Path) -> None:
    """SQLite's clock is that of its processes: all of them jump together."""
    clock = str(folder / "clock")
    write_shift(clock, 0.0)
    database = SqliteDatabase(str(folder / "proof.db"))
    with worker_group(run, database, lease_for=3.0, concurrency=10, clock=clock) as workers:
        _jump(run, workers, partial(write_shift, clock), "SQLite's clock jumped")


def _jumping_server(run: PartRun, folder: Path) -> None:
    """PostgreSQL's clock is its server's; those of the workers are right, and do not matter."""
    folder.chmod(0o755)  # the server may be another user's
    library = compile_library(C_SOURCE, folder)
    if library is None:
        run.leave_out(
            "a PostgreSQL server whose clock jumps: there is no C compiler for a preloaded library"
        )
        return
    clock = folder / "clock"
    clock.write_bytes(bytes(8))

    def shift(seconds: float) -> None:
        with clock.open("r+b") as file:  # not replaced: the server has it mapped
            file.write(struct.pack("=q", round(seconds * 1e6)))

    environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(clock)}
    with PostgresServer(environment=environment) as server:
        database = PostgresDatabase(server.url(server.create_database()))
        shift(HOUR)
        (ahead,) = database.ask("select extract(epoch from clock_timestamp())::float8")[0]
        shift(0.0)
        if not run.check(
            abs(ahead - time.time() - HOUR) < HOUR / 10, "the server's clock cannot be moved"
        ):
            return
        with worker_group(run, database, lease_for=3.0, concurrency=10) as workers:
            _jump(run, workers, shift, "PostgreSQL's clock jumped")


def _jump(run: PartRun, workers: WorkerGroup, shift: Callable[[float], None], name: str) -> None:
    jumps = 4 if run.short else 20
    for _ in range(3):
        workers.spawn()
    workers.produce()
    for _ in range(jumps):
        _look_for(workers, 0.7)
        shift(random.uniform(-20, 20))
    shift(20.0)  # everything that was stored is in the past now
    workers.drain(60)
    workers.stop()
    found, _ = workers.check_invariants(name)
    run.figure(f"{name}: times", jumps)
    run.figure(f"{name}: leases that ran out", found["losses"])


def _mixed(work: Work) -> list[Request[int]]:
    later = work.chain.request(LENGTH - 1, 0.02).using(schedule=After(seconds=DELAY))
    return [later, *(work.chain.request(LENGTH - 1, 0.02) for _ in range(20))]


def _look_for(workers: WorkerGroup, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        workers.look()
        time.sleep(0.05)
