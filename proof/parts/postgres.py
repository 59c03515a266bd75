"""Part postgres: under load, the server is killed, shut down in a hurry, and drops its clients."""

from __future__ import annotations

import time
from contextlib import suppress

import psycopg

from proof.tools.databases import PostgresPlace
from proof.tools.report import Trial
from proof.tools.worker_group import herd
from tests.support.servers.postgres import PostgresServer

WORKERS = 3
RESUMED = 5.0
"""Seconds after the server is back."""
KINDS = ("kill -9", "immediate shutdown", "pg_terminate_backend")
STORM = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid <> pg_backend_pid() and backend_type = 'client backend'
"""


def prove(trial: Trial) -> None:
    crashes = 4 if trial.short else 25
    with PostgresServer(durable=True) as server:
        place = PostgresPlace(server.url(server.create_database()))
        with herd(trial, place, lease_for=5.0, concurrency=10) as workers:
            for _ in range(WORKERS):
                workers.spawn()
            workers.produce()
            trial.check(workers.wait_for_progress(20) is not None, "nothing was done to begin with")
            resumed: list[float] = []
            for number in range(crashes):
                kind = KINDS[number % len(KINDS)]
                workers.keep_up(WORKERS)
                _strike(server, kind)
                seconds = workers.wait_for_progress(30)
                if trial.check(seconds is not None, f"nothing was done after {kind}"):
                    resumed.append(round(seconds or 0.0, 2))
                    trial.say(f"{kind}: resumed {resumed[-1]} s after the server was back")
                pause = time.monotonic() + 0.5
                while time.monotonic() < pause:
                    workers.look()
                    time.sleep(0.1)
            workers.drain(120)
            workers.stop()
            workers.balance("books")
            trial.figure("crashes", crashes)
            trial.figure("resumed after s", {"max": max(resumed), "all": resumed})
            trial.check(max(resumed) <= RESUMED, f"workers resumed only after {max(resumed)} s")
            trial.figure("starts not answered", workers.ledger.refused)


def _strike(server: PostgresServer, kind: str) -> None:
    match kind:
        case "kill -9":
            server.kill()
            time.sleep(0.3)
            server.start()
        case "immediate shutdown":
            server.quit()
            time.sleep(0.3)
            server.start()
        case _:
            with suppress(psycopg.Error), psycopg.connect(server.url(), autocommit=True) as admin:
                for _ in range(5):
                    admin.execute(STORM)
                    time.sleep(0.05)
