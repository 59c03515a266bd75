"""Brings a PostgreSQL schema up to date, step by step, under a lock."""

from __future__ import annotations

from datetime import datetime

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from headway.stores.sql.sql_files import SqlMigration, migration_script

LOCK = 0x68656164776179  # "headway": one process migrates at a time
LOCK_TIMEOUT = "5s"
"""The longest wait for a lock on a table. Claims and starts queue up behind a migration that waits,
and the caller's own transaction may hold the lock."""


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
    connection: AsyncConnection[TupleRow], schema: str, migrations: list[SqlMigration]
) -> list[str]:
    """Apply the missing steps in one transaction; their names."""
    done = await applied_migrations(connection, schema)
    if done.keys() >= {migration.version for migration in migrations}:
        return []  # without a lock, and without the right to create a schema
    async with connection.transaction():
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
