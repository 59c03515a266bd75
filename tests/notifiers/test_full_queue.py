"""PostgreSQL keeps notifications until the slowest listener has read them, and when the queue is
full, transactions with a NOTIFY cannot commit. Notifications are left out before that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from headway import Headway
from tests.support.servers.postgres import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def url() -> Iterator[str]:
    """A server whose queue of notifications is full, and stays so."""
    with PostgresServer() as server:
        if server.major < 17:
            pytest.skip("NOT VERIFIED: a queue of 8 GB takes too long to fill")
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("alter system set max_notify_queue_pages = 64")
        server.stop()
        server.start()
        url = server.url(server.create_database())
        with (
            psycopg.connect(url) as sleeper,
            psycopg.connect(url, autocommit=True) as talker,
        ):
            sleeper.execute("listen something")
            sleeper.commit()
            sleeper.execute("select 1")  # a listener hears nothing while its transaction is open
            with pytest.raises(psycopg.OperationalError, match="too many notifications"):
                for number in range(1_000):
                    talker.execute("select pg_notify('something', %s)", (f"{number:07900}",))
            yield url


async def test_a_callers_commit_succeeds_and_the_job_is_run(url: str) -> None:
    app = Headway(url, migrate=True)

    @app.job
    async def double(number: int) -> int:
        return 2 * number

    async with app:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            started = await app.start(double.request(7), tx=connection)
            await connection.commit()
        other = await app.start(double.request(8))
        worker = app.worker()
        await worker.start()
        async with asyncio.timeout(30):
            assert await started.result() == 14
            assert await other.result() == 16
        await worker.stop()
