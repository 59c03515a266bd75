"""Stores that can be made to fail at any one place between a claim and the commit that ends it.

A place is named by what is being done, for the how many-th time, and where in it: `settle 2 before
statement 1`. Places are: before and after each operation of the worker, before and after each of
its statements, before a transaction begins, after that, before it commits, after that, and wherever
a handler says so.
"""

from __future__ import annotations

import asyncio
import enum
import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import psycopg

from headway.errors import StoreUnreachable
from headway.ports.statement import Operation
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore

P = ParamSpec("P")
T = TypeVar("T")

WATCHED = ("claim", "blocker_outputs", "insert", "store_blockers", "extend", "settle")
"""What a worker asks of its store from a claim to its commit. A drained worker claims as often as
it likes, so only its first claim counts."""


class How(enum.StrEnum):
    """What happens at the place."""

    ERROR = "an error is raised"
    LOST = "the connection is lost"
    CANCEL = "the task is cancelled"
    STOP = "the worker is cancelled"
    KILL = "the process is killed"


class Broken(Exception):
    """What is raised at a place that fails."""


class Failpoints:
    """Fails once, at one place; knows all the places that were passed."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.happened = False
        self.worker: asyncio.Task[Any] | None = None
        self._place: str | None = None
        self._how = How.ERROR
        self._counts: Counter[str] = Counter()

    def arm(self, place: str | None, how: How = How.ERROR) -> None:
        """Begin anew, and fail at this place."""
        self.passed = []
        self.happened = False
        self._place = place
        self._how = how
        self._counts.clear()

    def visit(self, what: str) -> Visit | None:
        """Something begins; None if it is not to be watched."""
        self._counts[what] += 1
        if what == "claim" and self._counts[what] > 1:
            return None
        return Visit(self, f"{what} {self._counts[what]}")

    def strikes(self, place: str) -> How | None:
        self.passed.append(place)
        if self.happened or place != self._place:
            return None
        self.happened = True
        return self._how


class Visit:
    """One thing that is done, by one task."""

    def __init__(self, failpoints: Failpoints, name: str) -> None:
        self._failpoints = failpoints
        self._name = name
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()

    async def reach(self, where: str) -> None:
        """A place in the task itself."""
        how = self._failpoints.strikes(f"{self._name} {where}")
        if how is How.LOST:
            raise StoreUnreachable("the database", "it is a failpoint")
        if how is not None:
            self._strike(how)
            await asyncio.sleep(0)  # where a cancellation is felt

    def reach_in_operation(self, where: str, lost: Callable[[], Exception]) -> None:
        """A place in an operation, which may be driven by another thread."""
        how = self._failpoints.strikes(f"{self._name} {where}")
        if how is How.LOST:
            raise lost()
        if how is not None:
            self._strike(how)

    def _strike(self, how: How) -> None:
        match how:
            case How.KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            case How.CANCEL:
                self._cancel(self._task)
            case How.STOP:
                self._cancel(self._failpoints.worker)
            case _:
                raise Broken(self._name)

    def _cancel(self, task: asyncio.Task[Any] | None) -> None:
        assert task is not None
        if threading.current_thread() is threading.main_thread():
            task.cancel()
            return
        felt = threading.Event()
        self._loop.call_soon_threadsafe(task.cancel)
        self._loop.call_soon_threadsafe(self._loop.call_soon, felt.set)
        felt.wait(1)


class Failing:
    """Goes before a store's class, and fails where its failpoints say."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.failpoints = Failpoints()

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        store: Any = super()
        visit = self._visit(operation)
        if visit is None:
            return await store.run(operation, *args, **kwargs)
        await visit.reach("enter")
        watched = self._watched(visit, operation)
        answer: T = await store.run(watched, *args, **kwargs)
        await visit.reach("exit")
        return answer

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        store: Any = super()
        visit = self._visit(operation)
        if visit is None:
            return await store.run_in(tx, operation, *args, **kwargs)
        await visit.reach("enter")
        watched = self._watched(visit, operation)
        answer: T = await store.run_in(tx, watched, *args, **kwargs)
        await visit.reach("exit")
        return answer

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[Any]:
        store: Any = super()
        visit = self.failpoints.visit("transaction")
        assert visit is not None
        await visit.reach("before it begins")
        async with store.begin() as tx:
            await visit.reach("begun")
            yield tx
            await visit.reach("before it commits")
        await visit.reach("committed")

    def lost(self) -> Exception:
        """What the driver raises when the connection is lost."""
        raise NotImplementedError

    def _visit(self, operation: Callable[..., Operation[Any]]) -> Visit | None:
        name = operation.__name__
        return self.failpoints.visit(name) if name in WATCHED else None

    def _watched(
        self, visit: Visit, operation: Callable[P, Operation[T]]
    ) -> Callable[P, Operation[T]]:
        @wraps(operation)
        def watched(*args: P.args, **kwargs: P.kwargs) -> Operation[T]:
            inner = operation(*args, **kwargs)
            number = 0
            try:
                statement = next(inner)
                while True:
                    number += 1
                    visit.reach_in_operation(f"before statement {number}", self.lost)
                    rows = yield statement
                    visit.reach_in_operation(f"after statement {number}", self.lost)
                    statement = inner.send(rows)
            except StopIteration as end:
                return end.value
            finally:
                inner.close()

        setattr(watched, "__self__", getattr(operation, "__self__", None))  # noqa: B010 - it stays one of the store's own verbs
        return watched


class FailingSqlite(Failing, SqliteStore):
    def lost(self) -> Exception:
        return sqlite3.OperationalError("disk I/O error")


class FailingPostgres(Failing, PostgresStore):
    def lost(self) -> Exception:
        return psycopg.OperationalError("server closed the connection unexpectedly")
