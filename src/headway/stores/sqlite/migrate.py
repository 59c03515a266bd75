"""Brings the tables in an SQLite file up to date, step by step, under the write lock."""

from __future__ import annotations

import sqlite3

from headway.stores.sql.sql_files import SqlMigration, migration_script


def applied_migrations(connection: sqlite3.Connection, prefix: str) -> dict[int, int]:
    """Versions that are applied, and when; none if there are no tables."""
    table = f"{prefix}migration"
    exists = connection.execute(
        "select 1 from sqlite_master where type = 'table' and name = ?", (table,)
    ).fetchone()
    if not exists:
        return {}
    return dict(connection.execute(f"select version, applied_at from {table}").fetchall())


def apply_migrations(
    connection: sqlite3.Connection, prefix: str, migrations: list[SqlMigration], now: int
) -> list[str]:
    """Apply the missing steps in the open transaction; their names."""
    for statement in split(prelude(prefix)):
        connection.execute(statement)
    done = applied_migrations(connection, prefix)
    missing = [migration for migration in migrations if migration.version not in done]
    for migration in missing:
        for statement in split(migration.sql):
            connection.execute(statement)
        connection.execute(
            f"insert into {prefix}migration (version, name, applied_at) values (?, ?, ?)",
            (migration.version, migration.name, now),
        )
    return [migration.name for migration in missing]


def script(prefix: str, migrations: list[SqlMigration]) -> str:
    now = "unixepoch() * 1000000"
    return migration_script(
        f"begin immediate;\n{prelude(prefix)}",
        migrations,
        lambda each: (
            f"insert into {prefix}migration values ({each.version}, '{each.name}', {now});"
        ),
    )


def prelude(prefix: str) -> str:
    return (
        f"create table if not exists {prefix}migration (\n"
        "    version integer primary key,\n"
        "    name text not null,\n"
        "    applied_at integer not null\n"
        ");\n"
    )


def split(script: str) -> list[str]:
    """The statements of a script; executescript would commit the open transaction."""
    statements: list[str] = []
    rest = ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            statements.append(rest)
            rest = ""
    return statements
