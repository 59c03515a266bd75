"""The database is killed under load: nothing acknowledged is lost, workers go on by themselves."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter

import pytest

from tests.support.servers.postgres import PostgresServer
from tests.system.kills.test_kills import Postgres, check_completions, start_jobs, start_worker

pytestmark = [pytest.mark.slow, pytest.mark.alone]

CRASHES = 4
RECOVERY = 10.0


@pytest.mark.timeout(180)
def test_workers_survive_crashes_of_the_database() -> None:
    with PostgresServer(durable=True) as server:
        database = Postgres(server.url(server.create_database()))
        os.environ["KILLS_DSN"] = database.dsn
        started = asyncio.run(start_jobs(database))
        workers = [start_worker() for _ in range(2)]
        try:
            for _ in range(CRASHES):
                left = database.left()
                while database.left() > left - 300 > 0:
                    time.sleep(0.05)
                server.kill()
                time.sleep(0.3)  # the workers notice
                server.start()
                left = database.left()
                back = time.monotonic()
                while left and database.left() == left:
                    assert time.monotonic() - back < RECOVERY, "the workers did not come back"
                    time.sleep(0.05)
            deadline = time.monotonic() + 60
            while database.left():
                assert time.monotonic() < deadline, f"{database.left()} jobs are left"
                time.sleep(0.1)
        finally:
            for worker in workers:
                worker.terminate()
            codes = [worker.wait(30) for worker in workers]
        check_completions(started, database.completions())
        assert Counter(codes) == {0: 2}
