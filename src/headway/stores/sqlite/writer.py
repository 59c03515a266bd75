"""The thread that owns a connection and drains queued operations, many into one transaction.

A thread hop costs more than an insert, and a commit more than a hop, so whatever has queued up
while a transaction was under way goes into the next one. Each operation has a savepoint: one that
fails leaves nothing, and harms no other. Callers hear back after the commit, never before.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from headway.domain.errors import StoreClosed, StoreError
from headway.ports.statement import Operation
from headway.providers.sqlite3 import execute
from headway.stores.sql.driving import drive_sync

T = TypeVar("T")
Work = tuple[Callable[[], Operation[Any]], "Future[Any]"]

MOST_AT_ONCE = 64
"""Operations per transaction: bounds how long other processes wait for the write lock."""


class Writer:
    """Runs operations on one connection in one thread. `submit` is safe from any thread."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], name: str, busy_for: float):
        self._connect = connect
        self._name = name
        self._busy_for = busy_for
        self._queue: deque[Work] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="headway-sqlite", daemon=True)
        self._thread.start()

    def submit(self, make: Callable[[], Operation[T]]) -> Future[T]:
        future: Future[T] = Future()
        with self._wake:
            if self._closing:
                raise StoreClosed(self._name)
            self._queue.append((make, future))
            self._wake.notify()
        return future

    def close(self) -> None:
        """Let what is queued end; returns when the thread has."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        connection = self._connect()
        try:
            while batch := self._next_batch():
                self._run_batch(connection, batch)
        finally:
            connection.close()

    def _next_batch(self) -> list[Work]:
        with self._wake:
            while not self._queue and not self._closing:
                self._wake.wait()
            count = min(len(self._queue), MOST_AT_ONCE)
            return [self._queue.popleft() for _ in range(count)]

    def _run_batch(self, connection: sqlite3.Connection, batch: list[Work]) -> None:
        answers: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            begin_immediate(connection, self._busy_for)
            for make, future in batch:
                try:
                    answers.append((future, self._run_one(connection, make, len(batch)), None))
                except Exception as error:
                    if len(batch) == 1 or not connection.in_transaction:  # all of it is void
                        raise
                    answers.append((future, None, error))
            retry_while_busy(lambda: connection.execute("commit"), self._busy_for)
        except Exception as error:
            if connection.in_transaction:
                connection.execute("rollback")
            for _, future in batch:
                future.set_exception(error)
            return
        for future, answer, failure in answers:
            if failure is None:
                future.set_result(answer)
            else:
                future.set_exception(failure)

    def _run_one(
        self, connection: sqlite3.Connection, make: Callable[[], Operation[T]], together: int
    ) -> T:
        if together == 1:
            return drive_sync(make(), lambda statement: execute(connection, statement))
        connection.execute("savepoint one")
        try:
            answer = drive_sync(make(), lambda statement: execute(connection, statement))
        except Exception:
            if connection.in_transaction:
                connection.execute("rollback to one")
                connection.execute("release one")
            raise
        connection.execute("release one")
        return answer


def begin_immediate(connection: sqlite3.Connection, busy_for: float) -> None:
    """Take the write lock. A deferred transaction that turns into a write fails at once, whatever
    the busy timeout, so every transaction begins this way."""
    retry_while_busy(lambda: connection.execute("begin immediate"), busy_for)


def retry_while_busy(action: Callable[[], object], busy_for: float) -> None:
    """Short pauses of random length: SQLite's own busy handler lets processes starve each other."""
    deadline = time.monotonic() + busy_for
    pause = 0.0005
    while True:
        try:
            action()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if time.monotonic() > deadline:
                raise StoreError(
                    f"the SQLite file was held by another writer for {busy_for:.0f} seconds; "
                    "is a transaction left open in some other program?"
                ) from error
        else:
            return
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, 0.01)


def is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
