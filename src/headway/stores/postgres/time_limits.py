"""No answer is waited for longer than a lease allows.

A network may swallow everything without a word, and then a connection waits for as long as the
kernel believes in it. So a thread looks at what is under way, twice a second, and cuts connections
whose answer is overdue: whoever waits gets an error, as if the server had gone, and tries again on
another connection. An operation pays for it with an entry in a dict.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.rows import TupleRow

LOOK_EVERY = 0.25
LONGEST = 60.0
"""Seconds for what no lease depends on, and what may rightly take long."""
SHORTEST = 1.0

_HURRIED = frozenset({"claim", "extend", "expired", "save_worker", "get", "blocker_outputs"})


class Deadlines:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._lease = LONGEST
        self._under_way: dict[int, tuple[float, int]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopped.clear()
        self._thread = threading.Thread(
            target=self._watch, name="headway-postgres-deadlines", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def limit(self, operation: Callable[..., Any], args: tuple[Any, ...]) -> float:
        """Seconds that one try may take. The shortest lease that was asked for counts: a sixth of
        it leaves room for further tries before it runs out."""
        name = operation.__name__
        if name == "claim":
            self._lease = min(self._lease, args[0].lease_for)
        if name in _HURRIED:
            return max(self._lease / 6, SHORTEST)
        if name == "settle":
            return max(self._lease / 2, 5 * SHORTEST)
        return LONGEST

    @contextmanager
    def within(
        self, seconds: float, connection: AsyncConnection[TupleRow] | Connection[TupleRow]
    ) -> Generator[None]:
        """Cut the connection if the block is not left in time."""
        key = id(connection)
        self._under_way[key] = (time.monotonic() + seconds, connection.pgconn.socket)
        try:
            yield
        finally:
            self._under_way.pop(key, None)

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            now = time.monotonic()
            for key, (deadline, number) in list(self._under_way.items()):
                if deadline <= now and self._under_way.pop(key, None) is not None:
                    _cut(number)


def _cut(number: int) -> None:
    """Shut the socket down, so that whoever reads from it hears that it has ended; closing it is
    left to its owner."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as ours:
        ours.shutdown(socket.SHUT_RDWR)
