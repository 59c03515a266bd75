"""Part limit_load: a mixed load on PostgreSQL for an hour, of queues with caps, rates, keys and
holds, while workers are killed and frozen and limits overridden. It is as fast in the end as in the
beginning, no limit is exceeded, and nothing is stuck."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from proof.limits.auditor import Auditor
from proof.limits.checks import SETTINGS, check_record, drain
from proof.limits.load import Load, Pace
from proof.limits.record import watch
from proof.limits.workers import Workers
from proof.tools.databases import PostgresDatabase, left
from proof.tools.fork_server import fork_server
from proof.tools.part_run import PartRun
from tests.support.servers.postgres import PostgresServer

WORKERS = 3
PACE = Pace(seconds=1.2, waiting=40, change_every=5.0, look_every=0.5)
STRIKE_EVERY = 10.0
"""Seconds; kills and freezes take turns."""
COMPARED = 600.0
"""Seconds at the beginning and at the end whose throughput is compared."""
LEAST = 0.9
WARM_UP = 5.0
IN_CLAIMS = 0.00005
"""How often a worker is struck after a step of a claim: each minute or two."""


def prove(run: PartRun) -> None:
    minutes = 0.5 if run.short else run.minutes
    with PostgresServer(durable=True) as server, tempfile.TemporaryDirectory() as folder:
        database = PostgresDatabase(server.url(server.create_database()))
        database.prepare()
        watch(database)
        _load(run, database, Path(folder), minutes * 60)
        log = server.log()
        run.check("deadlock" not in log, "a deadlock is in the server's log")
        run.figure("ended sessions in the server's log", log.count("idle-in-transaction timeout"))


def _load(run: PartRun, database: PostgresDatabase, folder: Path, seconds: float) -> None:
    logs = folder / "logs"
    logs.mkdir()
    with fork_server(folder) as parent:
        in_claims = {"killed_in_claims": IN_CLAIMS, "frozen_in_claims": IN_CLAIMS}
        settings = {**SETTINGS, **in_claims, "noted": False}
        workers = Workers(parent, database, logs, WORKERS, **settings)
        load = Load(database, PACE)
        auditor = Auditor(database, 0.1)
        began = time.time()
        strike_at, said = began + WARM_UP, began
        while (now := time.time()) < began + seconds:
            workers.look()
            if now >= strike_at:
                strike_at += STRIKE_EVERY
                if workers.strikes.total() % 2:
                    workers.freeze_one()
                else:
                    workers.kill_one()
            if now - said > 60:
                said = now
                run.say(f"{load.started} jobs, {left(database)} left, {auditor.samples} samples")
            time.sleep(0.05)
        ended = time.time()
        drain(run, database, load, workers)
        auditor.stop()
        run.check(not parent.crashes(), f"{parent.crashes()}")
    run.check(load.error is None, f"the load failed: {load.error!r}")
    run.check(auditor.error is None, f"the auditor failed: {auditor.error!r}")
    run.figure("overrides", load.changes)
    playback = check_record(run, database, workers, auditor, calm_until=ended)
    compared = min(COMPARED, (ended - began) / 3)
    first = began + WARM_UP
    rates = [
        sum(start <= at < start + compared for at in playback.ends) / compared
        for start in (first, ended - compared)
    ]
    run.figure("jobs per second, first and last", [round(rate, 1) for rate in rates])
    run.figure("seconds compared", round(compared))
    if not run.short:
        run.check(rates[1] >= LEAST * rates[0], f"jobs per second went from {rates}")
