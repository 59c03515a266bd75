"""Limits of queues in tests of users: they hold, and the clock lets them pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import After, Headway, Job, JobState, Rate
from headway.testing.app_under_test import AppUnderTest

PATIENCE = 20.0
STORES = ["memory", "sqlite"]


@pytest.fixture(params=STORES)
def headway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AppUnderTest]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'test.db'}"
    with AppUnderTest(Headway("memory://"), url) as headway:
        yield headway


async def drain(headway: AppUnderTest) -> None:
    async with asyncio.timeout(PATIENCE):
        await headway.drain()


async def test_a_rate_holds_until_the_clock_moves(headway: AppUnderTest) -> None:
    app, ran = headway.app, list[int]()

    @app.job(queue="x")
    async def ask(number: int) -> None:
        ran.append(number)

    app.queue("x", rate=Rate(3, per=60, burst=2))
    await app.start_many([ask.request(number) for number in range(6)])
    await drain(headway)
    assert ran == [0, 1]
    await drain(headway)
    assert ran == [0, 1], "time stands still"
    headway.clock.advance(31)
    await drain(headway)
    assert ran == [0, 1, 2]
    for _ in range(4):
        headway.clock.advance(31)
        await drain(headway)
    assert ran == [0, 1, 2, 3, 4, 5]


async def test_a_hold_passes_with_the_clock_and_costs_no_attempt(headway: AppUnderTest) -> None:
    app, attempts = headway.app, list[int]()

    @app.job(queue="x")
    async def ask(job: Job) -> str:
        attempts.append(job.attempt)
        if len(attempts) == 1:
            job.hold(After(seconds=20))
        return "answer"

    other = await app.start(ask.request())
    started = await app.start(ask.request())
    await drain(headway)
    headway.clock.advance(19)
    await drain(headway)
    assert attempts == [1]
    headway.clock.advance(1)
    await drain(headway)
    assert attempts == [1, 1, 1]
    for job in (other, started):
        record = await app.get(job)
        assert (record.state, record.attempts, record.losses) == (JobState.COMPLETED, 0, 0)


async def test_what_a_handler_spends_keeps_the_next_job_waiting(headway: AppUnderTest) -> None:
    app, ran = headway.app, list[int]()

    @app.job(queue="x")
    async def ask(job: Job, number: int) -> None:
        ran.append(number)
        job.spent(59)

    app.queue("x", rate=Rate(60, per=60, burst=60))
    await app.start_many([ask.request(number) for number in range(2)])
    await drain(headway)
    headway.clock.advance(61)
    await drain(headway)
    assert ran == [0, 1]


async def test_a_crashed_worker_keeps_its_permit_until_its_lease_ends(
    headway: AppUnderTest,
) -> None:
    app, ran = headway.app, list[int]()

    @app.job(queue="x")
    async def ask(number: int) -> None:
        ran.append(number)

    app.queue("x", running=1)
    await app.start_many([ask.request(number) for number in range(2)])
    headway.crash_at("claimed")
    await drain(headway)
    assert headway.crashed
    await drain(headway)
    assert ran == []
    headway.clock.advance(31)
    await drain(headway)
    assert ran == [0, 1]


async def test_a_job_started_inline_by_one_with_the_only_permit_runs_after_it(
    headway: AppUnderTest,
) -> None:
    app, ran = headway.app, list[str]()

    @app.job(queue="x")
    async def inner() -> None:
        ran.append("inner")

    @app.job(queue="x")
    async def outer() -> None:
        await app.start(inner.request())
        ran.append("outer")

    app.queue("x", running=1)
    async with asyncio.timeout(PATIENCE):
        with headway.inline():
            await app.start(outer.request())
    assert ran == ["outer", "inner"]


def test_limits_hold_in_tests_without_an_event_loop(headway: AppUnderTest) -> None:
    app, ran = headway.app, list[int]()

    @app.job(queue="x", key="tenant")
    async def ask(tenant: int) -> None:
        ran.append(tenant)

    app.queue("x", rate=Rate(1, per=60), per_key=1)
    app.sync.start_many([ask.request(number) for number in (1, 2)])
    headway.drain_sync()
    assert ran == [1]
    headway.clock.advance(61)
    headway.drain_sync()
    assert ran == [1, 2]
