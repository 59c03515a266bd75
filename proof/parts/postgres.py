"""Part postgres: under load, the server is killed, shut down in a hurry, and drops its clients."""

from __future__ import annotations

import time
from contextlib import suppress

import psycopg

from proof.tools.databases import PostgresDatabase
from proof.tools.part_run import PartRun
from proof.tools.worker_group import worker_group
from tests.support.servers.postgres import PostgresServer

WORKERS = 3
RESUMED = 5.0
"""Seconds after the server is back."""
KINDS = ("kill -9", "immediate shutdown", "pg_terminate_backend")
STORM = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where pid <> pg_backend_pid() and backend_type = 'client backend'
"""


def prove(run: PartRun) -> None:
    crashes = 4 if run.short else 25
    with PostgresServer(durable=True) as server:
        database = PostgresDatabase(server.url(server.create_database()))
        with worker_group(run, database, lease_for=5.0, concurrency=10) as workers:
            for _ in range(WORKERS):
                workers.spawn()
            workers.produce()
            run.check(workers.wait_for_progress(20) is not None, "nothing was done to begin with")
            resumed: list[float] = []
            for number in range(crashes):
                kind = KINDS[number % len(KINDS)]
                workers.keep_up(WORKERS)
                _strike(server, kind)
                seconds = workers.wait_for_progress(30)
                if run.check(seconds is not None, f"nothing was done after {kind}"):
                    resumed.append(round(seconds or 0.0, 2))
                    run.say(f"{kind}: resumed {resumed[-1]} s after the server was back")
                pause = time.monotonic() + 0.5
                while time.monotonic() < pause:
                    workers.look()
                    time.sleep(0.1)
            workers.drain(120)
            workers.stop()
            workers.check_invariants("invariants")
            run.figure("crashes", crashes)
            run.figure("resumed after s", {"max": max(resumed), "all": resumed})
            run.check(max(resumed) <= RESUMED, f"workers resumed only after {max(resumed)} s")
            run.figure("starts not answered", workers.start_log.refused)


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
