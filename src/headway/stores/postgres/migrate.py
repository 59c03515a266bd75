"""Brings a PostgreSQL schema up to date, step by step, under a lock.

A new column needs its table for itself for a moment, and waits for every transaction that uses it.
Claims and starts queue up behind a statement that waits. So it waits briefly, lets them pass, and
tries again.

An index of a table with jobs is built by `create index concurrently`, outside a transaction: claims
and starts go on. Such a step is this one statement.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from msgspec import structs
from psycopg import AsyncConnection
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

from headway.drivers.postgres_dsn import WHO_ANSWERS, is_pooled
from headway.stores.sql.sql_files import SqlMigration, migration_script

T = TypeVar("T")
Connect: TypeAlias = Callable[[], Awaitable[AsyncConnection[TupleRow]]]

LOCK = 0x68656164776179  # "headway": one process migrates at a time
BUILD_LOCK = LOCK + 1
"""One process builds an index at a time. Not LOCK itself: a statement that waits for it has a
snapshot, and a build waits for snapshots."""
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


class IndexBuild(NamedTuple):
    """The statements of a step that builds an index."""

    drop_leftover: str
    """In a transaction. An interrupted build leaves an invalid index. While another session builds
    it, the wait for the first lock keeps nobody from starting jobs."""
    create: str
    """Outside a transaction."""
    record: str
    """Records the step if the index is valid."""


_BUILD = re.compile(r"create index concurrently if not exists (\w+) on (\S+) ")
_NO_TIMEOUTS = """
select set_config(name, '0', true) from pg_settings
where name in (
    'statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout'
)
"""
_OLDEST_TRANSACTION = """
select pid, extract(epoch from clock_timestamp() - xact_start)::float8
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
    and (backend_xid is not null or backend_xmin is not null)
order by xact_start
limit 1
"""
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
    connect: Connect, schema: str, migrations: list[SqlMigration], *, patience: float
) -> list[str]:
    """Apply the missing steps; their names. The tries for locks go on for `patience` seconds."""
    applied: list[str] = []
    async with await connect() as connection:
        done = await applied_migrations(connection, schema)
        # If nothing is missing: without a lock, and without the right to create a schema.
        for part in _parts([each for each in migrations if each.version not in done]):
            tries = _Tries(connection, schema, part, patience)
            if (build := index_build(schema, part[0])) is None:
                applied += await tries.run(partial(_apply, connection, schema, part))
                continue
            async with _alone(connect):
                if part[0].version not in await applied_migrations(connection, schema):
                    await tries.run(partial(_drop_leftover, connection, build))
                    await _build(connection, build, patience)
                    applied.append(part[0].name)
    return applied


def _parts(missing: Sequence[SqlMigration]) -> list[list[SqlMigration]]:
    """The steps of each transaction; one that builds an index is alone. A new schema is made in one
    transaction: its tables are empty."""
    if missing and missing[0].version == 1:
        plain = r"create index \1 on \2 "
        return [[structs.replace(each, sql=_BUILD.sub(plain, each.sql)) for each in missing]]
    found: list[list[SqlMigration]] = []
    for migration in missing:
        if not found or _BUILD.search(migration.sql) or _BUILD.search(found[-1][0].sql):
            found.append([migration])
        else:
            found[-1].append(migration)
    return found


class _Tries:
    """Tries for locks, each of them short, with pauses in which jobs run."""

    def __init__(
        self,
        connection: AsyncConnection[TupleRow],
        schema: str,
        steps: Sequence[SqlMigration],
        patience: float,
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._steps = ", ".join(step.name for step in steps)
        self._give_up_at = time.monotonic() + patience

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await attempt()
            except LockNotAvailable as error:
                holder = await _named(self._connection, _OLDEST_HOLDER, self._schema)
                reason = f"an open transaction has locked its tables{holder}"
                left = self._give_up_at - time.monotonic()
                if left <= 0:
                    raise TablesLocked(reason) from error
                _log.warning(
                    "%s has to wait: %s; tries go on for %.0f s, and jobs run meanwhile",
                    *(self._steps, reason, left),
                )
            await asyncio.sleep(min(PAUSE, left))


async def _named(connection: AsyncConnection[TupleRow], query: str, *parameters: str) -> str:
    """The transaction that the query finds, in brackets."""
    row = await (await connection.execute(query.encode(), parameters)).fetchone()
    if row is None:
        return ""
    pid, seconds = row
    since = "" if seconds is None else f", open for {seconds:.0f} s"
    return f" (process {pid} of PostgreSQL{since})"


async def _apply(
    connection: AsyncConnection[TupleRow], schema: str, migrations: list[SqlMigration]
) -> list[str]:
    async with connection.transaction():
        # The role or the database may have a shorter limit for statements than for locks.
        await connection.execute(_NO_TIMEOUTS)
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


@asynccontextmanager
async def _alone(connect: Connect) -> AsyncGenerator[None]:
    """One process builds at a time. The lock belongs to a transaction of another connection: behind
    a pooler a session's lock would be lost, and a build has no transaction. A build waits for other
    transactions' snapshots: a statement without parameters leaves none."""
    lock = f"select pg_try_advisory_xact_lock({BUILD_LOCK})"
    async with await connect() as guard:
        while True:
            async with guard.transaction():
                await guard.execute(_NO_TIMEOUTS)
                if await (await guard.execute(lock.encode())).fetchone() == (True,):
                    yield
                    return
            await asyncio.sleep(PAUSE)


async def _drop_leftover(connection: AsyncConnection[TupleRow], build: IndexBuild) -> None:
    async with connection.transaction():
        await connection.execute(_NO_TIMEOUTS)
        await connection.execute("select set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
        await connection.execute(build.drop_leftover.encode())


async def _build(connection: AsyncConnection[TupleRow], build: IndexBuild, patience: float) -> None:
    """The build waits for each transaction that was open before it, and nobody waits for the
    build."""
    cursor = await connection.execute(WHO_ANSWERS)
    if not is_pooled(connection, await cursor.fetchone()):  # else other clients would get these
        await connection.execute("set statement_timeout = 0")
        await connection.execute(f"set lock_timeout = '{patience}s'".encode())
    try:
        await connection.execute(build.create.encode())
    except LockNotAvailable as error:
        holder = await _named(connection, _OLDEST_TRANSACTION)
        raise TablesLocked(f"the new index waits for an open transaction{holder}") from error
    if (await connection.execute(build.record.encode())).rowcount == 0:
        raise TablesLocked("another process builds the index")


def index_build(schema: str, migration: SqlMigration) -> IndexBuild | None:
    """How the step builds its index; None if it is a step as any other."""
    if (found := _BUILD.search(migration.sql)) is None:
        return None
    name, table = found.groups()
    index = f'"{schema}".{name}'
    state = f"from pg_index where indexrelid = to_regclass('{index}') and"
    return IndexBuild(
        f"lock table {table} in share update exclusive mode;\n"
        "do $$ begin\n"
        f"    if exists (select {state} not indisvalid) then\n"
        f"        drop index {index};\n"
        "    end if;\n"
        "end $$;\n",
        migration.sql,
        f'insert into "{schema}".migration (version, name)\n'
        f"select {migration.version}, '{migration.name}' {state} indisvalid;\n",
    )


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
    """These steps as SQL, to be applied by hand."""
    insert = f'insert into "{schema}".migration (version, name) values'
    scripts: list[str] = []
    for part in _parts(migrations):
        if (build := index_build(schema, part[0])) is None:
            text = migration_script(
                f"begin;\n{prelude(schema)}",
                part,
                lambda migration: f"{insert} ({migration.version}, '{migration.name}');",
            )
        else:
            text = (
                f"-- {part[0].name}: outside a transaction, so that jobs run meanwhile\n"
                f"begin;\n{build.drop_leftover}commit;\n"
                f"set lock_timeout = 0;\nset statement_timeout = 0;\n{build.create}{build.record}"
            )
        scripts.append(text)
    return "\n".join(scripts)
