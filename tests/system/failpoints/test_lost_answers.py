"""A commit that took, and whose answer never came: the connection breaks right after it, and the
store, which tries again by itself, must not do anything twice, nor leave anything to nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import psycopg
import pytest
from psycopg import AsyncTransaction

from headway.ports.statement import Row, Statement
from headway.stores.postgres import PostgresStore
from headway.stores.postgres.connections import PostgresRunner
from tests.system.failpoints.databases import PostgresDatabase
from tests.system.failpoints.shop import SCENARIOS, Shop

IN_TRANSACTIONS = ("staged", "atomic")
"""Scenarios whose jobs are completed in transactions that handlers write in."""
SETTLING = ("complete", "complete_continued", "complete_awaited")


class Breaking:
    """Breaks connections, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self._patch = monkeypatch

    def operations(self, store: Any, *statements: str) -> None:
        """Every second operation with one of these statements that finds rows, so that each is
        done in the end."""
        assert isinstance(store, PostgresStore)
        wanted = {store._sql[name] for name in statements}
        found: WeakSet[PostgresRunner] = WeakSet()
        seen = 0
        execute, end = PostgresRunner.execute, PostgresRunner.end

        async def watching_execute(runner: PostgresRunner, statement: Statement) -> Sequence[Row]:
            rows = await execute(runner, statement)
            if rows and statement.sql in wanted:
                found.add(runner)
            return rows

        async def breaking_end(runner: PostgresRunner) -> None:
            nonlocal seen
            await end(runner)
            if runner in found:
                seen += 1
                if seen % 2:
                    await self._break(runner._connection)

        self._patch.setattr(PostgresRunner, "execute", watching_execute)
        self._patch.setattr(PostgresRunner, "end", breaking_end)

    def transactions(self) -> None:
        """Every transaction of a handler's that wrote."""
        leave = AsyncTransaction.__aexit__

        async def breaking_leave(transaction: AsyncTransaction, *error: Any) -> bool:
            connection = transaction.connection
            wrote = False
            if error[0] is None:
                answer = await connection.execute("select pg_current_xact_id_if_assigned()")
                wrote = await answer.fetchone() != (None,)
            swallowed = await leave(transaction, *error)
            if wrote:
                await self._break(connection)
            return swallowed

        self._patch.setattr(AsyncTransaction, "__aexit__", breaking_leave)

    async def _break(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.times += 1
        await connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.fixture
async def database(postgres_url: str) -> PostgresDatabase:
    database = PostgresDatabase(postgres_url)
    await database.prepare()
    return database


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    return Breaking(monkeypatch)


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_commit_whose_answer_is_lost_counts_once(
    database: PostgresDatabase, broken: Breaking, scenario: str
) -> None:
    shop = Shop(database.dsn)
    async with shop.app:
        await shop.start(scenario, "here")
        if scenario in IN_TRANSACTIONS:
            broken.transactions()
        else:
            broken.operations(shop.store, *SETTLING)
        await shop.work("here")
    assert broken.times >= 2  # the first step, and the last
    database.look().check_ended("here", scenario)
    check_uncharged(database)


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_jobs_of_a_claim_whose_answer_is_lost_are_run(
    database: PostgresDatabase, broken: Breaking, scenario: str
) -> None:
    shop = Shop(database.dsn)
    async with shop.app:
        await shop.start(scenario, "here")
        broken.operations(shop.store, "claim")
        await shop.work("here")
    assert broken.times >= 2
    database.look().check_ended("here", scenario)
    check_uncharged(database)


async def test_a_start_whose_answer_is_lost_counts_once(
    database: PostgresDatabase, broken: Breaking
) -> None:
    shop = Shop(database.dsn)
    async with shop.app:
        broken.operations(shop.store, "insert")
        await shop.start("plain", "here")
        assert broken.times >= 1
        assert len(database.look().jobs) == 2
        await shop.work("here")
    database.look().check_ended("here", "plain")


def check_uncharged(database: PostgresDatabase) -> None:
    """Nobody's lease ran out, and no failure was noted for what was the connection's fault."""
    with psycopg.connect(database.dsn) as connection:
        charged = connection.execute(
            "select type, state, attempts, losses from headway.job where losses > 0 or attempts > 0"
        ).fetchall()
    assert charged == []
