"""Every statement is valid SQL in its database, and the hot ones are planned as meant."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from headway.stores.postgres import PostgresStore
from headway.stores.postgres.connections import SETTINGS
from headway.stores.sql.sql_files import load_statements
from headway.stores.sqlite import SqliteStore

POSTGRES = load_statements("headway.stores.postgres", '"headway".')
del POSTGRES["copy"]  # COPY cannot be prepared: test_copying.py runs it
SQLITE = load_statements("headway.stores.sqlite", "headway_")


async def test_every_postgres_statement_can_be_prepared(postgres_url: str) -> None:
    await PostgresStore(postgres_url).migrate()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name, sql in POSTGRES.items():
            connection.execute(f"prepare {name} as {sql}".encode())


async def test_every_postgres_statement_can_be_prepared_on_the_other_version(
    second_postgres_url: str,
) -> None:
    await PostgresStore(second_postgres_url).migrate()
    with psycopg.connect(second_postgres_url, autocommit=True) as connection:
        for name, sql in POSTGRES.items():
            connection.execute(f"prepare {name} as {sql}".encode())


async def test_every_sqlite_statement_can_be_prepared(sqlite_path: Path) -> None:
    await SqliteStore(sqlite_path).migrate()
    with closing(sqlite3.connect(sqlite_path)) as connection:
        for sql in SQLITE.values():
            count = max((n for n in range(1, 30) if f"?{n}" in sql), default=0)
            connection.execute(f"explain {sql}", {str(n): None for n in range(1, count + 1)})


def test_both_stores_know_the_same_verbs() -> None:
    only_postgres = {
        "lock_keys",
        "lock_jobs",
        "delete_keys",
        "complete_continued",
    }
    only_sqlite = {
        "delete_attempts",
        "delete_blockers",
        "delete_progress",
        "insert_following",
        "limited",
    }
    assert POSTGRES.keys() - only_postgres == SQLITE.keys() - only_sqlite


LANE = """array['default'], array[0]::smallint[], array['2001-01-01']::timestamptz[], array[100],
    null, 30, gen_random_uuid(), 'w', array['t'], 100, null, false"""
IDS = ", ".join(f"'{uuid4()}'" for _ in range(100))
NOTHING = "array_fill(null::text, array[100])"
DONE = f"array[{IDS}]::uuid[], array[{IDS}]::uuid[], {NOTHING}, null"
FOLLOWING = f"""array[{IDS}]::uuid[], array_fill('{{}}'::text, array[100]), array[{IDS}]::uuid[],
    array[{IDS}]::uuid[], {NOTHING}, {NOTHING}, array[{IDS}]::uuid[], array_fill(1, array[100]),
    {NOTHING}"""
CONTINUED = f"""array[{IDS}]::uuid[], array[{IDS}]::uuid[], {NOTHING}, {FOLLOWING}, null, null, 0,
    't', 'default', 0::smallint, 4, 5, null, null"""


@pytest.mark.long
@pytest.mark.slow
async def test_hot_plans_are_right_at_any_size(postgres_url: str) -> None:
    """Prepared while the table is empty, used when it holds a million rows."""
    await PostgresStore(postgres_url).migrate()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(SETTINGS)
        for name in (
            "claim",
            "complete",
            "complete_continued",
            "priorities",
            "extend",
            "expired",
            "repeat_claim",
        ):
            connection.execute(f"prepare {name} as {POSTGRES[name]}".encode())
        for rows in (0, 1_000_000):
            _fill(connection, rows)
            claim = _explain(connection, f"claim({LANE})")
            assert "Index Scan using job_pending" in claim
            assert "Tid Scan" in claim
            assert "Sort" not in claim
            complete = _explain(connection, f"complete({DONE})")
            assert "Index Scan using job_pkey" in complete
            continued = _explain(connection, f"complete_continued({CONTINUED})")
            assert "Index Scan using job_pkey" in continued
            extend = _explain(
                connection, f"extend(array[{IDS}]::uuid[], array[{IDS}]::uuid[], null, 30, false)"
            )
            assert "Index Scan using job_pkey" in extend
            priorities = _explain(connection, "priorities(array['default'])")
            assert "job_pending" in priorities
            expired = _explain(connection, "expired(null, 100, 1e9)")
            assert "Index Scan using job_running" in expired
            assert expired.count("lease_until") >= 2, "both ends are found in the index"
            reclaim = _explain(connection, "repeat_claim(null, 30, gen_random_uuid())")
            assert "Index Scan using job_running" in reclaim
            for plan in (claim, complete, continued, extend, priorities, expired, reclaim):
                assert "Seq Scan on job" not in plan
                assert "Bitmap Heap Scan on job" not in plan


KEYED = """
    insert into headway.job (
        id, sequence_id, root_id, run_at, created_at, position, max_losses, priority, state, type,
        queue, input, key
    )
    select id, id, id, now() - interval '1 hour' + n * interval '1 ms', now(), 0, 5, 0, 'pending',
        't', 'default', '{}', case when n <= 50000 then 'hot' else 'small-' || n % 1000 end
    from (select gen_random_uuid() as id, n from generate_series(1, 60000) n offset 0) new
"""
"""One key's backlog, ahead of a thousand keys with ten jobs each."""
SMALL = ", ".join(f"'small-{n}'" for n in range(100))
DUE = "'default', 0::smallint, null, array['t'], null"
ANY_TIME = "array[null::timestamptz]"
ONE_OF_EACH = "array_fill(1, array[100]), array_fill(null::timestamptz, array[100])"
LEASE = "30, gen_random_uuid(), 'w'"
BY_KEY = {
    f"claim_keys(array[{SMALL}], {ONE_OF_EACH}, {DUE}, 100, 0, {LEASE})": 3_000,
    f"claim_keys(array['hot'], array[100], {ANY_TIME}, {DUE}, 100, 0, {LEASE})": 3_000,
    f"keys_in_turn({DUE}, 100, 'hot', null, '{{}}'::text[])": 1_500,
    f"keys_in_turn({DUE}, 100, '', 'small-2', array['hot'])": 1_500,
    f"keys_in_order({DUE}, 600)": 100,
    "running_keys('default', true)": 100,
    "priorities(array['default'])": 100,
}
"""Calls, and the most pages of the database that each may read. The backlog has over 2,000, and
reading it job by job takes 50,000."""


@pytest.mark.slow
async def test_claims_by_key_do_not_read_the_backlog_of_a_key(postgres_url: str) -> None:
    """Prepared while the table is empty; planned anew without statistics, and with them."""
    await PostgresStore(postgres_url).migrate()
    names = {call.partition("(")[0] for call in BY_KEY}
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(SETTINGS)
        connection.execute("alter table headway.job set (autovacuum_enabled = off)")
        for name in names:
            connection.execute(f"prepare {name} as {POSTGRES[name]}".encode())
        for call in BY_KEY:
            _explain(connection, call)
        connection.execute(KEYED)
        for before in ("", "discard plans", "vacuum analyze headway.job"):
            connection.execute(before.encode())
            for call, most in BY_KEY.items():
                plan, pages = _analyzed(connection, call)
                assert pages < most, plan


def _analyzed(connection: psycopg.Connection, call: str) -> tuple[str, int]:
    """The plan of a call that is run and undone, and the pages that it has read."""
    with connection.transaction(force_rollback=True):
        rows = connection.execute(f"explain (analyze, buffers) execute {call}".encode()).fetchall()
    plan = "\n".join(str(row[0]) for row in rows)
    found = re.search(r"Buffers: shared hit=(\d+)(?: read=(\d+))?", plan)
    assert found is not None
    return plan, int(found[1]) + int(found[2] or 0)


@pytest.mark.parametrize("analyzed", [False, True])
async def test_sqlite_claims_by_key_along_the_index_of_keys(
    sqlite_path: Path, analyzed: bool
) -> None:
    await SqliteStore(sqlite_path).migrate()
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.executemany(
            "insert into headway_job (id, sequence_id, root_id, run_at, created_at, position,"
            " max_losses, priority, state, type, queue, input, key)"
            " values (?1, ?1, ?1, 0, 0, 0, 5, 0, 'pending', 't', 'default', '{}', ?2)",
            [(str(uuid4()), "hot" if n < 1000 else f"small-{n}") for n in range(1100)],
        )
        if analyzed:
            connection.execute("analyze")
        for name, places in (("claim_keys", 1), ("keys_in_turn", 3)):
            count = max(n for n in range(1, 30) if f"?{n}" in SQLITE[name])
            rows = connection.execute(
                f"explain query plan {SQLITE[name]}", {str(n): None for n in range(1, count + 1)}
            )
            plan = "\n".join(row[3] for row in rows)
            index = "USING INDEX headway_job_keyed (queue=? AND priority=? AND key"
            assert plan.count(index) == places, plan


SCHEDULES = """
    insert into headway.schedule
        (name, definition, declaration, next_at, paused_at, created_at, changed_at)
    select %s || n, '{}', %s, now() + %s * interval '1 hour', %s, now(), now()
    from generate_series(1, %s) n
"""


@pytest.mark.long
@pytest.mark.slow
async def test_looks_at_schedules_use_the_index_at_any_size(postgres_url: str) -> None:
    """Prepared while the table is empty. Paused schedules are not in the index; orphaned ones,
    which stay in the past, are read by each look."""
    await PostgresStore(postgres_url).migrate()
    calls = {
        "due_schedules": "due_schedules(array['mine'], 500, null)",
        "next_schedule": "next_schedule(array['mine'], null)",
        "save_worker": "save_worker('w', '', 1, '[]', '[]', 1, 0, null, '{}', array['mine'], null)",
    }
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(SETTINGS)
        for name in calls:
            connection.execute(f"prepare {name} as {POSTGRES[name]}".encode())
        for kind in (
            None,
            ("put-", None, 1, None, 100_000),
            ("orphaned-", "fingerprint", -1, None, 1_000),
            ("paused-", None, -1, "2026-01-01", 100_000),
        ):
            if kind is not None:
                connection.execute(SCHEDULES, kind)
                connection.execute("vacuum analyze headway.schedule")
            for call in calls.values():
                plan = _explain(connection, call)
                assert "Index Scan using schedule_due on schedule" in plan, plan
                assert "Sort" not in plan
        looks = [_explain(connection, call, "(analyze)") for call in calls.values()]
        for plan in looks:
            assert re.findall(r"Rows Removed by Filter: (\d+)", plan) == ["1000"], "the orphaned"


def _fill(connection: psycopg.Connection, rows: int) -> None:
    """Half of them done, the rest waiting."""
    if not rows:
        return
    connection.execute(
        """
        insert into headway.job (id, sequence_id, root_id, run_at, created_at, finished_at,
            position, max_losses, priority, state, type, queue, input)
        select id, id, id, now() - interval '1 hour' + n * interval '1 ms', now(),
            case when n %% 2 = 0 then now() end, 0, 5, 0,
            case when n %% 2 = 0 then 'completed' else 'pending' end, 't', 'default', '{}'
        from (select gen_random_uuid() as id, n from generate_series(1, %s) n) made
        """,
        (rows,),
    )
    connection.execute("vacuum analyze headway.job")


def _explain(connection: psycopg.Connection, call: str, options: str = "") -> str:
    rows = connection.execute(f"explain {options} execute {call}".encode()).fetchall()
    return "\n".join(row[0] for row in rows)
