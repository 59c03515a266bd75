"""Writing outcomes down when the store is away, refuses one of them, or gave the job away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ParamSpec, TypeVar

import pytest

from headway.domain.events import (
    AttemptFailed,
    JobCompleted,
    LeaseLost,
    WorkerRecovered,
    WorkerTroubled,
)
from headway.domain.failure import decode_failure
from headway.domain.job import JobState
from headway.domain.settlement import Complete, Settled, Settlement
from headway.errors import DataRefused, StoreError, StoreUnreachable
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore
from tests.support.worker_harness import WorkerHarness

P = ParamSpec("P")
T = TypeVar("T")


class Faulty(MemoryStore):
    """Raises what `fault` raises before it settles."""

    def __init__(self, fault: Callable[[Sequence[Settlement]], None]) -> None:
        super().__init__()
        self.fault = fault
        self.batches: list[int] = []

    def settle(
        self, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> Operation[Settled]:
        self.batches.append(len(settlements))
        self.fault(settlements)
        return (yield from super().settle(settlements, now=now))


async def test_outcomes_are_kept_until_the_store_is_back() -> None:
    failures = 3

    def away(_: Sequence[Settlement]) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnreachable("the test's store", "connection refused")

    store = Faulty(away)
    harness = WorkerHarness(store)
    await store.open()
    runs: list[int] = []

    @harness.job
    async def work(number: int) -> int:
        runs.append(number)
        return number

    job_ids = await harness.start(*(work.request(number) for number in range(20)))
    await harness.drain(concurrency=4)
    assert sorted(runs) == list(range(20))
    jobs = [await harness.get(job_id) for job_id in job_ids]
    assert [job.output for job in jobs] == [str(number) for number in range(20)]
    assert len(harness.seen(WorkerTroubled, part="committer")) == 1
    assert len(harness.seen(WorkerRecovered, part="committer")) == 1


async def test_outcomes_gather_while_a_commit_is_under_way() -> None:
    store = Faulty(lambda _: None)
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def work() -> None: ...

    await harness.start(*(work.request() for _ in range(1_000)))
    await harness.drain(concurrency=100)
    assert sum(store.batches) == 1_000
    assert max(store.batches) >= 50


async def test_an_outcome_the_store_cannot_take_is_set_apart_and_dead_lettered() -> None:
    def picky(settlements: Sequence[Settlement]) -> None:
        for each in settlements:
            if isinstance(each, Complete) and each.output == "7":
                raise DataRefused("the test's store", "cannot store seven")

    store = Faulty(picky)
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def work(number: int) -> int:
        return number

    job_ids = await harness.start(*(work.request(number) for number in range(20)))
    await harness.drain()
    jobs = [await harness.get(job_id) for job_id in job_ids]
    assert [job.state for job in jobs] == [
        JobState.FAILED if number == 7 else JobState.COMPLETED for number in range(20)
    ]
    assert jobs[7].last_error is not None
    failure = decode_failure(jobs[7].last_error)
    assert failure.message.endswith("does not take this: cannot store seven")
    assert harness.seen(AttemptFailed, job_id=job_ids[7], retry_in=None)
    assert len(harness.seen(JobCompleted)) == 19


@pytest.mark.parametrize(
    "error", [StoreError("the file is held by another writer"), RuntimeError("something else")]
)
async def test_an_outcome_that_cannot_be_stored_now_waits_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("headway.worker.failure_streak.LONGEST_PAUSE", 0.05)
    failures = 0

    def busy(settlements: Sequence[Settlement]) -> None:
        nonlocal failures
        if any(isinstance(each, Complete) and each.output in ("2", "3") for each in settlements):
            others = sum(event.job_id not in job_ids[2:4] for event in harness.seen(JobCompleted))
            if others < 10 or failures < 12:
                failures += 1
                raise error

    store = Faulty(busy)
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def work(number: int) -> int:
        return number

    job_ids = await harness.start(*(work.request(number) for number in range(12)))
    await harness.drain(concurrency=4)
    jobs = [await harness.get(job_id) for job_id in job_ids]
    assert [(job.state, job.attempts, job.output) for job in jobs] == [
        (JobState.COMPLETED, 0, str(number)) for number in range(12)
    ]
    assert len(harness.seen(JobCompleted)) == 12


async def test_an_outcome_is_dropped_when_its_lease_has_run_out_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nothing renews the second lease either, so its outcome must not wait for the next try.
    monkeypatch.setattr("headway.worker.failure_streak.LONGEST_PAUSE", 0.05)
    away = asyncio.Event()

    def fault(settlements: Sequence[Settlement]) -> None:
        if away.is_set() and isinstance(settlements[0], Complete):
            raise StoreUnreachable("the test's store", "it is away")

    class Frozen(Faulty):
        """Renews nothing either."""

        def run_sync(
            self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
        ) -> T:
            raise StoreUnreachable("the test's store", "it is away")

    store = Frozen(fault)
    harness = WorkerHarness(store)
    await store.open()
    runs: list[int] = []

    @harness.job
    async def work() -> int:
        runs.append(len(runs))
        if len(runs) == 1:
            away.set()
        else:
            away.clear()
        return len(runs)

    (job_id,) = await harness.start(work.request())
    async with harness.working(lease_for=1.0):
        lost = await harness.event(LeaseLost)
        await harness.event(JobCompleted)
    assert (lost.job_id, lost.reason) == (job_id, "lease_expired")
    job = await harness.get(job_id)
    assert (job.state, job.losses, job.output) == (JobState.COMPLETED, 0, "2")


async def test_an_outcome_that_the_fence_refuses_is_reported_and_forgotten(
    harness: WorkerHarness,
) -> None:
    @harness.job
    async def work() -> str:
        await harness.store.run(harness.store.cancel, [job_id])
        return "late"

    (job_id,) = await harness.start(work.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.output) == (JobState.CANCELLED, None)
    assert harness.seen(LeaseLost, job_id=job_id)
    assert not harness.seen(JobCompleted)
