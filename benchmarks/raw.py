"""The ceiling: the store's own claim and completion statements in a bare loop, nothing around them.

No handler, no decoding of payloads, no heartbeat, one connection; the same SQL, the same batch and
the same durability as the worker's.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import RawCursor
from psycopg.types.string import TextLoader

from headway.drivers.postgres_statement_parameters import text_parameters
from headway.drivers.sqlite import execute
from headway.jobs.ids import new_id
from headway.ports.statement import Statement
from headway.stores.postgres.bulk_copy import COPY_FROM
from headway.stores.postgres.connections import SETTINGS
from headway.stores.sql.sql_files import load_statements

TEXT = '{"n":1,"text":"' + "x" * 100 + '"}'
PLAIN = ("default", 0, 4, 5, None, None, None, None, 0, None, "pending", 0, False, False)
"""What a job without options is stored with, from its queue on."""
COPIED = "\t".join("\\N" if value is None else str(value) for value in PLAIN)
"""The same for COPY."""


def _ignore(_: int) -> None:
    pass


def drain_postgres(
    dsn: str, job_type: str, batch: int, claimed: Callable[[int], None] = _ignore
) -> tuple[int, float]:
    """Claim and complete until nothing is left; how many, and in how many seconds. `claimed` is
    told of every batch."""
    sql = load_statements("headway.stores.postgres", '"headway".')
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.adapters.register_loader("uuid", TextLoader)
        connection.execute(SETTINGS)
        cursor = RawCursor(connection)
        claim, complete = sql["claim"].encode(), sql["complete"].encode()
        count = 0
        bound = "2001-01-01"
        started = time.perf_counter()
        while True:
            token = str(uuid4())
            lane = (["default"], [0], [bound], [batch])
            cursor.execute(claim, (*lane, None, 30.0, token, "raw", [job_type], batch, None, False))
            rows = cursor.fetchall()
            if not rows:
                return count, time.perf_counter() - started
            claimed(len(rows))
            bound = max(row[5] for row in rows)
            done = Statement("", (None,), [(row[0], token, None) for row in rows])
            cursor.execute(complete, text_parameters(done))
            count += len(cursor.fetchall())


def drain_sqlite(
    path: str, job_type: str, batch: int, claimed: Callable[[int], None] = _ignore
) -> tuple[int, float]:
    sql = load_statements("headway.stores.sqlite", "headway_")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        count = 0
        started = time.perf_counter()
        while True:
            token = str(uuid4())
            now = time.time_ns() // 1000
            connection.execute("begin immediate")
            claim = ("default", batch, now, 30.0, token, "raw", [job_type], None, False)
            rows = execute(connection, Statement(sql["claim"], claim))
            connection.execute("commit")
            if not rows:
                return count, time.perf_counter() - started
            claimed(len(rows))
            connection.execute("begin immediate")
            done = Statement(sql["complete"], (now,), [(row[0], token, None) for row in rows])
            count += len(execute(connection, done))
            connection.execute("commit")


class RawPostgres:
    """One connection and the store's insert statement, or its COPY for many."""

    def __init__(self, dsn: str, job_type: str) -> None:
        sql = load_statements("headway.stores.postgres", '"headway".')
        self._sql, self._copy = sql["insert"].encode(), sql["copy"].encode()
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._cursor = RawCursor(self._connection)
        self._rest = (None, None, 0.0, None, None, job_type, *PLAIN)

    def insert(self, texts: Sequence[str]) -> None:
        """Store jobs with one statement, and commit."""
        ids = [new_id() for _ in texts]
        if len(texts) >= COPY_FROM:
            rest = f"now\tnow\t{self._rest[5]}\t{COPIED}\n"
            with self._cursor.copy(self._copy) as data:
                data.write(
                    "".join(
                        [
                            f"{id}\t{id}\t{id}\t{text}\t\\N\t{rest}"
                            for id, text in zip(ids, texts, strict=True)
                        ]
                    )
                )
            return
        self._cursor.execute(self._sql, (ids, list(texts), [None] * len(ids), *self._rest))
        self._cursor.fetchall()

    def close(self) -> None:
        self._connection.close()


class RawSqlite:
    """The same on a file."""

    def __init__(self, path: str, job_type: str) -> None:
        self._sql = load_statements("headway.stores.sqlite", "headway_")["insert"]
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("pragma synchronous = full")
        self._rest: tuple[Any, ...] = (None, 0.0, None, None, job_type, *PLAIN)

    def insert(self, texts: Sequence[str]) -> None:
        now = time.time_ns() // 1000
        rows = [(new_id(), text, None) for text in texts]
        self._connection.execute("begin immediate")
        execute(self._connection, Statement(self._sql, (now, *self._rest), rows))
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()


def insert_postgres(dsn: str, job_type: str, seconds: float) -> float:
    """One insert and commit at a time; how many per second."""
    with closing(RawPostgres(dsn, job_type)) as raw:
        count = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            raw.insert((TEXT,))
            count += 1
        return count / (time.perf_counter() - started)
