"""Writers of one process on one SQLite file: they take turns, and hear who keeps them waiting."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from headway.domain.job import NewJob
from headway.errors import StoreError
from headway.jobs.ids import new_id
from headway.stores.sqlite import SqliteStore
from headway.stores.sqlite.write_turns import WriteTurns
from tests.support.stores import opened

PATIENCE = 20.0


@pytest.fixture
async def store(sqlite_path: Path) -> AsyncIterator[SqliteStore]:
    async with opened(SqliteStore(sqlite_path, busy_for=0.3)) as store:
        yield store


def job() -> NewJob:
    return NewJob(id=new_id(), type="noop", input="{}")


async def test_a_transaction_of_this_process_is_named(store: SqliteStore) -> None:
    async with store.begin():
        with pytest.raises(StoreError, match=r"transaction of this process .* pass tx=job\.tx"):
            await store.run(store.insert, [job()])
        with pytest.raises(StoreError, match="transaction of this process"):
            async with store.begin():
                pass
    await store.run(store.insert, [job()])


async def test_a_transaction_of_somebody_else_is_named(
    store: SqliteStore, sqlite_path: Path
) -> None:
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreError, match="or in another program"):
            await store.run(store.insert, [job()])
        other.execute("rollback")
    await store.run(store.insert, [job()])


async def test_closing_does_not_wait_for_a_locked_file(sqlite_path: Path) -> None:
    store = SqliteStore(sqlite_path, busy_for=600.0)
    await store.migrate()
    await store.open()
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("begin immediate")
        inserting = asyncio.create_task(store.run(store.insert, [job()]))
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            await store.close()
            with pytest.raises(StoreError):
                await inserting


async def test_what_is_to_be_stored_comes_before_the_next_transaction(store: SqliteStore) -> None:
    async def stored() -> int:
        async with store.begin() as tx:
            (count,) = tx.execute("select count(*) from headway_job").fetchone()
            return count

    async with asyncio.timeout(PATIENCE), store.begin():
        inserting = asyncio.create_task(store.run(store.insert, [job()]))
        while not store._turns._waiting:
            await asyncio.sleep(0.001)
        counting = asyncio.create_task(stored())
        while len(store._turns._waiting) < 2:
            await asyncio.sleep(0.001)
    async with asyncio.timeout(PATIENCE):
        await inserting
        assert await counting == 1


async def test_a_turn_that_nobody_waits_for_any_more_is_passed_on() -> None:
    turns = WriteTurns()
    ours = threading.Event()

    async def wait() -> None:
        async with turns.awaited(PATIENCE):
            ours.set()

    for give_first in (True, False):
        ours.clear()
        async with asyncio.timeout(PATIENCE):
            held = turns.awaited(PATIENCE)
            await held.__aenter__()
            first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if give_first:
                await held.__aexit__(None, None, None)
                first.cancel()
            else:
                first.cancel()
                await held.__aexit__(None, None, None)
            await asyncio.gather(first, return_exceptions=True)
            await second
            assert ours.is_set()
    with turns.waited(1.0, lambda: math.inf):
        pass
