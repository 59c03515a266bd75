"""Databases seen from outside, through connections and tables of the checker's own.

Triggers record every claim and every end of a job, so no check depends on what workers report.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, Protocol

import psycopg

from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore

LEFT = "select count(*) from {job} where state not in ('completed', 'failed', 'cancelled')"
MUST_BE_ZERO = (
    "ended twice",
    "completed unseen",
    "two effects",
    "effect without completion",
    "completion without effect",
    "stale effect",
    "successor of an unfinished job",
    "token claimed with twice",
    "version claimed twice",
)
"""Counts of `summary` that are never allowed to be above zero."""


class Database(Protocol):
    kind: str
    dsn: str

    def prepare(self) -> None:
        """Migrate, and watch."""
        ...

    def watch(self) -> None:
        """Create the checker's tables and triggers."""
        ...

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...


class PostgresDatabase:
    kind = "postgres"
    job = "headway.job"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def prepare(self) -> None:
        asyncio.run(PostgresStore(self.dsn).migrate())
        self.watch()

    def watch(self) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(
                """
                create table effect (job text, token text, version int);
                create index on effect (job);
                create table ended (id text, state text, version int);
                create index on ended (id);
                create table claimed (id text, token text, version int, at double precision);
                create index on claimed (id);
                create function note_end() returns trigger language plpgsql as $$
                begin
                    insert into public.ended values (new.id, new.state, new.lease_version);
                    return null;
                end $$;
                create function note_claim() returns trigger language plpgsql as $$
                begin
                    insert into public.claimed values (
                        new.id, new.lease_token, new.lease_version,
                        extract(epoch from clock_timestamp())
                    );
                    return null;
                end $$;
                create trigger note_end after update on headway.job for each row
                when (new.state in ('completed', 'failed', 'cancelled')
                    and (old.state <> new.state or old.output is distinct from new.output))
                execute function note_end();
                create trigger note_claim after update on headway.job for each row
                when (new.state = 'running'
                    and (old.state <> 'running' or old.lease_token <> new.lease_token))
                execute function note_claim();
                """
            )

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, connect_timeout=5) as connection:
            cursor = connection.execute(sql.format(job=self.job).encode(), parameters)
            return cursor.fetchall() if cursor.description else []


class SqliteDatabase:
    kind = "sqlite"
    job = "headway_job"

    def __init__(self, path: str) -> None:
        self.path = path
        self.dsn = f"sqlite:///{path}"

    def prepare(self) -> None:
        asyncio.run(SqliteStore(self.path).migrate())
        self.watch()

    def watch(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.executescript(
                """
                create table effect (job text, token text, version int);
                create index effect_job on effect (job);
                create table ended (id text, state text, version int);
                create index ended_id on ended (id);
                create table claimed (id text, token text, version int, at double precision);
                create index claimed_id on claimed (id);
                create trigger note_end after update on headway_job
                when new.state in ('completed', 'failed', 'cancelled')
                    and (old.state <> new.state or old.output is not new.output)
                begin
                    insert into ended values (new.id, new.state, new.lease_version);
                end;
                create trigger note_claim after update on headway_job
                when new.state = 'running'
                    and (old.state <> 'running' or old.lease_token <> new.lease_token)
                begin
                    insert into claimed values (
                        new.id, new.lease_token, new.lease_version,
                        (julianday('now') - 2440587.5) * 86400.0
                    );
                end;
                """
            )

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
            return connection.execute(
                sql.format(job=self.job).replace("%s", "?"), parameters
            ).fetchall()


def left(database: Database) -> int:
    return int(database.ask(LEFT)[0][0])


def summary(database: Database) -> dict[str, int]:
    """Counts of jobs, claims, ends and effects; see MUST_BE_ZERO."""
    jobs = {
        row[0]: row[1:]
        for row in database.ask(
            "select cast(id as text), type, state, cast(sequence_id as text), position,"
            " lease_version,"
            " attempts, losses from {job}"
        )
    }
    ended = Counter(row[0] for row in database.ask("select id from ended"))
    effects = database.ask("select job, version from effect")
    claims = database.ask("select id, token, version from claimed")
    states = Counter(job[1] for job in jobs.values())
    completed = {id for id, job in jobs.items() if job[1] == "completed"}
    effective = {id for id, _ in effects}
    steps = {(job[2], job[3]): job[1] for job in jobs.values()}
    return {
        "jobs": len(jobs),
        "left": len(jobs) - sum(states[state] for state in ("completed", "failed", "cancelled")),
        "failed": states["failed"],
        "attempts": sum(job[5] for job in jobs.values()),
        "losses": sum(job[6] for job in jobs.values()),
        "effects": len(effects),
        "ended twice": sum(count > 1 for count in ended.values()),
        "completed unseen": len(completed - ended.keys()),
        "two effects": len(effects) - len(effective),
        "effect without completion": len(effective - completed),
        "completion without effect": sum(jobs[id][0] == "chain" for id in completed - effective),
        "stale effect": sum(id in jobs and jobs[id][4] != version for id, version in effects),
        "successor of an unfinished job": sum(
            step > 0 and steps.get((sequence, step - 1)) != "completed" for sequence, step in steps
        ),
        "token claimed with twice": _repeated((id, token) for id, token, _ in claims),
        "version claimed twice": _repeated((id, version) for id, _, version in claims),
    }


def _repeated(items: Iterable[tuple[Any, ...]]) -> int:
    return sum(count > 1 for count in Counter(items).values())
