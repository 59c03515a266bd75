"""What there is for operators costs jobs that succeed nothing."""

from __future__ import annotations

import psycopg

from headway import Headway

EMPTY = {"job_stopped": 8_192, "job_failed": 8_192, "progress": 0, "audit": 0}
"""Bytes: an index that nothing has entered is its one first page."""


async def test_jobs_that_succeed_enter_no_index_of_failures(postgres_url: str) -> None:
    app = Headway(postgres_url, migrate=True)

    @app.job
    async def charge(order_id: int) -> int:
        if order_id < 0:
            raise ValueError(order_id)
        return order_id

    async with app:
        await app.start_many([charge.request(n) for n in range(50)])
        await app.worker().run(drain=True)
        await app.questions.overview()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            assert sizes(connection) == EMPTY
            await app.start(charge.request(-1), max_attempts=1)
            await app.worker().run(drain=True)
            found = sizes(connection)
            assert found["job_stopped"] > EMPTY["job_stopped"]
            assert found["job_failed"] > EMPTY["job_failed"]


def sizes(connection: psycopg.Connection) -> dict[str, int]:
    rows = connection.execute(
        """select relname, pg_relation_size(c.oid) from pg_class c
        join pg_namespace n on n.oid = relnamespace
        where nspname = 'headway' and relname = any(%s)""",
        (list(EMPTY),),
    ).fetchall()
    return dict(rows)
