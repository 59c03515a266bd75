"""Stopping a worker: gracefully, in a hurry, twice, too early, and when it has nothing to do."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, ParamSpec, TypeVar

import pytest

from headway.domain.events import (
    JobCompleted,
    JobReleased,
    LeaseLost,
    WorkerRecovered,
    WorkerStopped,
    WorkerStopping,
    WorkerTroubled,
)
from headway.domain.job import JobState
from headway.errors import ConfigurationError, JobInterrupted, StoreClosed
from headway.jobs.job import Job
from headway.notifiers.local import LocalNotifier
from headway.ports.notifications import EVERYTHING, Interest
from headway.ports.notifier import Disposer, Listener
from tests.support.faulty_store import FaultyStore
from tests.support.worker_harness import WorkerHarness

P = ParamSpec("P")
T = TypeVar("T")


class Slow:
    """Jobs that run until they are let go."""

    def __init__(self, harness: WorkerHarness) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.reasons: list[str | None] = []

        @harness.job
        async def slow(job: Job) -> None:
            self.begun.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.reasons.append(job.interruption)
                raise

        self.request = slow.request


async def test_running_jobs_end_and_waiting_ones_are_given_back(harness: WorkerHarness) -> None:
    slow = Slow(harness)
    first, second, third = await harness.start(*(slow.request() for _ in range(3)))
    worker = harness.worker(concurrency=1, prefetch_for=0)
    running = asyncio.create_task(worker.run())
    await slow.begun.wait()
    worker.request_stop()
    await harness.event(WorkerStopping)
    assert not running.done()
    slow.go.set()
    await running
    states = [await harness.state(job_id) for job_id in (first, second, third)]
    assert states == [JobState.COMPLETED, JobState.PENDING, JobState.PENDING]
    assert isinstance(harness.events[-1], WorkerStopped)


async def test_claimed_jobs_that_have_not_started_are_released_uncharged(
    harness: WorkerHarness,
) -> None:
    slow = Slow(harness)

    @harness.job
    async def quick() -> None: ...

    await harness.start(*(quick.request() for _ in range(3_000)))
    job_ids = await harness.start(*(slow.request() for _ in range(10)))
    worker = harness.worker(concurrency=2)
    running = asyncio.create_task(worker.run())
    await slow.begun.wait()
    worker.request_stop()
    slow.go.set()
    await running
    released = [event.job_id for event in harness.seen(JobReleased)]
    jobs = [await harness.get(job_id) for job_id in job_ids]
    assert released, "short jobs before should have made it claim ahead"
    assert {job.state for job in jobs} <= {JobState.PENDING, JobState.COMPLETED}
    assert all(job.attempts == job.losses == 0 and job.lease is None for job in jobs)


async def test_what_does_not_end_within_the_grace_time_is_interrupted_and_released(
    harness: WorkerHarness,
) -> None:
    slow = Slow(harness)
    (job_id,) = await harness.start(slow.request())
    worker = harness.worker(grace=0.05)
    running = asyncio.create_task(worker.run())
    await slow.begun.wait()
    worker.request_stop()
    await running
    job = await harness.get(job_id)
    assert slow.reasons == ["shutdown"]
    assert (job.state, job.attempts, job.losses) == (JobState.PENDING, 0, 0)
    assert harness.seen(JobReleased, job_id=job_id)


async def test_a_second_stop_interrupts_at_once(harness: WorkerHarness) -> None:
    slow = Slow(harness)
    (job_id,) = await harness.start(slow.request())
    worker = harness.worker(grace=60)
    running = asyncio.create_task(worker.run())
    await slow.begun.wait()
    worker.request_stop()
    await harness.event(WorkerStopping)
    worker.request_stop()
    async with asyncio.timeout(30):
        await running
    assert slow.reasons == ["shutdown"]
    assert await harness.state(job_id) is JobState.PENDING


async def test_cancelling_run_gives_jobs_back_too(harness: WorkerHarness) -> None:
    slow = Slow(harness)
    (job_id,) = await harness.start(slow.request())
    worker = harness.worker(grace=60)
    running = asyncio.create_task(worker.run())
    await slow.begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await harness.state(job_id) is JobState.PENDING
    assert isinstance(harness.events[-1], WorkerStopped)


async def test_a_handler_that_ends_well_though_interrupted_is_completed(
    harness: WorkerHarness,
) -> None:
    begun = asyncio.Event()

    @harness.job
    async def saves_its_work() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "saved"
        return "done"

    (job_id,) = await harness.start(saves_its_work.request())
    worker = harness.worker(grace=0)
    running = asyncio.create_task(worker.run())
    await begun.wait()
    worker.request_stop()
    await running
    assert (await harness.get(job_id)).output == '"saved"'


async def test_a_handler_in_a_thread_can_be_told_to_stop(harness: WorkerHarness) -> None:
    begun = threading.Event()

    @harness.job
    def busy(job: Job) -> None:
        begun.set()
        while True:
            time.sleep(0.005)
            job.check()

    (job_id,) = await harness.start(busy.request())
    worker = harness.worker(grace=0.05)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(begun.wait)
    worker.request_stop()
    await running
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.PENDING, 0)


async def test_a_handler_in_a_thread_that_ends_after_the_grace_time_is_completed(
    harness: WorkerHarness,
) -> None:
    begun, go = threading.Event(), threading.Event()

    @harness.job
    def deaf() -> str:
        begun.set()
        go.wait()
        return "done"

    (job_id,) = await harness.start(deaf.request())
    worker = harness.worker(grace=0)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(begun.wait)
    worker.request_stop()
    await harness.event(WorkerStopping)
    asyncio.get_running_loop().call_later(0.1, go.set)
    await running
    assert (await harness.get(job_id)).output == '"done"'


async def test_a_thread_that_never_ends_is_left_behind_and_its_job_not_given_away(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.worker_run.LAST_WAIT", 0.1)
    begun, go = threading.Event(), threading.Event()

    @harness.job
    def hangs() -> None:
        begun.set()
        go.wait()

    (job_id,) = await harness.start(hangs.request())
    worker = harness.worker(grace=0)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(begun.wait)
    worker.request_stop()
    try:
        async with asyncio.timeout(30):
            await running
        job = await harness.get(job_id)
        assert job.state is JobState.RUNNING, "its lease runs out, and only then it is free"
        assert harness.seen(LeaseLost, job_id=job_id)
    finally:
        go.set()


async def test_a_notifier_that_is_away_does_not_keep_a_worker_from_working(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.worker_run.LAST_WAIT", 0.02)

    class Away(LocalNotifier):
        tries = 0

        async def subscribe(
            self, listener: Listener, interest: Interest = EVERYTHING, **others: Any
        ) -> Disposer:
            self.tries += 1
            if self.tries < 3:
                raise ConnectionError("no connection today")
            return await super().subscribe(listener, interest, **others)

    harness.notifier = Away()

    @harness.job
    async def work() -> None: ...

    (job_id,) = await harness.start(work.request())
    async with harness.working():
        await harness.event(JobCompleted, job_id=job_id)
        await harness.event(WorkerRecovered, part="notifier")
    assert len(harness.seen(WorkerTroubled, part="notifier")) == 1


async def test_start_and_stop_bear_repetition(harness: WorkerHarness) -> None:
    @harness.job
    async def work() -> None: ...

    worker = harness.worker()
    worker.request_stop()
    await worker.stop()
    for _ in range(2):
        await worker.start()
        with pytest.raises(ConfigurationError, match="running already"):
            await worker.start()
        with pytest.raises(ConfigurationError, match="running already"):
            await worker.run()
        harness.events.clear()
        (job_id,) = await harness.start(work.request())
        await harness.event(JobCompleted, job_id=job_id)
        await asyncio.gather(worker.stop(), worker.stop())
        await worker.stop()


async def test_a_stop_right_after_the_start_is_heard(harness: WorkerHarness) -> None:
    @harness.job
    async def work() -> None: ...

    worker = harness.worker()
    await worker.start()
    async with asyncio.timeout(30):
        await worker.stop()


async def test_draining_runs_what_follows_and_leaves_what_is_due_later(
    harness: WorkerHarness,
) -> None:
    @harness.job
    async def child() -> None: ...

    @harness.job
    async def parent() -> None:
        await asyncio.sleep(0.02)
        await harness.start(child.request())

    @harness.job(max_attempts=2)
    async def fails() -> None:
        raise ValueError

    await harness.start(parent.request(), parent.request(), fails.request())
    await harness.drain()
    counts = {
        (count.type, count.state): count.count
        for count in await harness.store.run(harness.store.counts)
    }
    assert counts == {
        ("parent", JobState.COMPLETED): 2,
        ("child", JobState.COMPLETED): 2,
        ("fails", JobState.PENDING): 1,
    }


async def test_draining_an_empty_store_ends_at_once(harness: WorkerHarness) -> None:
    @harness.job
    async def work() -> None: ...

    async with asyncio.timeout(30):
        await harness.worker(poll_every=60).run(drain=True)


async def test_a_store_closed_under_the_worker_ends_it_with_the_reason(
    harness: WorkerHarness,
) -> None:
    @harness.job
    async def work() -> None: ...

    worker = harness.worker()
    running = asyncio.create_task(worker.run())
    (job_id,) = await harness.start(work.request())
    await harness.event(JobCompleted, job_id=job_id)
    await harness.store.close()
    with pytest.raises(StoreClosed):
        await running
    assert isinstance(harness.events[-1], WorkerStopped)


async def test_interrupted_says_why() -> None:
    assert str(JobInterrupted("7", "taken_by_another_worker")) == (
        "job 7 must stop: taken by another worker"
    )


async def test_a_store_that_takes_no_outcome_does_not_keep_a_worker_from_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headway.worker.worker_run.LAST_WAIT", 0.2)
    monkeypatch.setattr("headway.worker.worker_run.SHORTEST_WAIT", 0.1)

    async def refuse() -> None:
        raise LookupError("no such table")

    harness = WorkerHarness(FaultyStore(before={"settle": refuse}))
    await harness.store.open()

    @harness.job
    async def work() -> None: ...

    (job_id,) = await harness.start(work.request())
    worker = harness.worker(grace=0.2)
    await worker.start()
    await harness.event(WorkerTroubled, part="committer")
    async with asyncio.timeout(10):  # its lease of 30 seconds is renewed for as long as it lives
        await worker.stop()
    assert await harness.state(job_id) is JobState.RUNNING
    await harness.store.close()


@pytest.mark.long
async def test_the_time_to_stop_begins_though_a_claim_is_not_answered(
    harness: WorkerHarness,
) -> None:
    """As in a file that another program has locked: no claim is answered until it lets go."""
    begun, asked, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @harness.job
    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    run = harness.store.run

    async def run_no_claim(operation: Any, /, *args: Any, **kwargs: Any) -> Any:
        if begun.is_set() and operation.__name__ == "claim":
            asked.set()
            await asyncio.Event().wait()
        return await run(operation, *args, **kwargs)

    harness.store.run = run_no_claim
    await harness.start(work.request())
    worker = harness.worker(grace=0.0, poll_every=0.05)
    await worker.start()
    async with asyncio.timeout(30):
        await asked.wait()
        await worker.stop()
    assert cancelled.is_set()
