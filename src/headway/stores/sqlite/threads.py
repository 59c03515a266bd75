"""Threads that own a connection each: one writes, one reads.

A change of threads costs more than an insert, and a commit more than a change of threads, so all
operations that were queued during a transaction share the next one. Each operation has a savepoint:
a failed one leaves no changes and does not affect the others. Callers get their answers after the
commit, never before.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from headway.drivers.sqlite import execute
from headway.errors import StoreClosed
from headway.ports.statement import Operation
from headway.stores.drive import drive_sync
from headway.stores.sqlite.write_lock import begin_immediate, retry_while_busy
from headway.stores.sqlite.write_turns import WriteTurns

T = TypeVar("T")
Work = tuple[Callable[[], Operation[Any]], "Future[Any]"]

MOST_AT_ONCE = 64
"""Operations per transaction: bounds how long other processes wait for the write lock."""
LAST_WAIT = 2.0
"""Seconds that a closing store waits for a locked file."""


class ConnectionThread:
    """Runs operations on one connection in one thread. `submit` is safe from any thread."""

    def __init__(
        self,
        connect: Callable[[Callable[[], float]], sqlite3.Connection],
        store: str,
        busy_for: float,
        turns: WriteTurns | None,
    ) -> None:
        """A thread with `turns` writes, one without only reads. `connect` is given a function: the
        time at which to give up on a locked file."""
        self._connect = connect
        self._store = store
        self._busy_for = busy_for
        self._turns = turns
        self._queue: deque[Work] = deque()
        self._wake = threading.Condition()
        self._closing = False
        self._resting = False
        self._rested = threading.Event()
        self._give_up_at = math.inf
        name = f"headway-sqlite-{'reader' if turns is None else 'writer'}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, make: Callable[[], Operation[T]]) -> Future[T]:
        future: Future[T] = Future()
        with self._wake:
            if self._closing:
                raise StoreClosed(self._store)
            self._queue.append((make, future))
            self._wake.notify()
        return future

    def rest(self, seconds: float) -> bool:
        """Close the connection and run nothing until `go_on`; False if that takes longer."""
        with self._wake:
            self._resting = True
            self._wake.notify()
        return self._rested.wait(seconds)

    def go_on(self) -> None:
        with self._wake:
            self._resting = False
            self._wake.notify()

    def close(self) -> None:
        """Run the queued operations and end the thread. Waits for a locked file only for a
        moment."""
        with self._wake:
            self._closing = True
            self._give_up_at = time.monotonic() + LAST_WAIT
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while (batch := self._next_batch()) is not None:
                if not batch:
                    if connection is not None:
                        connection.close()
                        connection = None
                    self._rest()
                    continue
                try:
                    if connection is None:
                        connection = self._connect(lambda: self._give_up_at)
                    with self._turn():
                        answers = self._run_batch(connection, batch)
                except Exception as error:
                    for _, future in batch:
                        _answer(future, None, error)
                else:
                    for future, answer, failure in answers:
                        _answer(future, answer, failure)
        finally:
            if connection is not None:
                connection.close()
            self._rested.set()  # for good

    def _turn(self) -> AbstractContextManager[None]:
        if self._turns is None:
            return nullcontext()
        return self._turns.waited(self._busy_for, lambda: self._give_up_at)

    def _next_batch(self) -> list[Work] | None:
        """The next operations; none to pause, None to end."""
        with self._wake:
            while not (self._queue or self._closing or self._resting):
                self._wake.wait()
            if self._resting:
                return []
            count = min(len(self._queue), MOST_AT_ONCE)
            return [self._queue.popleft() for _ in range(count)] or None

    def _rest(self) -> None:
        with self._wake:
            self._rested.set()
            while self._resting:
                self._wake.wait()
            self._rested.clear()

    def _run_batch(
        self, connection: sqlite3.Connection, batch: list[Work]
    ) -> list[tuple[Future[Any], Any, Exception | None]]:
        """Run all operations in one transaction; an exception has undone all of them."""
        answers: list[tuple[Future[Any], Any, Exception | None]] = []
        try:
            if self._turns is None:
                retry_while_busy(lambda: connection.execute("begin"), self._busy_for)
            else:
                begin_immediate(connection, self._busy_for, lambda: self._give_up_at)
            if len(batch) == 1:  # the transaction is all the savepoint that it needs
                make, future = batch[0]
                answers.append((future, _drive(connection, make), None))
                batch = []
            for make, future in batch:
                try:
                    answers.append((future, _run_one(connection, make), None))
                except Exception as error:
                    if not connection.in_transaction:  # the database gave up on all of it
                        raise
                    answers.append((future, None, error))
            retry_while_busy(lambda: connection.execute("commit"), self._busy_for)
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        return answers


async def in_own_thread(work: Callable[[], None]) -> None:
    """Run `work` in a thread of its own: all threads of the event loop may be waiting for the lock
    that `work` releases."""
    done: Future[None] = Future()
    done.set_running_or_notify_cancel()  # it cannot be stopped, whoever stops waiting for it

    def run() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="headway-sqlite-commit", daemon=True).start()
    await asyncio.wrap_future(done)


def _run_one(connection: sqlite3.Connection, make: Callable[[], Operation[T]]) -> T:
    connection.execute("savepoint one")
    try:
        answer = _drive(connection, make)
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback to one")
            connection.execute("release one")
        raise
    connection.execute("release one")
    return answer


def _drive(connection: sqlite3.Connection, make: Callable[[], Operation[T]]) -> T:
    return drive_sync(make(), lambda statement: execute(connection, statement))


def _answer(future: Future[Any], answer: Any, error: Exception | None) -> None:
    if not future.set_running_or_notify_cancel():
        return  # nobody waits for it any more
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
