"""Keeping leases, and what happens when they are lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from headway.domain.events import (
    AttemptStarted,
    JobCompleted,
    JobReaped,
    LeaseLost,
    WorkerRecovered,
    WorkerTroubled,
)
from headway.domain.job import JobState
from headway.domain.orders import ClaimOrder, QueueShare
from headway.errors import JobInterrupted
from headway.jobs.job import Job
from headway.notifiers.local import LocalNotifier
from headway.ports.notifications import OwnershipLost
from tests.support.faulty_store import FaultyStore
from tests.support.worker_harness import PATIENCE, WorkerHarness

P = ParamSpec("P")
T = TypeVar("T")


def spin(seconds: float) -> int:
    """Hold the loop with pure Python."""
    until = time.monotonic() + seconds
    turns = 0
    while time.monotonic() < until:
        turns += 1
    return turns


@pytest.mark.parametrize("block", [time.sleep, spin], ids=["time.sleep", "pure Python"])
async def test_a_lease_survives_a_handler_that_blocks_the_loop_for_three_leases(
    harness: WorkerHarness, block: Callable[[float], object]
) -> None:
    runs: list[int] = []

    @harness.job
    async def block_the_loop(job: Job) -> None:
        runs.append(job.lease.version)
        block(3.2)

    (job_id,) = await harness.start(block_the_loop.request())
    reaped: list[JobReaped] = []
    done = threading.Event()

    def reap() -> None:
        """Somebody else's reaper, on a loop of its own, as in another process."""

        async def main() -> None:
            rival = WorkerHarness(harness.store)
            rival.job(_nothing)
            async with rival.working(reap_every=0.05):
                await asyncio.to_thread(done.wait, PATIENCE)
            reaped.extend(rival.seen(JobReaped))

        asyncio.run(main())

    thread = threading.Thread(target=reap)
    thread.start()
    try:
        async with harness.working(lease_for=1.0):
            await harness.event(JobCompleted)
    finally:
        done.set()
        thread.join()
    job = await harness.get(job_id)
    assert (job.state, job.losses, runs) == (JobState.COMPLETED, 0, [1])
    assert reaped == []


async def _nothing() -> None: ...


async def test_a_long_handler_keeps_its_lease_and_so_do_jobs_that_wait_for_a_slot(
    harness: WorkerHarness,
) -> None:
    @harness.job
    async def slow() -> None:
        await asyncio.sleep(2.6)

    job_ids = await harness.start(*(slow.request() for _ in range(4)))
    await harness.drain(lease_for=2.0, concurrency=2, reap_every=0.02)
    jobs = [await harness.get(job_id) for job_id in job_ids]
    assert [(job.state, job.losses) for job in jobs] == [(JobState.COMPLETED, 0)] * 4


async def test_a_handler_whose_job_was_cancelled_is_interrupted(harness: WorkerHarness) -> None:
    reasons: list[str | None] = []
    begun = asyncio.Event()

    @harness.job
    async def long(job: Job) -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.interruption)

    (job_id,) = await harness.start(long.request())
    async with harness.working(lease_for=1.0):
        await begun.wait()
        await harness.store.run(harness.store.cancel, [job_id])
        lost = await harness.event(LeaseLost)
    assert reasons == ["cancelled"]
    assert (lost.job_id, lost.reason) == (job_id, "cancelled")
    assert await harness.state(job_id) is JobState.CANCELLED
    assert await harness.attempts(job_id) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [("finish", "already_completed"), ("delete", "not_found"), ("take", "taken_by_another_worker")],
)
async def test_a_notification_of_lost_ownership_is_checked_at_once(
    harness: WorkerHarness, change: str, reason: str
) -> None:
    harness.notifier = LocalNotifier()
    reasons: list[str | None] = []
    begun = asyncio.Event()
    store = harness.store

    @harness.job
    async def long(job: Job) -> str:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.interruption)
        return "late"

    (job_id,) = await harness.start(long.request())
    async with harness.working(lease_for=600, reap_every=600):
        await begun.wait()
        match change:
            case "finish":
                await store.run(store.complete_without_lease, job_id, '"done"', None)
            case "delete":
                await store.run(store.delete_jobs, [job_id])
            case _:
                await _take(harness, job_id)
        await harness.notifier.publish([OwnershipLost(job_id, "whatever")])
        await harness.event(LeaseLost, reason=reason)
    assert reasons == [reason]


async def _take(harness: WorkerHarness, job_id: str) -> None:
    """Make another worker the holder, as after a lost lease."""
    store = harness.store
    job = await harness.get(job_id)
    assert job.lease is not None
    await store.run(store.cancel, [job_id])
    await store.run(store.retry, [job_id])
    order = ClaimOrder(
        worker="rival",
        token="theirs",
        lease_for=600,
        queues=(QueueShare("default", 1),),
        types=("long",),
        limit=1,
    )
    (taken,) = await store.run(store.claim, order)
    assert taken.id == job_id


async def test_a_late_notification_does_not_harm_a_job_that_is_ours(harness: WorkerHarness) -> None:
    harness.notifier = LocalNotifier()
    begun, go = asyncio.Event(), asyncio.Event()

    @harness.job
    async def long() -> None:
        begun.set()
        await go.wait()

    (job_id,) = await harness.start(long.request())
    async with harness.working():
        await begun.wait()
        await harness.notifier.publish([OwnershipLost(job_id, "lease_expired")])
        await asyncio.sleep(0.05)
        go.set()
        await harness.event(JobCompleted)


async def test_a_handler_is_interrupted_when_its_lease_may_have_run_out() -> None:
    store = FaultyStore()
    harness = WorkerHarness(store)
    await store.open()
    reasons: list[str | None] = []
    begun = asyncio.Event()

    @harness.job
    async def long(job: Job) -> None:
        if job.lease.version > 1:
            return
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.interruption)

    (job_id,) = await harness.start(long.request())
    async with harness.working(lease_for=1.0):
        await begun.wait()
        store.away = True
        await harness.event(LeaseLost, reason="lease_expired")
        assert reasons == ["lease_expired"]
        assert harness.seen(WorkerTroubled, part="heartbeat")
        store.away = False
        await harness.event(WorkerRecovered, part="heartbeat")
        await harness.event(JobReaped, job_id=job_id, charged=False)
        await harness.event(JobCompleted, version=2)
    assert len(harness.seen(WorkerTroubled, part="fetcher")) <= 1
    assert (await harness.get(job_id)).losses == 0


async def test_a_store_that_is_away_is_reported_once_and_waited_for() -> None:
    store = FaultyStore()
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def work() -> None: ...

    (job_id,) = await harness.start(work.request())
    store.away = True
    async with harness.working():
        await harness.event(WorkerTroubled, part="fetcher")
        await asyncio.sleep(0.2)
        store.away = False
        await harness.event(JobCompleted, job_id=job_id)
    for part in ("fetcher", "reaper"):
        assert len(harness.seen(WorkerTroubled, part=part)) <= 1
    assert len(harness.seen(WorkerRecovered, part="fetcher")) == 1


async def test_a_handler_can_make_sure_of_its_lease(harness: WorkerHarness) -> None:
    @harness.job
    async def careful(job: Job) -> str:
        await job.heartbeat()
        await harness.store.run(harness.store.cancel, [job.id])
        try:
            await job.heartbeat()
        except JobInterrupted as interrupted:
            return interrupted.reason
        return "still ours"

    (job_id,) = await harness.start(careful.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.CANCELLED
    assert harness.seen(LeaseLost, job_id=job_id)


async def test_an_expired_lease_is_reaped_and_the_job_run_by_somebody_else(
    harness: WorkerHarness,
) -> None:
    @harness.job
    async def work() -> str:
        return "done"

    (job_id,) = await harness.start(work.request())
    order = ClaimOrder(
        worker="dead",
        token="dead",
        lease_for=0.05,
        queues=(QueueShare("default", 1),),
        types=("work",),
        limit=1,
    )
    assert await harness.store.run(harness.store.claim, order)
    async with harness.working():
        reaped = await harness.event(JobReaped)
        await harness.event(JobCompleted)
    assert (reaped.job_id, reaped.worker, reaped.dead) == (job_id, "dead", False)
    job = await harness.get(job_id)
    assert (job.state, job.losses, job.attempts) == (JobState.COMPLETED, 1, 0)
    assert harness.seen(AttemptStarted)[0].version == 2


async def test_a_drain_gives_back_what_dead_workers_left_before_it_ends(
    harness: WorkerHarness,
) -> None:
    """Also when it looked in vain before, while a job of its own was running."""
    looked_in_vain = asyncio.Event()

    @harness.job
    async def work() -> None: ...

    @harness.job
    async def wait() -> None:
        await looked_in_vain.wait()

    ids = await harness.start(*[work.request() for _ in range(150)])
    order = ClaimOrder(
        worker="dead",
        token="dead",
        lease_for=0.05,
        queues=(QueueShare("default", 150),),
        types=("work",),
        limit=150,
    )
    assert len(await harness.store.run(harness.store.claim, order)) == 150
    await harness.start(wait.request())
    while not await harness.store.run(harness.store.expired, 1):
        await asyncio.sleep(0.01)
    asyncio.get_running_loop().call_later(0.5, looked_in_vain.set)
    await harness.drain(reap_every=60.0)
    states = {(await harness.get(job_id)).state for job_id in ids}
    assert states == {JobState.COMPLETED}
