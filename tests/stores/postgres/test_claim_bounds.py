"""What the PostgreSQL store remembers between claims, and how it finds what lies below."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import psycopg
import pytest

from headway.domain.job import ClaimedJob, NewJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Release, Retry
from headway.jobs.ids import new_id, new_token
from headway.stores.postgres import PostgresStore
from headway.stores.postgres.claim_bounds import EVERYWHERE, LOOK_AROUND_EVERY, ClaimBounds
from tests.support.stores import opened


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(PostgresStore(postgres_url)) as store:
        yield store


def new_job(**fields: object) -> NewJob:
    return NewJob(**{"id": new_id(), "type": "t", "input": "{}", **fields})


async def claim(
    store: PostgresStore, limit: int = 100, queues: tuple[QueueShare, ...] | None = None
) -> list[ClaimedJob]:
    return await store.run(
        store.claim,
        ClaimOrder(
            worker="w",
            token=new_token(),
            lease_for=30,
            queues=queues or (QueueShare("default", limit),),
            types=("t",),
            limit=limit,
        ),
    )


async def look_for(store: PostgresStore, job_id: str) -> float:
    """Claim until this job shows; seconds it took."""
    started = time.monotonic()
    while time.monotonic() - started < 10:
        if job_id in [job.id for job in await claim(store)]:
            return time.monotonic() - started
    raise AssertionError("it was never found")


async def hidden_job(store: PostgresStore, url: str) -> tuple[psycopg.AsyncConnection, str]:
    """A job stored in a transaction that is still open, below the bound of a later claim."""
    connection = await psycopg.AsyncConnection.connect(url)
    late = new_job()
    await store.run_in(connection, store.insert, [late])
    await store.run(store.insert, [new_job()])
    assert len(await claim(store)) == 1
    return connection, late.id


async def test_a_late_commit_is_found_by_looking_around(
    store: PostgresStore, postgres_url: str
) -> None:
    connection, late = await hidden_job(store, postgres_url)
    await connection.commit()
    await connection.close()
    assert await look_for(store, late) < LOOK_AROUND_EVERY + 1


async def test_a_hint_that_names_its_time_finds_a_late_commit_at_once(
    store: PostgresStore, postgres_url: str
) -> None:
    connection, late = await hidden_job(store, postgres_url)
    await connection.commit()
    await connection.close()
    record = (await store.run(store.get, [late]))[0]
    assert record is not None
    store.expect("default", record.run_at)
    assert [job.id for job in await claim(store)] == [late]


async def test_a_hint_finds_a_priority_that_was_not_known(store: PostgresStore) -> None:
    await store.run(store.insert, [new_job()])
    assert len(await claim(store)) == 1
    urgent = new_job(priority=9)
    (stored,) = await store.run(store.insert, [urgent])
    store.expect("default", stored.run_at)
    assert [job.id for job in await claim(store)] == [urgent.id]


async def test_an_unknown_priority_is_found_without_a_hint(store: PostgresStore) -> None:
    await store.run(store.insert, [new_job()])
    assert len(await claim(store)) == 1
    urgent = new_job(priority=9)
    await store.run(store.insert, [urgent])
    assert await look_for(store, urgent.id) < LOOK_AROUND_EVERY + 1


async def test_what_is_given_back_is_found(store: PostgresStore) -> None:
    await store.run(store.insert, [new_job(), new_job()])
    first, second = await claim(store)
    await store.run(
        store.settle,
        [
            Release(first.id, first.lease.token),
            Retry(second.id, second.lease.token, 0.0, "{}"),
        ],
    )
    await store.run(store.insert, [new_job()])
    found = {job.id for job in await claim(store)}
    while not found >= {first.id, second.id}:
        found |= {job.id for job in await claim(store)}


async def test_limits_of_queues_hold_over_all_their_priorities(store: PostgresStore) -> None:
    await store.run(
        store.insert,
        [
            new_job(queue=queue, priority=priority)
            for queue in ("a", "b", "c")
            for priority in (1, 2, 3)
            for _ in range(5)
        ],
    )
    shares = (QueueShare("b", 4), QueueShare("a", 7), QueueShare("c", 100))
    claimed = await claim(store, 20, shares)
    assert [(job.queue, job.priority) for job in claimed] == [
        *[("b", 3)] * 4,
        *[("a", 3)] * 5,
        *[("a", 2)] * 2,
        *[("c", 3)] * 5,
        *[("c", 2)] * 4,
    ]


async def test_other_types_do_not_share_a_bound(store: PostgresStore) -> None:
    other = new_job(type="u")
    await store.run(store.insert, [other])
    await store.run(store.insert, [new_job()])
    assert len(await claim(store)) == 1
    order = ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=30,
        queues=(QueueShare("default", 10),),
        types=("u",),
        limit=10,
    )
    assert [job.id for job in await store.run(store.claim, order)] == [other.id]


def test_ranges_that_share_a_statement() -> None:
    bounds = ClaimBounds()
    queues = [QueueShare("a", 10), QueueShare("b", 2), QueueShare("c", 10), QueueShare("d", 0)]
    bounds.learn(queues, [("a", 0), ("a", 5), ("b", 0), ("b", 5), ("c", 0), ("d", 0)])
    assert bounds.groups(queues, 10) == [
        ([("a", 5, EVERYWHERE, 10), ("a", 0, EVERYWHERE, 10)], 10),
        ([("b", 5, EVERYWHERE, 2), ("b", 0, EVERYWHERE, 2)], 2),
        ([("c", 0, EVERYWHERE, 10)], 10),
    ]
