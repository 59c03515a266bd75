"""A change that adds a statement, a round trip or a row per job fails here, on any machine.

The bounds leave room for batches that come out smaller than they could; they leave none for
anything that is done once per job.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headway import Headway
from tests.support.servers.postgres import PostgresServer
from tests.system.performance.meter import Cost, metered

pytestmark = pytest.mark.alone  # a busy machine makes batches small

FEW, MANY = 1_000, 3_000
"""Draining both, and looking at the difference, leaves out what a worker costs by itself."""
CONNECTION = 4
"""Round trips of one connection more: being set up, and statements that are prepared on it."""
COPY = 3
"""Statements around a COPY: it has a transaction, and asks when that began."""


@pytest.fixture(scope="module")
def counting_server() -> Iterator[PostgresServer]:
    """A server that counts statements."""
    with PostgresServer() as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
            connection.execute("alter system set pg_stat_statements.track_utility = on")
        server.stop()
        server.start()
        with psycopg.connect(server.url("template1"), autocommit=True) as connection:
            connection.execute("create extension pg_stat_statements")
        yield server


@pytest.fixture
async def url(counting_server: PostgresServer) -> str:
    """A database with the schema in it."""
    url = counting_server.url(counting_server.create_database())
    await Headway(url).store.migrate()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("alter table headway.job set (autovacuum_enabled = off)")
    return url


class Work:
    def __init__(self, url: str) -> None:
        self.app = Headway(url)

        @self.app.job
        async def noop(n: int, text: str) -> None:
            pass

        self.noop = noop


async def start(url: str, count: int) -> None:
    work = Work(url)
    async with work.app as app:
        await app.start_many([work.noop.request(n, "x" * 100) for n in range(count)])


async def drain(url: str, count: int) -> Cost:
    """What a worker costs that finds `count` jobs and stops when they are done."""
    await start(url, count)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum analyze headway.job")
    async with metered(url) as (proxied, cost), Work(proxied).app as app:
        await app.worker(concurrency=100).run(drain=True)
    return cost


async def started(url: str, *counts: int) -> Cost:
    """What it costs to start so many jobs, each number with one call."""
    async with metered(url) as (proxied, cost):
        work = Work(proxied)
        async with work.app as app:
            for count in counts:
                requests = [work.noop.request(n, "x" * 100) for n in range(count)]
                if count == 1:
                    await app.start(requests[0])
                else:
                    await app.start_many(requests)
    return cost


async def test_draining_costs_statements_per_batch_not_per_job(url: str) -> None:
    few, many = await drain(url, FEW), await drain(url, MANY)
    jobs = MANY - FEW
    said = f"{FEW}: {few}\n{MANY}: {many}"

    assert few.statements <= 0.05 * FEW, said
    assert many.statements - few.statements <= 0.03 * jobs, said
    assert many.round_trips - few.round_trips <= 0.03 * jobs, said
    assert many.transactions - few.transactions <= 0.03 * jobs, said


async def test_draining_writes_a_job_twice_and_reads_little_more(url: str) -> None:
    few, many = await drain(url, FEW), await drain(url, MANY)
    jobs = MANY - FEW
    said = f"{FEW}: {few}\n{MANY}: {many}"

    # It is claimed and it is completed.
    assert 2 * jobs <= many.written - few.written <= 2.02 * jobs, said
    # Found by the claim, and by id for its completion: none of a backlog's other jobs.
    assert many.read - few.read <= 2.5 * jobs, said


async def test_start_is_one_statement_and_its_notification(url: str) -> None:
    one, eleven = await started(url, 1), await started(url, *[1] * 11)
    said = f"1: {one}\n11: {eleven}"

    assert calls(eleven, "insert into") == 11, said
    assert calls(eleven, "pg_notify") <= 11, said
    assert eleven.statements - one.statements <= 20, said
    assert eleven.transactions - one.transactions <= 20 + CONNECTION, said
    assert eleven.round_trips - one.round_trips <= 20 + CONNECTION, said
    assert eleven.written - one.written == 10, said


async def test_starting_a_thousand_costs_what_starting_one_does(url: str) -> None:
    one, thousand = await started(url, 1), await started(url, 1_000)
    said = f"1: {one}\n1,000: {thousand}"

    assert calls(thousand, "from stdin") == 1, said
    assert thousand.statements - one.statements <= COPY + 1, said
    assert thousand.transactions - one.transactions <= 1 + CONNECTION, said
    assert thousand.round_trips - one.round_trips <= COPY + 2 + CONNECTION, said
    assert thousand.written == 1_000, said


def calls(cost: Cost, part: str) -> int:
    """How often statements with that part in them were run."""
    return sum(count for sql, count in cost.calls.items() if part in sql)
