"""Reuses the connection that was used last.

A pool hands out its connections in turn, but a server process that has just worked is faster than
one that has slept: it saves a tenth of a single insert. So the last connections are kept for a
while before they go back to the pool.
"""

from __future__ import annotations

import time

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

KEPT = 2
"""Connections kept: a worker claims and commits at the same time."""
KEPT_FOR = 60.0
"""Seconds after which they go back to the pool, which replaces old connections."""


class ReusedConnections:
    """Connections of a pool, used on the pool's own event loop."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection[TupleRow]]) -> None:
        self._pool = pool
        self._kept: list[AsyncConnection[TupleRow]] = []
        self._keepable: set[AsyncConnection[TupleRow]] = set()
        """Connections that have come from the pool since it was drained last."""
        self._waiting = 0
        self._keep_until = 0.0

    async def open(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close()
        await self._give_all_back()

    async def take(self, timeout: float) -> AsyncConnection[TupleRow]:
        if self._kept:
            return self._kept.pop()
        self._waiting += 1
        try:
            connection = await self._pool.getconn(timeout)
        finally:
            self._waiting -= 1
        self._keepable.add(connection)
        return connection

    async def put(self, connection: AsyncConnection[TupleRow]) -> None:
        now = time.monotonic()
        if now >= self._keep_until:
            self._keep_until = now + KEPT_FOR
            await self._give_all_back()
        elif (
            not self._waiting
            and not self._pool.closed
            and len(self._kept) < KEPT
            and connection in self._keepable
            and connection.pgconn.transaction_status == TransactionStatus.IDLE
        ):
            self._kept.append(connection)
            return
        await self._give_back(connection)

    async def drain(self) -> None:
        """Use none of these connections again, those that are in use included."""
        self._keepable.clear()
        await self._pool.drain()
        await self._give_all_back()

    async def _give_all_back(self) -> None:
        while self._kept:
            await self._give_back(self._kept.pop())

    async def _give_back(self, connection: AsyncConnection[TupleRow]) -> None:
        self._keepable.discard(connection)
        await self._pool.putconn(connection)
