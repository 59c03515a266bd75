"""Databases as the checker sees them: from outside, with connections and tables of its own.

Triggers write down every claim and every end of a job, so that nothing depends on what workers say.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Protocol

import psycopg

from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore

SUMMARY = {
    "jobs": "select count(*) from {job}",
    "left": "select count(*) from {job} where state not in ('completed', 'failed', 'cancelled')",
    "failed": "select count(*) from {job} where state = 'failed'",
    "attempts": "select coalesce(sum(attempts), 0) from {job}",
    "losses": "select coalesce(sum(losses), 0) from {job}",
    "ended twice": "select count(*) from (select id from ended group by id having count(*) > 1) x",
    "completed unseen": (
        "select count(*) from {job} j where state = 'completed'"
        " and not exists (select 1 from ended e where e.id = cast(j.id as text))"
    ),
    "effects": "select count(*) from effect",
    "two effects": (
        "select count(*) from (select job from effect group by job having count(*) > 1) x"
    ),
    "effect without completion": (
        "select count(*) from effect e left join {job} j on cast(j.id as text) = e.job"
        " where j.id is null or j.state <> 'completed'"
    ),
    "completion without effect": (
        "select count(*) from {job} j where type = 'chain' and state = 'completed'"
        " and not exists (select 1 from effect e where e.job = cast(j.id as text))"
    ),
    "stale effect": (
        "select count(*) from effect e join {job} j on cast(j.id as text) = e.job"
        " where j.lease_version <> e.version"
    ),
    "successor of an unfinished job": (
        "select count(*) from {job} j join {job} p"
        " on p.sequence_id = j.sequence_id and p.step = j.step - 1 where p.state <> 'completed'"
    ),
    "overlapping leases": (
        "select count(*) from claimed a join claimed b on a.id = b.id and b.version = a.version + 1"
        " where a.token = b.token"
    ),
    "version claimed twice": (
        "select count(*) from (select id, version from claimed group by id, version"
        " having count(*) > 1) x"
    ),
}
MUST_BE_ZERO = (
    "ended twice",
    "completed unseen",
    "two effects",
    "effect without completion",
    "completion without effect",
    "stale effect",
    "successor of an unfinished job",
    "overlapping leases",
    "version claimed twice",
)


class Place(Protocol):
    kind: str
    dsn: str

    def prepare(self) -> None:
        """Migrate, and put the checker's own tables and triggers in place."""
        ...

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...


class PostgresPlace:
    kind = "postgres"
    job = "headway.job"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def prepare(self) -> None:
        asyncio.run(PostgresStore(self.dsn).migrate())
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


class SqlitePlace:
    kind = "sqlite"
    job = "headway_job"

    def __init__(self, path: str) -> None:
        self.path = path
        self.dsn = f"sqlite:///{path}"

    def prepare(self) -> None:
        asyncio.run(SqliteStore(self.path).migrate())
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


def left(place: Place) -> int:
    return int(place.ask(SUMMARY["left"])[0][0])


def summary(place: Place) -> dict[str, int]:
    return {name: int(place.ask(sql)[0][0]) for name, sql in SUMMARY.items()}
