"""Who wakes whom, with polls an hour apart: only notifications make things happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from headway import Headway, Job, WorkerSettings
from headway.domain.job import ClaimedJobs
from headway.domain.orders import ClaimOrder
from headway.ports.notifications import JobsScheduled, Notification
from headway.ports.notifier import Notifier
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore
from tests.notifiers.conftest import Kind, marked

HOUR = 3600.0
SOON = 60.0
HEARING = ("local", "sqlite", "postgres", "redis", "valkey", "nats", "nats_plain")
all_that_hear = pytest.mark.parametrize("kind", [*map(marked, HEARING)], indirect=True)


@pytest.fixture(autouse=True)
def _no_short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle worker looks often at first, and ever more rarely; here, rarely from the start."""
    monkeypatch.setattr("headway.worker.claims.claim_timing.SHORTEST_POLL", HOUR)


class Counting(MemoryStore):
    """Counts claims."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = 0

    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        self.claims += 1
        return (yield from super().claim(order, now=now))


class Firm:
    """A producer and workers, each with a notifier of its own as if they were processes, around
    one store."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.store = Counting()
        self.started: list[int] = []
        self.ended = 0
        self.together = 1
        self._changed = asyncio.Event()
        self.producer = self.app()
        self.job = self._declare(self.producer)

    def app(self) -> Headway:
        return Headway(self.store, notifier=self.kind.make())

    def _declare(self, app: Headway) -> Any:
        @app.job
        async def work(number: int) -> None:
            self.started.append(number)
            self._changed.set()
            await self.until(lambda: len(self.started) >= self.together)
            self.ended += 1
            self._changed.set()

        return work

    @asynccontextmanager
    async def working(
        self, apps: int, workers_each: int = 1, **options: Any
    ) -> AsyncIterator[None]:
        # All workers stop before the first app closes the store that they share.
        async with AsyncExitStack() as stack, AsyncExitStack() as workers:
            await stack.enter_async_context(self.producer)
            for _ in range(apps):
                app = self.app()
                self._declare(app)
                await stack.enter_async_context(app)
                for _ in range(workers_each):
                    settings = WorkerSettings(
                        poll_every=HOUR, poll_when_told=HOUR, reap_every=HOUR, **options
                    )
                    worker = app.worker(settings)
                    await worker.start()
                    workers.push_async_callback(worker.stop)
            await self.settle()
            yield

    async def settle(self) -> None:
        """Wait until the workers have looked for the first time and sleep."""
        before = -1
        while self.store.claims != before:
            before = self.store.claims
            await asyncio.sleep(0.3)

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(SOON):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Lossy:
    """Loses the first notification of jobs that is published through a notifier."""

    def __init__(self, notifier: Notifier) -> None:
        self.lost = 0
        self._publish = notifier.publish
        notifier.publish = self

    async def __call__(self, notifications: Sequence[Notification]) -> None:
        if not self.lost:
            self.lost = 1
            notifications = [item for item in notifications if not isinstance(item, JobsScheduled)]
        await self._publish(notifications)


@all_that_hear
async def test_a_job_starts_at_once(kind: Kind) -> None:
    firm = Firm(kind)
    async with firm.working(1):
        await firm.producer.start(firm.job.request(1))
        await firm.until(lambda: firm.ended == 1)


@all_that_hear
async def test_a_resumed_queue_is_worked_on_at_once(kind: Kind) -> None:
    firm = Firm(kind)
    async with firm.working(2):
        await firm.producer.pause("default")
        before = firm.store.claims
        await firm.producer.start(firm.job.request(1))
        async with asyncio.timeout(SOON):
            while firm.store.claims == before:
                await asyncio.sleep(0.01)
        await firm.settle()
        assert firm.started == []
        await firm.producer.resume("default")
        await firm.until(lambda: firm.ended == 1)


@all_that_hear
async def test_one_lost_hint_still_drains_20_jobs_started_together(kind: Kind) -> None:
    firm = Firm(kind)
    async with firm.working(2, concurrency=1):
        lossy = Lossy(firm.producer.notifier)
        await asyncio.gather(
            *(firm.producer.start(firm.job.request(number)) for number in range(20))
        )
        await firm.until(lambda: firm.ended == 20)
        assert lossy.lost
    assert sorted(firm.started) == list(range(20))


@all_that_hear
async def test_a_hint_for_fewer_jobs_than_there_are_drains_them_all(kind: Kind) -> None:
    firm = Firm(kind)
    async with firm.working(2, concurrency=1):
        jobs = [firm.job.request(number) for number in range(20)]
        Lossy(firm.producer.notifier)
        await firm.producer.start_many(jobs)
        await firm.producer.notifier.publish([JobsScheduled("default", "work", 1)])
        await firm.until(lambda: firm.ended == 20)


@all_that_hear
async def test_five_idle_workers_and_five_jobs_all_finish(kind: Kind) -> None:
    firm = Firm(kind)
    firm.together = 5  # none ends before all have started
    async with firm.working(5, concurrency=1):
        await asyncio.gather(
            *(firm.producer.start(firm.job.request(number)) for number in range(5))
        )
        await firm.until(lambda: firm.ended == 5)


@all_that_hear
async def test_five_idle_workers_and_five_jobs_of_one_start_all_finish(kind: Kind) -> None:
    firm = Firm(kind)
    firm.together = 5
    async with firm.working(5, concurrency=1):
        await firm.producer.start_many([firm.job.request(number) for number in range(5)])
        await firm.until(lambda: firm.ended == 5)


@pytest.mark.parametrize(
    ("kind", "apps", "most"),
    [
        ("local", 1, 5),
        ("redis", 10, 5),
        ("valkey", 10, 5),
        ("nats", 10, 5),
        # without budgets between processes, each of the ten may look
        ("nats_plain", 10, 15),
        ("postgres", 10, 15),
        ("sqlite", 10, 15),
    ],
    indirect=["kind"],
)
async def test_50_idle_workers_do_not_stampede_over_one_job(
    kind: Kind, apps: int, most: int
) -> None:
    firm = Firm(kind)
    async with firm.working(apps, workers_each=50 // apps):
        before = firm.store.claims
        await firm.producer.start(firm.job.request(1))
        await firm.until(lambda: firm.ended == 1)
        await asyncio.sleep(0.5)
        assert 1 <= firm.store.claims - before <= most


@all_that_hear
async def test_a_waiter_is_woken_by_another_process(kind: Kind) -> None:
    firm = Firm(kind)
    async with firm.working(1):
        sequence = await firm.producer.start(firm.job.request(1))
        await sequence.result(timeout=SOON)


async def _cancel(app: Headway, sequence: Any) -> None:
    await app.cancel(sequence)


async def _delete(app: Headway, sequence: Any) -> None:
    await app.delete_sequences(sequence)


async def _complete(app: Headway, sequence: Any) -> None:
    async with app.complete_sequence(sequence) as completion:
        await completion.complete(None)


@all_that_hear
@pytest.mark.parametrize(
    ("change", "reason"),
    [(_cancel, "cancelled"), (_delete, "not_found"), (_complete, "already_completed")],
)
async def test_a_job_that_is_taken_away_stops_at_once_wherever_it_runs(
    kind: Kind, change: Any, reason: str
) -> None:
    store = MemoryStore()
    owner, other = (Headway(store, notifier=kind.make()) for _ in range(2))
    began, interrupted = asyncio.Event(), asyncio.Event()
    reasons: list[str | None] = []

    @owner.job
    async def hold(job: Job) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(job.interruption)
            interrupted.set()

    async with owner, other, asyncio.timeout(SOON):
        worker = owner.worker(lease_for=600.0, poll_every=HOUR)
        await worker.start()
        sequence = await owner.start(hold.request())
        await began.wait()
        await change(other, sequence.id)
        await interrupted.wait()
        await worker.stop()
    assert reasons == [reason]
