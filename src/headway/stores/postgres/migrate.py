"""Brings a PostgreSQL schema up to date, step by step, under a lock.

A new column needs its table for itself for a moment, and waits for every transaction that uses it.
Claims and starts queue up behind a statement that waits. So it waits briefly, lets them pass, and
tries again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime

from psycopg import AsyncConnection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from headway.stores.sql.sql_files import SqlMigration, migration_script

LOCK = 0x68656164776179  # "headway": one process migrates at a time
LOCK_TIMEOUT = "500ms"
"""The longest wait for a lock on a table, and the longest delay of claims and starts by one try."""
PAUSE = 1.0
"""Seconds between two tries."""
PATIENCE = 60.0
"""Seconds of tries by `headway migrate up`."""
PATIENCE_AT_OPENING = 5.0
"""The same when an app is opened. The caller's own transaction may hold the lock: then no try can
succeed."""
_log = logging.getLogger("headway")


class TablesLocked(Exception):
    """Another transaction had locked the tables for too long; the message names it."""


_OLDEST_HOLDER = """
select a.pid, extract(epoch from clock_timestamp() - a.xact_start)::float8
from pg_locks l
join pg_class c on c.oid = l.relation
join pg_namespace n on n.oid = c.relnamespace
join pg_stat_activity a on a.pid = l.pid
where n.nspname = %s and l.granted and l.pid <> pg_backend_pid()
order by a.xact_start
limit 1
"""


async def applied_migrations(
    connection: AsyncConnection[TupleRow], schema: str
) -> dict[int, datetime]:
    """Versions that are applied, and when; none if there is no schema."""
    cursor = await connection.execute(
        "select to_regclass(%s) is not null", (f'"{schema}".migration',)
    )
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return {}
    cursor = await connection.execute(
        f'select version, applied_at from "{schema}".migration'.encode()
    )
    return dict(await cursor.fetchall())


async def apply_migrations(
    connection: AsyncConnection[TupleRow],
    schema: str,
    migrations: list[SqlMigration],
    *,
    patience: float,
) -> list[str]:
    """Apply the missing steps in one transaction; their names. The tries for locks go on for
    `patience` seconds."""
    done = await applied_migrations(connection, schema)
    missing = [migration.name for migration in migrations if migration.version not in done]
    if not missing:
        return []  # without a lock, and without the right to create a schema
    give_up_at = time.monotonic() + patience
    while True:
        try:
            return await _try_to_apply(connection, schema, migrations)
        except LockNotAvailable as error:
            reason = f"an open transaction has locked its tables{await _holder(connection, schema)}"
            left = give_up_at - time.monotonic()
            if left <= 0:
                raise TablesLocked(reason) from error
            _log.warning(
                "%s has to wait: %s; tries go on for %.0f s, and jobs run meanwhile",
                *(", ".join(missing), reason, left),
            )
        await asyncio.sleep(min(PAUSE, left))


async def _holder(connection: AsyncConnection[TupleRow], schema: str) -> str:
    """The oldest transaction that uses the tables, in brackets."""
    row = await (await connection.execute(_OLDEST_HOLDER, (schema,))).fetchone()
    if row is None:
        return ""
    pid, seconds = row
    since = "" if seconds is None else f", open for {seconds:.0f} s"
    return f" (process {pid} of PostgreSQL{since})"


async def _try_to_apply(
    connection: AsyncConnection[TupleRow], schema: str, migrations: list[SqlMigration]
) -> list[str]:
    async with connection.transaction():
        # The role or the database may have a shorter limit for statements than for locks.
        await connection.execute("select set_config('statement_timeout', '0', true)")
        await connection.execute("select pg_advisory_xact_lock(%s)", (LOCK,))
        await connection.execute("select set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
        await connection.execute(prelude(schema).encode())
        done = await applied_migrations(connection, schema)
        missing = [migration for migration in migrations if migration.version not in done]
        for migration in missing:
            await connection.execute(migration.sql.encode())
            await connection.execute(
                f'insert into "{schema}".migration (version, name) values (%s, %s)'.encode(),
                (migration.version, migration.name),
            )
    return [migration.name for migration in missing]


def prelude(schema: str) -> str:
    return (
        f'create schema if not exists "{schema}";\n'
        f'create table if not exists "{schema}".migration (\n'
        "    version integer primary key,\n"
        "    name text not null,\n"
        "    applied_at timestamptz not null default now()\n"
        ");\n"
    )


def script(schema: str, migrations: list[SqlMigration]) -> str:
    insert = f'insert into "{schema}".migration (version, name) values'
    return migration_script(
        f"begin;\n{prelude(schema)}",
        migrations,
        lambda migration: f"{insert} ({migration.version}, '{migration.name}');",
    )
