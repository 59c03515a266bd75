"""Part schedules: simulated days; and real workers that are killed and frozen while they fire
hundreds of schedules. Each tick has started one job, or was counted as skipped."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from headway.domain.job import JobRecord
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.schedule import ScheduleRecord
from headway.domain.schedules.timetable import Every
from proof.parts.mongodb import MongoDatabase
from proof.simulation.schedules import phases
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase
from proof.tools.fork_server import ForkServer, fork_server, kill, wait_until_gone
from proof.tools.part_run import PartRun
from proof.tools.work import DECLARED_EVERY, Work, declared_name
from tests.support.servers.mongodb import MongoReplicaSet, MongoServer
from tests.support.servers.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
CORES = 2
WORKERS = 4
DECLARED = 5
PUT = 300
LEASE = 2.0
SETTINGS = {"lease_for": LEASE, "concurrency": 20, "poll_every": 0.5, "declared": DECLARED}
OVERLAPS = ("allow", "skip", "queue_one", "cancel")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def prove(run: PartRun) -> None:
    _simulate(run)
    with tempfile.TemporaryDirectory() as folder:
        _interrupt(run, SqliteDatabase(f"{folder}/proof.db"), Path(folder))
    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        _interrupt(run, PostgresDatabase(server.url(server.create_database())), Path(folder))
    if MongoServer.find() is None:
        run.leave_out("schedules on MongoDB: this machine has no MongoDB")
        return
    with MongoReplicaSet() as replica_set, tempfile.TemporaryDirectory() as folder:
        mongodb = MongoDatabase(replica_set.url("proof"))
        try:
            _interrupt(run, mongodb, Path(folder))
        finally:
            mongodb.close()


def _simulate(run: PartRun) -> None:
    hours, days = (0.5, CORES) if run.short else (24.0, 2 * CORES)
    with ThreadPoolExecutor(CORES) as pool:
        answers = list(pool.map(lambda n: _day(run.seed + n, hours), range(days)))
    kills: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for answer in answers:
        run.check(answer.get("invariant") is None and "kills" in answer, json.dumps(answer))
        kills.update(answer.get("kills", {}))
        sums.update({name: answer.get(name, 0) for name in ("ticks", "fired", "skipped")})
    run.figure("simulated days", f"{days} of {hours:g} hours")
    run.figure("simulated ticks", dict(sums))
    run.figure("simulated kills", dict(kills))
    spared = [phase for phase in phases() if not kills[phase]]
    run.check(run.short or not spared, f"no worker was killed {spared}")


def _day(seed: int, hours: float) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "proof.simulation.schedules"]
    command += ["--first", str(seed), "--days", "1", "--hours", str(hours)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        return {"error": done.stderr[-2000:]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _timetable(number: int) -> Every:
    """Every tenth schedule each second, the others each five to sixty."""
    if number % 10 == 0:
        return Every(seconds=1)
    return Every(seconds=5 + number % 56, anchor=EPOCH + timedelta(seconds=number / 7))


def _is_complete(number: int) -> bool:
    """Whether no tick of this schedule may be skipped."""
    return OVERLAPS[number % len(OVERLAPS)] == "allow"


async def _put(dsn: str) -> dict[str, Every]:
    work = Work(dsn)
    async with work.app as app:
        for number in range(PUT):
            overlap: Any = OVERLAPS[number % len(OVERLAPS)]
            catch_up = CatchUp.all(hours=1, at_most=10_000) if _is_complete(number) else None
            await app.schedules.put(
                f"put-{number}",
                _timetable(number),
                work.good.request(number),
                overlap=overlap,
                catch_up=catch_up or CatchUp.latest(),
            )
    return {f"put-{number}": _timetable(number) for number in range(PUT)}


def _interrupt(run: PartRun, database: Database, folder: Path) -> None:
    seconds = 4.0 if run.short else 75.0
    database.prepare()
    timetables = asyncio.run(_put(database.dsn))
    every = Every(seconds=DECLARED_EVERY)
    timetables |= {declared_name(number): every for number in range(DECLARED)}
    logs = folder / "logs"
    logs.mkdir()
    with fork_server(folder) as parent:
        pids = [parent.spawn(database.dsn, logs, **SETTINGS) for _ in range(WORKERS)]
        strikes = _strike(parent, pids, database, logs, seconds)
        time.sleep(1.5)  # the last ticks
        for pid in pids:
            kill(pid, signal.SIGTERM)
        stuck = wait_until_gone(pids, 40)
        run.check(not stuck, f"{database.kind}: {len(stuck)} workers did not stop")
        run.check(not parent.crashes(), f"{database.kind}: {parent.crashes()}")
    run.figure(f"{database.kind}: interruptions", dict(strikes))
    _check(run, database, timetables)


def _strike(
    parent: ForkServer, pids: list[int], database: Database, logs: Path, seconds: float
) -> Counter[str]:
    """Kill and freeze workers for so long; then all of them run."""
    strikes: Counter[str] = Counter()
    frozen: dict[int, float] = {}
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end or frozen:
        for pid in [pid for pid, until in frozen.items() if until <= now]:
            del frozen[pid]
            kill(pid, signal.SIGCONT)
        place = random.randrange(WORKERS)
        if now < end and pids[place] not in frozen:
            if random.random() < 0.25:
                strikes["freezes"] += 1
                kill(pids[place], signal.SIGSTOP)
                frozen[pids[place]] = now + random.uniform(0.2, LEASE)
            else:
                strikes["kills"] += 1
                kill(pids[place])
                pids[place] = parent.spawn(database.dsn, logs, **SETTINGS)
        # Now and then long enough for a worker to run a while.
        time.sleep(random.choice((0.02, 0.1, 0.3, 1.0)))
    return strikes


async def _read(dsn: str) -> tuple[list[ScheduleRecord], list[JobRecord]]:
    """All schedules, and all jobs that they started."""
    jobs: list[JobRecord] = []
    async with Work(dsn).app as app:
        schedules = await app.schedules.list()
        cursor: str | None = None
        while True:
            page = await app.list(cursor=cursor, limit=200)
            jobs += [job for job in page.jobs if job.schedule is not None]
            cursor = page.cursor
            if cursor is None:
                return schedules, jobs


def _check(run: PartRun, database: Database, timetables: dict[str, Every]) -> None:
    schedules, jobs = asyncio.run(_read(database.dsn))
    names = {schedule.name for schedule in schedules}
    run.check(names == timetables.keys(), f"{database.kind}: schedules are missing")
    sums: Counter[str] = Counter()
    for schedule in schedules:
        name, created, waiting = schedule.name, schedule.created_at, schedule.waiting_tick
        interval, anchor = timetables[name].interval, timetables[name].anchor
        last = schedule.next_at if waiting is None else waiting + interval
        passed = _index(last, anchor, interval) - _index(created, anchor, interval) - 1
        own = [job for job in jobs if job.schedule == name]
        ticks = Counter(job.scheduled_for for job in own if job.scheduled_for is not None)
        wrong = [tick for tick in ticks if (tick - anchor) % interval or not created < tick < last]
        fired, skipped = schedule.fired, schedule.skipped
        what = f"{database.kind}: {name}: {passed} ticks, {fired} fired, {skipped} skipped"
        run.check(not wrong, f"{what}: jobs for {wrong[:3]}")
        run.check(ticks.total() == len(ticks), f"{what}: {ticks.most_common(3)}")
        run.check(fired == len(ticks), f"{what}: {len(ticks)} jobs")
        run.check(fired + skipped + (waiting is not None) == passed, what)
        early = [
            job for job in own if job.scheduled_for is None or job.created_at < job.scheduled_for
        ]
        run.check(not early, f"{what}: early {early[:3]}")
        complete = name.startswith("declared") or _is_complete(int(name.rpartition("-")[2]))
        run.check(not (complete and skipped), what)
        sums.update({"ticks": passed, "fired": fired, "skipped": skipped})
    run.check(sums["fired"] > 0, f"{database.kind}: nothing was fired")
    run.figure(f"{database.kind}: schedules", len(schedules))
    run.figure(f"{database.kind}: ticks", dict(sums))


def _index(moment: datetime, anchor: datetime, interval: timedelta) -> int:
    """Number of the last tick at or before a moment."""
    return (moment - anchor) // interval
