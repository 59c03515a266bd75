"""Waits for SQLite's write lock, fairly to other processes."""

from __future__ import annotations

import asyncio
import math
import random
import sqlite3
import time
from collections.abc import Callable, Iterator

from headway.errors import StoreError


def begin_immediate(
    connection: sqlite3.Connection, busy_for: float, give_up_at: Callable[[], float] | None = None
) -> None:
    """Take the write lock. A deferred transaction that turns into a write fails at once, whatever
    the busy timeout, so every writing transaction begins this way."""
    retry_while_busy(lambda: connection.execute("begin immediate"), busy_for, give_up_at)


def retry_while_busy(
    action: Callable[[], object], busy_for: float, give_up_at: Callable[[], float] | None = None
) -> None:
    """Repeat an action while the file is locked. `give_up_at` is asked again before each try."""
    for pause in _tries(action, busy_for, give_up_at or (lambda: math.inf)):
        time.sleep(pause)


async def wait_while_busy(action: Callable[[], object], busy_for: float) -> None:
    """The same for a short action, without blocking the event loop."""
    for pause in _tries(action, busy_for, lambda: math.inf):
        await asyncio.sleep(pause)


def _tries(
    action: Callable[[], object], busy_for: float, give_up_at: Callable[[], float]
) -> Iterator[float]:
    """Pauses between tries, until a try succeeds. They are short and of random length: SQLite's
    own busy handler lets processes starve each other."""
    began = time.monotonic()
    pause = 0.0005
    while True:
        try:
            action()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            now = time.monotonic()
            if now > min(began + busy_for, give_up_at()):
                raise StoreError(
                    f"the SQLite file was held by another writer for {now - began:.0f} seconds; "
                    "pass the connection as tx= if the open transaction is your own, else look for "
                    "one that was left open, here or in another program"
                ) from error
        else:
            return
        yield pause * random.uniform(0.5, 1.5)
        pause = min(pause * 1.5, 0.01)


def is_busy(error: BaseException | None) -> bool:
    return isinstance(error, sqlite3.OperationalError) and (
        error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    )
