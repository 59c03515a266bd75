"""Part limits: simulated workers; and real ones, which are killed and frozen, also while they hold
the lock of a claim, and whose limits are overridden meanwhile. No limit is ever exceeded, permits
come back, and nothing is stuck."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from proof.limits.auditor import Auditor
from proof.limits.checks import SETTINGS, check_record, drain
from proof.limits.handlers import most_at_once
from proof.limits.load import Load, Pace
from proof.limits.record import Playback, watch
from proof.limits.workers import Workers
from proof.simulation.limits import phases
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase
from proof.tools.fork_server import fork_server
from proof.tools.part_run import PartRun
from tests.support.servers.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
CORES = 2
WORKERS = 4
PACE = Pace(seconds=0.05, waiting=60, change_every=0.7)
ENDED = "select count(*) from permit where what = 'end' and queue = 'capped'"
IN_CLAIMS = 0.003
"""How often a worker is struck after a step of a claim."""


def prove(run: PartRun) -> None:
    _simulate(run)
    with tempfile.TemporaryDirectory() as folder:
        _interrupt(run, SqliteDatabase(f"{folder}/proof.db"), Path(folder))
    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        _interrupt(run, PostgresDatabase(server.url(server.create_database())), Path(folder))
        log = server.log()
        run.check("deadlock" not in log, "postgres: a deadlock is in the server's log")


def _simulate(run: PartRun) -> None:
    count = 3 if run.short else 60
    with ThreadPoolExecutor(CORES) as pool:
        answers = list(pool.map(lambda n: _histories(run.seed + n * count, count), range(CORES)))
    sums: Counter[str] = Counter()
    kills: Counter[str] = Counter()
    for answer in answers:
        run.check("histories" in answer, json.dumps(answer))
        kills.update(answer.pop("kills", {}))
        sums.update({name: value for name, value in answer.items() if isinstance(value, int)})
    run.figure("simulated", dict(sums))
    run.figure("simulated kills", dict(kills))
    spared = [phase for phase in phases() if not kills[phase]]
    run.check(run.short or not spared, f"no worker was killed {spared}")


def _histories(first: int, count: int) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "proof.simulation.limits"]
    command += ["--first", str(first), "--histories", str(count)]
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


def _interrupt(run: PartRun, database: Database, folder: Path) -> None:
    database.prepare()
    watch(database)
    logs = folder / "logs"
    logs.mkdir()
    with fork_server(folder) as parent:
        workers = Workers(parent, database, logs, WORKERS, **SETTINGS)
        load = Load(database, PACE)
        auditor = Auditor(database, 0.01)
        _wait_for_work(workers, database, 50 if run.short else 500)
        calm_until = time.time()
        seconds = 5.0 if run.short else 40.0
        # Kills first: a process that is frozen may hold a lock, and then nobody can recover.
        workers.settings["killed_in_claims"] = IN_CLAIMS
        _strike(workers, workers.kill_one, seconds)
        workers.settings |= {"killed_in_claims": 0.0, "frozen_in_claims": IN_CLAIMS}
        workers.renew()
        _strike(workers, workers.freeze_one, seconds)
        drain(run, database, load, workers)
        auditor.stop()
        run.check(not parent.crashes(), f"{database.kind}: {parent.crashes()}")
    for name, found in (("load", load.error), ("auditor", auditor.error)):
        run.check(found is None, f"{database.kind}: the {name} failed: {found!r}")
    playback = check_record(run, database, workers, auditor, calm_until=calm_until)
    _check_handlers(run, database, logs, workers, playback)


def _wait_for_work(workers: Workers, database: Database, count: int) -> None:
    """Until so many jobs of the queue with a cap have ended."""
    deadline = time.monotonic() + 60
    while database.ask(ENDED)[0][0] < count and time.monotonic() < deadline:
        workers.look_for(0.2)


def _strike(workers: Workers, strike: Callable[[], None], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        # Now and then long enough for a worker to run a while.
        workers.look_for(random.choice((0.02, 0.1, 0.3, 1.0, 2.0)))
        strike()


def _check_handlers(
    run: PartRun, database: Database, logs: Path, workers: Workers, playback: Playback
) -> None:
    """The handlers' own logs. The highest cap counts: when it held, the record tells."""
    most = most_at_once(logs, database, workers)
    for (queue, limit), cap in playback.highest.items():
        by_key = limit == "per_key"
        seen = max(
            (
                count
                for (place, key), count in most.items()
                if place == queue and by_key == (key is not None)
            ),
            default=0,
        )
        what = f"{database.kind}: handlers of {queue} at once, {limit}"
        run.check(0 < seen <= cap, f"{what}: {seen} of {cap}")
