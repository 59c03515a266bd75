"""Stores with very many jobs, made by SQL: a shop that has run for two hours.

Of a hundred jobs two have failed, five wait (a third of them for tomorrow), a few run, are blocked
or were cancelled, and the rest are done. Ids follow time, as those of real jobs do.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import psycopg

from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore

_STATE = """case
    when n % 50 = 0 then 'failed' when n % 20 = 1 then 'pending' when n % 2000 = 2 then 'running'
    when n % 200 = 3 then 'cancelled' when n % 500 = 4 then 'blocked' else 'completed' end"""
_INPUT = """'{"order_id":' || n || ',"note":"some text that makes it longer, and longer still"}'"""
_ERROR = """'{"type":"ValueError","message":"no such order ' || n || '","traceback":"…"}'"""

_COLUMNS = """id, sequence_id, root_id, run_at, created_at, started_at, finished_at, position,
    max_losses, priority, state, type, queue, input, worker, last_error, fingerprint, waiting,
    lease_token, lease_until"""

POSTGRES = f"""
insert into headway.job ({_COLUMNS})
select
    id, id, id,
    made + case when state = 'pending' and n % 3 = 0 then interval '1 day' else interval '0' end,
    made, case when state in ('running', 'completed', 'failed') then made + interval '0.2 s' end,
    case when state in ('completed', 'failed', 'cancelled') then made + interval '0.3 s' end,
    0, 5, n % 2, state, 'type' || (n % 7), 'queue' || (n % 5), {_INPUT},
    case when state in ('running', 'completed', 'failed') then 'worker' || (n % 3) end,
    case when state = 'failed' then {_ERROR} end,
    case when state = 'failed' then lpad(to_hex(n % 400), 12, '0') end,
    case when state = 'blocked' then 1 else 0 end,
    case when state = 'running' then gen_random_uuid() end,
    case when state = 'running' then now() + interval '1 h' end
from (
    select n, made, {_STATE} as state, (
        lpad(to_hex((extract(epoch from made) * 1000)::bigint), 12, '0') || '7' ||
        lpad(to_hex(n % 4096), 3, '0') || '8000' || lpad(to_hex(n), 12, '0')
    )::uuid as id
    from (
        select n, now() - interval '2 h' + n * (interval '2 h' / :rows) as made
        from generate_series(1, :rows) n
    ) numbered
) jobs
"""

SQLITE = f"""
insert into headway_job ({_COLUMNS})
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < :rows),
jobs as (
    select n, made, {_STATE} as state, printf('%012x', made / 1000) as ms
    from (select n, :now - 7200000000 + n * (7200000000 / :rows) as made from numbers)
), identified as (
    select *, substr(ms, 1, 8) || '-' || substr(ms, 9, 4) || '-7' || printf('%03x', n % 4096)
        || '-8000-' || printf('%012x', n) as id
    from jobs
)
select
    id, id, id, made + case when state = 'pending' and n % 3 = 0 then 86400000000 else 0 end,
    made, case when state in ('running', 'completed', 'failed') then made + 200000 end,
    case when state in ('completed', 'failed', 'cancelled') then made + 300000 end,
    0, 5, n % 2, state, 'type' || (n % 7), 'queue' || (n % 5), {_INPUT},
    case when state in ('running', 'completed', 'failed') then 'worker' || (n % 3) end,
    case when state = 'failed' then {_ERROR} end,
    case when state = 'failed' then printf('%012x', n % 400) end,
    case when state = 'blocked' then 1 else 0 end,
    case when state = 'running' then 'token' end,
    case when state = 'running' then :now + 3600000000 end
from identified
"""


async def fill_postgres(url: str, rows: int) -> None:
    await PostgresStore(url).migrate()
    with psycopg.connect(url, autocommit=True) as connection:
        # As on a server that means it: vacuum cannot mark what it does not know to be written.
        connection.execute("set synchronous_commit = on")
        connection.execute(POSTGRES.replace(":rows", str(rows)).encode())
        connection.execute("vacuum analyze headway.job")


async def fill_sqlite(path: Path, rows: int) -> None:
    await SqliteStore(path).migrate()
    connection = sqlite3.connect(path)
    try:
        connection.execute(SQLITE, {"rows": rows, "now": time.time_ns() // 1_000})
        connection.commit()
    finally:
        connection.close()
