"""Which of its connections the PostgreSQL store uses next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from headway.stores.postgres import connection_reuse
from headway.stores.postgres.connection_reuse import KEPT, ReusedConnections
from headway.stores.postgres.connections import own_pool

SESSIONS = """select pid from pg_stat_activity where application_name = 'headway'
    and datname = current_database() and backend_type = 'client backend'"""


def sessions(url: str) -> set[int]:
    with psycopg.connect(url) as connection:
        return {pid for (pid,) in connection.execute(SESSIONS)}


@pytest.fixture
async def borrowed(postgres_url: str) -> AsyncIterator[ReusedConnections]:
    found = ReusedConnections(own_pool(postgres_url, 4))
    await found.open()
    yield found
    await found.close()


async def use(borrowed: ReusedConnections) -> int:
    """Who answers."""
    connection = await borrowed.take(30)
    await connection.execute("select 1")
    await borrowed.put(connection)
    return connection.info.backend_pid


async def take(borrowed: ReusedConnections, count: int) -> list[AsyncConnection[TupleRow]]:
    return [await borrowed.take(30) for _ in range(count)]


async def test_the_last_one_used_is_the_next(borrowed: ReusedConnections) -> None:
    await use(borrowed)
    assert len({await use(borrowed) for _ in range(20)}) == 1


async def test_some_are_kept_at_hand_the_others_are_the_pools(borrowed: ReusedConnections) -> None:
    await use(borrowed)
    taken = await take(borrowed, 4)
    assert len({each.info.backend_pid for each in taken}) == 4
    for each in taken:
        await borrowed.put(each)
    again = await take(borrowed, KEPT)
    assert again == taken[:KEPT][::-1]
    for each in again:
        await borrowed.put(each)


async def test_who_waits_for_a_connection_is_given_the_next(borrowed: ReusedConnections) -> None:
    await use(borrowed)
    taken = await take(borrowed, 4)
    waiting = [asyncio.create_task(borrowed.take(30)) for _ in range(3)]
    await asyncio.sleep(0)
    for each in taken:
        await borrowed.put(each)
    async with asyncio.timeout(30):
        given = await asyncio.gather(*waiting)
    assert set(given) <= set(taken)
    for each in given:
        await borrowed.put(each)


async def test_one_that_is_broken_or_in_a_transaction_is_not_kept(
    borrowed: ReusedConnections,
) -> None:
    await use(borrowed)
    broken, busy = await take(borrowed, 2)
    gone = broken.info.backend_pid
    await broken.close()
    await busy.execute("begin")
    await borrowed.put(broken)
    await borrowed.put(busy)
    assert gone not in {await use(borrowed) for _ in range(5)}
    (fresh,) = await take(borrowed, 1)
    assert fresh.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    await borrowed.put(fresh)


async def test_the_pool_has_its_say_after_a_while(
    borrowed: ReusedConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_reuse, "KEPT_FOR", 0.0)
    taken = await take(borrowed, 3)
    for each in taken:
        await borrowed.put(each)
    assert len({await use(borrowed) for _ in range(20)}) >= 3, "the pool's, in turn"


async def test_none_is_used_again_after_a_drain(borrowed: ReusedConnections) -> None:
    await use(borrowed)
    taken = await take(borrowed, 3)
    before = {each.info.backend_pid for each in taken}
    for each in taken[1:]:
        await borrowed.put(each)
    await borrowed.drain()
    await borrowed.put(taken[0])
    assert await use(borrowed) not in before
    after = await take(borrowed, 3)
    assert before.isdisjoint({each.info.backend_pid for each in after})
    for each in after:
        await borrowed.put(each)


async def test_closing_closes_all(postgres_url: str) -> None:
    borrowed = ReusedConnections(own_pool(postgres_url, 4))
    await borrowed.open()
    await use(borrowed)
    last, *others = await take(borrowed, 3)
    for each in others:
        await borrowed.put(each)
    assert len(sessions(postgres_url)) >= 3
    await borrowed.close()
    await borrowed.put(last)
    async with asyncio.timeout(30):
        while sessions(postgres_url):
            await asyncio.sleep(0.01)
