"""The ceiling: Headway's own statements in a bare loop, without handlers, leases or events.

Same SQL, same batches and same durability as Headway's; one connection per process.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing

from benchmarks.peers import probe
from benchmarks.peers.contract import Peer, Settings, payload
from benchmarks.raw import RawPostgres, RawSqlite, drain_postgres, drain_sqlite
from headway import Headway

BATCH = 500


def _text(n: int) -> str:
    return json.dumps(payload(n), separators=(",", ":"))


class RawPeer(Peer):
    title = "raw statements"
    bulk = "one statement for all of them: COPY, or an insert from JSON"
    packages = ("headway", "psycopg")
    settings = Settings(drain={"batch": BATCH})
    step = 20_000
    metrics = "ABCDG"

    _raw: RawPostgres | RawSqlite

    def close(self) -> None:
        self._raw.close()

    def start_one(self, n: int) -> None:
        self._raw.insert((_text(n),))

    def start_many(self, numbers: range) -> None:
        self._raw.insert([_text(n) for n in numbers])


class RawOnPostgres(RawPeer):
    name = "raw-postgres"
    store = "PostgreSQL"
    durability = "fsync at every commit; finished jobs are kept"

    async def set_up(self) -> None:
        self.new_database()
        await Headway(self.location.postgres_url).store.migrate()

    def open(self) -> None:
        self._raw = RawPostgres(self.location.postgres_url, "noop")

    def run_worker(self) -> None:
        while True:
            drain_postgres(self.location.postgres_url, "noop", BATCH, probe.add)
            time.sleep(0.05)

    def remaining(self) -> int:
        return self.ask_postgres(
            "select (select count(*) from headway.job where state = 'pending')"
            " + (select count(*) from headway.job where state = 'running')"
        )


class RawOnSqlite(RawPeer):
    name = "raw-sqlite"
    store = "SQLite"
    durability = "WAL, synchronous=FULL; finished jobs are kept"

    async def set_up(self) -> None:
        self.new_file()
        await Headway(f"sqlite:///{self.location.file}").store.migrate()

    def open(self) -> None:
        self._raw = RawSqlite(self.location.file, "noop")

    def run_worker(self) -> None:
        while True:
            drain_sqlite(self.location.file, "noop", BATCH, probe.add)
            time.sleep(0.05)

    def remaining(self) -> int:
        return left_on_sqlite(self.location.file)


def left_on_sqlite(path: str) -> int:
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        return connection.execute(
            "select (select count(*) from headway_job where state = 'pending')"
            " + (select count(*) from headway_job where state = 'running')"
        ).fetchone()[0]


PEERS = (RawOnPostgres, RawOnSqlite)
