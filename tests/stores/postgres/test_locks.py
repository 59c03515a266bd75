"""Whoever holds jobs holds up nobody but those who want the same jobs, and nobody for ever."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest

from headway.domain.job import ClaimedJob, JobState, NewJob
from headway.domain.lease import Held, Verdict
from headway.domain.lifecycle import after_expiry
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Complete, Retry, Settlement
from headway.jobs.ids import new_id, new_token
from headway.stores.postgres import PostgresStore
from tests.support.stores import opened
from tests.system.races.between import Others, interrupted


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    async with opened(PostgresStore(postgres_url)) as store:
        yield store


async def test_a_reaper_passes_by_a_job_that_is_being_completed(store: PostgresStore) -> None:
    await store.run(
        store.insert, [NewJob(id=new_id(), type="t", input="{}", max_losses=9) for _ in range(3)]
    )
    token = new_token()
    order = ClaimOrder(
        worker="w",
        token=token,
        lease_for=1,
        queues=(QueueShare("default", 9),),
        types=("t",),
        limit=9,
    )
    held, *others = await store.run(store.claim, order)
    later = datetime.now(UTC) + timedelta(minutes=5)
    async with store.begin() as tx, asyncio.timeout(10):
        # As the worker does it: the lease lasts as long as the transaction, for its holder.
        assert await store.run_in(tx, store.extend, [Held(held.id, token)], 3600) == [
            Verdict.APPLIED
        ]
        expired = await store.run(store.expired, 10, now=later)
        assert {job.id for job in expired} == {job.id for job in others}
        settled = await store.run(store.settle, [after_expiry(job) for job in expired], now=later)
        assert settled.verdicts == [Verdict.APPLIED] * 2
        done = await store.run_in(tx, store.settle, [Complete(held.id, token, None)])
        assert done.verdicts == [Verdict.APPLIED]
    assert await store.run(store.expired, 10, now=later) == []


async def claimed(store: PostgresStore, count: int) -> list[ClaimedJob]:
    """Running jobs, by id."""
    await store.run(store.insert, [NewJob(id=new_id(), type="t", input="{}") for _ in range(count)])
    order = ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=60,
        queues=(QueueShare("default", count),),
        types=("t",),
        limit=count,
    )
    return sorted(await store.run(store.claim, order), key=lambda job: job.id)


def completed(job: ClaimedJob) -> Settlement:
    return Complete(job.id, job.lease.token, None)


def continued(type: str, job: ClaimedJob) -> Settlement:
    following = NewJob(
        id=new_id(), type=type, input="{}", sequence_id=job.id, root_id=job.id, position=1
    )
    return Complete(job.id, job.lease.token, None, following)


def retried(job: ClaimedJob) -> Settlement:
    return Retry(job.id, job.lease.token, 0.0, "{}")


MIXED: list[tuple[Callable[[ClaimedJob], Settlement], Callable[[ClaimedJob], Settlement]]] = [
    (completed, retried),
    (partial(continued, "a"), retried),
    (partial(continued, "a"), partial(continued, "b")),
    (completed, partial(continued, "a")),
]


@pytest.mark.parametrize("lower_first", [True, False])
@pytest.mark.parametrize("kinds", MIXED)
async def test_a_renewal_between_any_two_statements_of_a_mixed_batch(
    store: PostgresStore,
    postgres_url: str,
    kinds: tuple[Callable[[ClaimedJob], Settlement], Callable[[ClaimedJob], Settlement]],
    lower_first: bool,
) -> None:
    """Neither waits for what the other holds while it holds what the other wants."""
    settling, renewing = psycopg.connect(postgres_url), psycopg.connect(postgres_url)
    others = Others(postgres_url)

    async def try_at(place: int) -> bool:
        jobs = await claimed(store, 2)
        first, second = jobs if lower_first else jobs[::-1]
        batch = [kinds[0](first), kinds[1](second)]
        held = [Held(job.id, job.lease.token) for job in jobs]

        def renew() -> None:
            store.run_in_sync(renewing, store.extend, held, 60)
            renewing.commit()

        found = await asyncio.to_thread(
            store.run_in_sync,
            settling,
            interrupted,
            store.settle(batch),
            place,
            lambda: others.act(renew),
        )
        settling.commit()
        others.end()
        states = [job and job.state for job in await store.run(store.get, [first.id, second.id])]
        assert states == [
            JobState.PENDING if kind is retried else JobState.COMPLETED for kind in kinds
        ]
        return found

    with closing(settling), closing(renewing), closing(others):
        for place in itertools.count():
            if not await try_at(place):
                break
