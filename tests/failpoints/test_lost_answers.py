"""A commit that took, and whose answer never came: the connection breaks right after COMMIT, and
the store, which tries again by itself, must not do anything twice."""

from __future__ import annotations

import psycopg
import pytest

from headway.stores.postgres.connections import AsyncRunner
from tests.failpoints.shop import SCENARIOS, Shop
from tests.failpoints.watching import PostgresDatabase


class Breaking:
    """Breaks the first connections that commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
        self.left = times
        self._end = AsyncRunner.end

        async def end(runner: AsyncRunner) -> None:
            await self._end(runner)
            if self.left and runner._began:
                self.left -= 1
                await runner._connection.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(AsyncRunner, "end", end)


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_commit_whose_answer_is_lost_counts_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, scenario: str
) -> None:
    database = PostgresDatabase(postgres_url)
    await database.prepare()
    shop = Shop(postgres_url)
    async with shop.app:
        await shop.start(scenario, "here")
        broken = Breaking(monkeypatch, times=3)
        await shop.work("here")
    if scenario == "plain":  # the others commit in transactions of their own
        assert broken.left < 3
    database.look().check_ended("here", scenario)


async def test_a_start_whose_answer_is_lost_counts_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = PostgresDatabase(postgres_url)
    await database.prepare()
    shop = Shop(postgres_url)
    async with shop.app:
        broken = Breaking(monkeypatch, times=1)
        await shop.start("plain", "here")
        assert broken.left == 0
        assert len(database.look().jobs) == 2
        await shop.work("here")
    database.look().check_ended("here", "plain")
