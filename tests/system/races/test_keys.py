"""Sixteen transactions at once start a job under one deduplication key: one sequence comes of it,
whatever the driver and the isolation level."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection, IsolationLevel

from headway import Dedup, Headway

AT_ONCE = 16
KEYS = 10

Answer = tuple[str, bool]
"""The sequence that a caller was given, and whether it existed already."""


class Shop:
    def __init__(self, dsn: str) -> None:
        self.app = Headway(dsn, migrate=True)

        @self.app.job
        async def charge(order: int) -> None: ...

        self.charge = charge


def one_created(answers: list[Answer]) -> str:
    """All were given the same sequence, and one of them created it."""
    assert len(answers) == AT_ONCE
    (created,) = [id for id, existed in answers if not existed]
    assert {id for id, _ in answers} == {created}
    return created


@pytest.mark.parametrize(
    "isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ]
)
async def test_async_transactions_on_postgres(postgres_url: str, isolation: IsolationLevel) -> None:
    shop = Shop(postgres_url)
    refused = 0

    async def start(connection: AsyncConnection, key: str, gate: asyncio.Barrier) -> Answer:
        nonlocal refused
        waiting = True
        while True:
            try:
                async with connection.transaction():
                    await connection.execute("select 1")  # REPEATABLE READ: the snapshot is taken
                    if waiting:
                        waiting = False
                        await gate.wait()
                    request = shop.charge.request(7)
                    sequence = await shop.app.start(request, dedup=Dedup(key), tx=connection)
            except psycopg.errors.SerializationFailure:
                refused += 1  # as PostgreSQL asks: try the transaction again
            else:
                return sequence.id, sequence.deduplicated

    async with shop.app:
        connections = [await AsyncConnection.connect(postgres_url) for _ in range(AT_ONCE)]
        for connection in connections:
            await connection.set_isolation_level(isolation)
        created: set[str] = set()
        for number in range(KEYS):
            gate = asyncio.Barrier(AT_ONCE)
            answers = await asyncio.gather(
                *[start(connection, f"key-{number}", gate) for connection in connections]
            )
            created.add(one_created(answers))
        for connection in connections:
            await connection.close()
        assert {job.id for job in (await shop.app.list()).jobs} == created
    if isolation is IsolationLevel.REPEATABLE_READ:
        assert refused > 0
    else:
        assert refused == 0


def in_threads(start: Callable[[], Answer]) -> list[Answer]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [future.result() for future in [threads.submit(start) for _ in range(AT_ONCE)]]


def test_blocking_transactions_on_postgres(postgres_url: str) -> None:
    shop = Shop(postgres_url)
    with shop.app.sync as client:
        created: set[str] = set()
        for number in range(KEYS):
            gate = threading.Barrier(AT_ONCE)

            def start(key: str = f"key-{number}", gate: threading.Barrier = gate) -> Answer:
                with psycopg.connect(postgres_url) as connection:
                    gate.wait()
                    request = shop.charge.request(7)
                    sequence = client.start(request, dedup=Dedup(key), tx=connection)
                    return sequence.id, sequence.deduplicated

            created.add(one_created(in_threads(start)))
        assert {job.id for job in client.list().jobs} == created


def test_connections_to_sqlite(sqlite_path: Path) -> None:
    shop = Shop(f"sqlite:///{sqlite_path}")
    with shop.app.sync as client:
        created: set[str] = set()
        for number in range(KEYS):
            gate = threading.Barrier(AT_ONCE)

            def start(key: str = f"key-{number}", gate: threading.Barrier = gate) -> Answer:
                with closing(sqlite3.connect(sqlite_path, timeout=60)) as connection, connection:
                    gate.wait()
                    request = shop.charge.request(7)
                    sequence = client.start(request, dedup=Dedup(key), tx=connection)
                    return sequence.id, sequence.deduplicated

            created.add(one_created(in_threads(start)))
        assert {job.id for job in client.list().jobs} == created
