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
from tests.support.bench import PATIENCE, Bench
from tests.support.faulty_store import FaultyStore

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
    bench: Bench, block: Callable[[float], object]
) -> None:
    runs: list[int] = []

    @bench.job
    async def block_the_loop(job: Job) -> None:
        runs.append(job.lease.version)
        block(3.2)

    (job_id,) = await bench.start(block_the_loop.request())
    reaped: list[JobReaped] = []
    done = threading.Event()

    def reap() -> None:
        """Somebody else's reaper, on a loop of its own, as in another process."""

        async def main() -> None:
            rival = Bench(bench.store)
            rival.job(_nothing)
            async with rival.working(reap_every=0.05):
                await asyncio.to_thread(done.wait, PATIENCE)
            reaped.extend(rival.seen(JobReaped))

        asyncio.run(main())

    thread = threading.Thread(target=reap)
    thread.start()
    try:
        async with bench.working(lease_for=1.0):
            await bench.event(JobCompleted)
    finally:
        done.set()
        thread.join()
    job = await bench.get(job_id)
    assert (job.state, job.losses, runs) == (JobState.COMPLETED, 0, [1])
    assert reaped == []


async def _nothing() -> None: ...


async def test_a_long_handler_keeps_its_lease_and_so_do_jobs_that_wait_for_a_slot(
    bench: Bench,
) -> None:
    @bench.job
    async def slow() -> None:
        await asyncio.sleep(2.6)

    job_ids = await bench.start(*(slow.request() for _ in range(4)))
    await bench.drain(lease_for=2.0, concurrency=2, reap_every=0.02)
    jobs = [await bench.get(job_id) for job_id in job_ids]
    assert [(job.state, job.losses) for job in jobs] == [(JobState.COMPLETED, 0)] * 4


async def test_a_handler_whose_job_was_cancelled_is_interrupted(bench: Bench) -> None:
    reasons: list[str | None] = []
    begun = asyncio.Event()

    @bench.job
    async def long(job: Job) -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.interruption)

    (job_id,) = await bench.start(long.request())
    async with bench.working(lease_for=1.0):
        await begun.wait()
        await bench.store.run(bench.store.cancel, [job_id])
        lost = await bench.event(LeaseLost)
    assert reasons == ["cancelled"]
    assert (lost.job_id, lost.reason) == (job_id, "cancelled")
    assert await bench.state(job_id) is JobState.CANCELLED
    assert await bench.attempts(job_id) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [("finish", "already_completed"), ("delete", "not_found"), ("take", "taken_by_another_worker")],
)
async def test_a_notification_of_lost_ownership_is_checked_at_once(
    bench: Bench, change: str, reason: str
) -> None:
    bench.notifier = LocalNotifier()
    reasons: list[str | None] = []
    begun = asyncio.Event()
    store = bench.store

    @bench.job
    async def long(job: Job) -> str:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.interruption)
        return "late"

    (job_id,) = await bench.start(long.request())
    async with bench.working(lease_for=600, reap_every=600):
        await begun.wait()
        match change:
            case "finish":
                await store.run(store.complete_without_lease, job_id, '"done"', None)
            case "delete":
                await store.run(store.delete_jobs, [job_id])
            case _:
                await _take(bench, job_id)
        await bench.notifier.publish([OwnershipLost(job_id, "whatever")])
        await bench.event(LeaseLost, reason=reason)
    assert reasons == [reason]


async def _take(bench: Bench, job_id: str) -> None:
    """Make another worker the holder, as after a lost lease."""
    store = bench.store
    job = await bench.get(job_id)
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


async def test_a_late_notification_does_not_harm_a_job_that_is_ours(bench: Bench) -> None:
    bench.notifier = LocalNotifier()
    begun, go = asyncio.Event(), asyncio.Event()

    @bench.job
    async def long() -> None:
        begun.set()
        await go.wait()

    (job_id,) = await bench.start(long.request())
    async with bench.working():
        await begun.wait()
        await bench.notifier.publish([OwnershipLost(job_id, "lease_expired")])
        await asyncio.sleep(0.05)
        go.set()
        await bench.event(JobCompleted)


async def test_a_handler_is_interrupted_when_its_lease_may_have_run_out() -> None:
    store = FaultyStore()
    bench = Bench(store)
    await store.open()
    reasons: list[str | None] = []
    begun = asyncio.Event()

    @bench.job
    async def long(job: Job) -> None:
        if job.lease.version > 1:
            return
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            reasons.append(job.interruption)

    (job_id,) = await bench.start(long.request())
    async with bench.working(lease_for=1.0):
        await begun.wait()
        store.away = True
        await bench.event(LeaseLost, reason="lease_expired")
        assert reasons == ["lease_expired"]
        assert bench.seen(WorkerTroubled, part="heartbeat")
        store.away = False
        await bench.event(WorkerRecovered, part="heartbeat")
        await bench.event(JobReaped, job_id=job_id, charged=False)
        await bench.event(JobCompleted, version=2)
    assert len(bench.seen(WorkerTroubled, part="fetcher")) <= 1
    assert (await bench.get(job_id)).losses == 0


async def test_a_store_that_is_away_is_reported_once_and_waited_for() -> None:
    store = FaultyStore()
    bench = Bench(store)
    await store.open()

    @bench.job
    async def work() -> None: ...

    (job_id,) = await bench.start(work.request())
    store.away = True
    async with bench.working():
        await bench.event(WorkerTroubled, part="fetcher")
        await asyncio.sleep(0.2)
        store.away = False
        await bench.event(JobCompleted, job_id=job_id)
    for part in ("fetcher", "reaper"):
        assert len(bench.seen(WorkerTroubled, part=part)) <= 1
    assert len(bench.seen(WorkerRecovered, part="fetcher")) == 1


async def test_a_handler_can_make_sure_of_its_lease(bench: Bench) -> None:
    @bench.job
    async def careful(job: Job) -> str:
        await job.heartbeat()
        await bench.store.run(bench.store.cancel, [job.id])
        try:
            await job.heartbeat()
        except JobInterrupted as interrupted:
            return interrupted.reason
        return "still ours"

    (job_id,) = await bench.start(careful.request())
    await bench.drain()
    assert await bench.state(job_id) is JobState.CANCELLED
    assert bench.seen(LeaseLost, job_id=job_id)


async def test_an_expired_lease_is_reaped_and_the_job_run_by_somebody_else(bench: Bench) -> None:
    @bench.job
    async def work() -> str:
        return "done"

    (job_id,) = await bench.start(work.request())
    order = ClaimOrder(
        worker="dead",
        token="dead",
        lease_for=0.05,
        queues=(QueueShare("default", 1),),
        types=("work",),
        limit=1,
    )
    assert await bench.store.run(bench.store.claim, order)
    async with bench.working():
        reaped = await bench.event(JobReaped)
        await bench.event(JobCompleted)
    assert (reaped.job_id, reaped.worker, reaped.dead) == (job_id, "dead", False)
    job = await bench.get(job_id)
    assert (job.state, job.losses, job.attempts) == (JobState.COMPLETED, 1, 0)
    assert bench.seen(AttemptStarted)[0].version == 2


async def test_a_drain_gives_back_what_dead_workers_left_before_it_ends(bench: Bench) -> None:
    """Also when it looked in vain before, while a job of its own was running."""
    looked_in_vain = asyncio.Event()

    @bench.job
    async def work() -> None: ...

    @bench.job
    async def wait() -> None:
        await looked_in_vain.wait()

    ids = await bench.start(*[work.request() for _ in range(150)])
    order = ClaimOrder(
        worker="dead",
        token="dead",
        lease_for=0.05,
        queues=(QueueShare("default", 150),),
        types=("work",),
        limit=150,
    )
    assert len(await bench.store.run(bench.store.claim, order)) == 150
    await bench.start(wait.request())
    while not await bench.store.run(bench.store.expired, 1):
        await asyncio.sleep(0.01)
    asyncio.get_running_loop().call_later(0.5, looked_in_vain.set)
    await bench.drain(reap_every=60.0)
    states = {(await bench.get(job_id)).state for job_id in ids}
    assert states == {JobState.COMPLETED}
