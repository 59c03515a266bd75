"""Handlers, and what they call, that drop the cancellation by which they are told to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from headway.domain.job import JobState
from headway.jobs.job import Job
from headway.ports.current_attempt import current_attempt
from headway.worker import attempt
from headway.worker.attempt import TIMEOUT, Attempt
from tests.support.worker_harness import WorkerHarness


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "FIRST_PAUSE", 0.02)


def interrupted_when_done(*, later: bool = False) -> asyncio.Future[None]:
    """A future; the handler that waits for it is told to stop when it is done, or one step of the
    loop later, when whoever waits with `wait_for` has not been told yet."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    attempt = current_attempt.get()
    assert isinstance(attempt, Attempt)

    def end() -> None:
        future.set_result(None)
        if later:
            loop.call_soon(attempt.interrupt, TIMEOUT)
        else:
            attempt.interrupt(TIMEOUT)

    loop.call_soon(end)
    return future


async def plainly(future: asyncio.Future[None]) -> None:
    await future


async def with_wait_for(future: asyncio.Future[None]) -> None:
    await asyncio.wait_for(future, 60)


async def with_a_careless_block(future: asyncio.Future[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await future


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("wait", [plainly, with_wait_for, with_a_careless_block])
async def test_a_handler_ends_even_if_the_first_cancellation_is_dropped(
    harness: WorkerHarness, wait: Callable[[asyncio.Future[None]], Awaitable[None]], later: bool
) -> None:
    @harness.job(timeout=60, max_attempts=1)
    async def work() -> None:
        await wait(interrupted_when_done(later=later))
        await asyncio.sleep(60)

    (job_id,) = await harness.start(work.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.FAILED


async def test_a_handler_that_drops_many_ends_at_last(harness: WorkerHarness) -> None:
    dropped: list[str] = []

    @harness.job(timeout=0.05, max_attempts=1)
    async def stubborn() -> None:
        while len(dropped) < 4:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError as error:
                dropped.append(str(error))
        await asyncio.sleep(60)

    (job_id,) = await harness.start(stubborn.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.FAILED
    assert dropped == [TIMEOUT] * 4


@pytest.mark.parametrize("wait", [plainly, lambda _: asyncio.Event().wait()])
async def test_a_handler_that_cleans_up_is_not_cancelled_again(
    harness: WorkerHarness, wait: Callable[[asyncio.Future[None]], Awaitable[None]]
) -> None:
    cleaned: list[str | None] = []

    @harness.job(timeout=60, max_attempts=1)
    async def careful(job: Job) -> None:
        try:
            await wait(interrupted_when_done())
        finally:
            await asyncio.gather(asyncio.sleep(0.5))  # many of the pauses
            cleaned.append(job.interruption)

    (job_id,) = await harness.start(careful.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.FAILED
    assert cleaned == [TIMEOUT]
