"""Executions that take too long."""

from __future__ import annotations

import asyncio
import contextlib
import time

from headway.domain.events import LeaseRenewed
from headway.domain.failure import decode_failure
from headway.domain.job import JobState
from headway.errors import JobInterrupted
from headway.jobs.job import Job
from tests.support.worker_harness import AT_ONCE, WorkerHarness


async def test_an_async_handler_is_cancelled_and_charged(harness: WorkerHarness) -> None:
    reasons: list[str | None] = []

    @harness.job(timeout=0.05, max_attempts=2, retry=AT_ONCE)
    async def sleepy(job: Job) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            reasons.append(job.interruption)
            raise

    (job_id,) = await harness.start(sleepy.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.FAILED, 2)
    assert reasons == ["timeout", "timeout"]
    assert job.last_error is not None
    failure = decode_failure(job.last_error)
    assert (failure.type, failure.message) == (
        "TimeoutError",
        "the execution took longer than its timeout of 0.05 s",
    )


async def test_a_result_that_comes_too_late_does_not_count(harness: WorkerHarness) -> None:
    @harness.job(timeout=0.05, max_attempts=1)
    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        return "too late"

    (job_id,) = await harness.start(stubborn.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.output) == (JobState.FAILED, None)


async def test_a_handler_in_a_thread_is_told_and_waited_for(harness: WorkerHarness) -> None:
    reasons: list[str] = []

    @harness.job(timeout=0.05, max_attempts=1)
    def busy(job: Job) -> None:
        try:
            while True:
                time.sleep(0.005)
                job.check()
        except JobInterrupted as interrupted:
            reasons.append(interrupted.reason)
            raise

    (job_id,) = await harness.start(busy.request())
    await harness.drain()
    assert reasons == ["timeout"]
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert job.last_error is not None
    assert decode_failure(job.last_error).type == "TimeoutError"


async def test_a_job_that_ends_in_time_is_left_alone(harness: WorkerHarness) -> None:
    @harness.job(timeout=5)
    async def quick() -> str:
        await asyncio.sleep(0)
        return "done"

    (job_id,) = await harness.start(quick.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.COMPLETED


async def test_a_handler_that_takes_long_to_end_after_its_timeout_keeps_its_lease(
    harness: WorkerHarness,
) -> None:
    runs = 0

    @harness.job(timeout=0.05, max_attempts=1)
    async def tidy() -> None:
        nonlocal runs
        runs += 1
        try:
            await asyncio.sleep(30)
        finally:
            renewed = len(harness.seen(LeaseRenewed))
            await harness.until(lambda: len(harness.seen(LeaseRenewed)) >= renewed + 4)

    (job_id,) = await harness.start(tidy.request())
    await harness.drain(lease_for=2.0)
    job = await harness.get(job_id)
    assert (runs, job.state, job.attempts, job.losses) == (1, JobState.FAILED, 1, 0)
