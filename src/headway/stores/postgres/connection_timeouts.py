"""Closes connections whose answer is overdue.

If a network drops every packet, a connection waits for its answer until the kernel's TCP timeout.
So a thread looks at all running operations four times a second and shuts down the socket of each
one that is overdue. Its caller gets an error, as if the server had gone, and tries again on another
connection. An operation pays for this with an entry in a dict.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from psycopg import AsyncConnection, Connection
from psycopg.rows import TupleRow

LOOK_EVERY = 0.25
"""Seconds."""


class ConnectionTimeouts:
    """Safe to use from any thread."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[float, int]] = {}
        """Deadline and socket, by the id of the connection."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._stopped.clear()
        self._thread = threading.Thread(
            target=self._watch, name="headway-postgres-timeouts", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @contextmanager
    def within(
        self, seconds: float, connection: AsyncConnection[TupleRow] | Connection[TupleRow]
    ) -> Generator[None]:
        """Shut the connection's socket down if the block is not left in time."""
        key = id(connection)
        self._running[key] = (time.monotonic() + seconds, connection.pgconn.socket)
        try:
            yield
        finally:
            self._running.pop(key, None)

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            now = time.monotonic()
            for key, (deadline, number) in list(self._running.items()):
                if deadline <= now and self._running.pop(key, None) is not None:
                    _shut_down(number)


def _shut_down(number: int) -> None:
    """End the connection for its reader; its owner still closes the socket."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as ours:
        ours.shutdown(socket.SHUT_RDWR)
