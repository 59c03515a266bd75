"""The database is killed under load: nothing acknowledged is lost, workers go on by themselves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from proof.tools.databases import PostgresDatabase, left
from tests.support.servers.postgres import PostgresServer
from tests.system.kills.test_kills import check_completions, completions, start_jobs, start_worker

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.alone]

CRASHES = 4
RECOVERY = 10.0


@pytest.mark.timeout(180)
def test_workers_survive_crashes_of_the_database() -> None:
    with PostgresServer(durable=True) as server:
        database = PostgresDatabase(server.url(server.create_database()))
        database.prepare()
        started = asyncio.run(start_jobs(database.dsn))
        workers = [start_worker(database.dsn) for _ in range(2)]
        try:
            for _ in range(CRASHES):
                before = left(database)
                while left(database) > before - 300 > 0:
                    time.sleep(0.05)
                server.kill()
                time.sleep(0.3)  # the workers notice
                server.start()
                before = left(database)
                back = time.monotonic()
                while before and left(database) == before:
                    assert time.monotonic() - back < RECOVERY, "the workers did not come back"
                    time.sleep(0.05)
            deadline = time.monotonic() + 60
            while left(database):
                assert time.monotonic() < deadline, f"{left(database)} jobs are left"
                time.sleep(0.1)
        finally:
            for worker in workers:
                worker.terminate()
            codes = [worker.wait(30) for worker in workers]
        check_completions(started, completions(database))
        assert Counter(codes) == {0: 2}
