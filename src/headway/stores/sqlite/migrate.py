"""Brings the tables in an SQLite file up to date, step by step, under the write lock: on a
connection of the store, or in the caller's transaction."""

from __future__ import annotations

import sqlite3

from headway.ports.statement import Operation, Statement
from headway.stores.sql.sql_files import SqlMigration, migration_script


def applied_migrations(prefix: str) -> Operation[dict[int, int]]:
    """Versions that are applied, and when; none if there are no tables."""
    table = f"{prefix}migration"
    exists = yield Statement(
        "select 1 from sqlite_master where type = 'table' and name = ?1", (table,)
    )
    if not exists:
        return {}
    rows = yield Statement(f"select version, applied_at from {table}")
    return dict(rows)


def apply_migrations(prefix: str, migrations: list[SqlMigration], now: int) -> Operation[list[str]]:
    """Apply the missing steps in the open transaction; their names."""
    done = yield from applied_migrations(prefix)
    missing = [migration for migration in migrations if migration.version not in done]
    if not done:
        for statement in split(prelude(prefix)):
            yield Statement(statement)
    for migration in missing:
        for statement in split(migration.sql):
            yield Statement(statement)
        yield Statement(
            f"insert into {prefix}migration (version, name, applied_at) values (?1, ?2, ?3)",
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
