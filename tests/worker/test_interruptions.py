"""Why a handler must stop, on every store: what it is told, and what is recorded of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from headway import Headway, Job, JobState
from headway.domain.events import AttemptFailed, Event, LeaseLost
from headway.domain.orders import ClaimOrder, QueueShare
from headway.errors import JobInterrupted, JobNotFound
from headway.jobs.ids import new_token

PATIENCE = 60.0

E = TypeVar("E")


class ObservedApp:
    """An app with a job that works until it is told to stop, and says why it was."""

    def __init__(self, url: str) -> None:
        self.app = app = Headway(url, observers=[self], migrate=True)
        self.events: list[Event] = []
        self.reasons: list[str | None] = []
        self.begun = asyncio.Event()
        self.told = asyncio.Event()
        self.go = asyncio.Event()

        @app.job(name="work", max_attempts=1)
        async def work(job: Job) -> str:
            self.begun.set()
            try:
                await asyncio.sleep(60)
            finally:
                self.reasons.append(job.interruption)
                self.told.set()
            return "never"

        @app.job(name="stubborn", max_attempts=1)
        async def stubborn(job: Job) -> str:
            self.begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.reasons.append(job.interruption)
                self.told.set()
            return "as if nothing had happened"

        @app.job(name="unaware", max_attempts=1)
        async def unaware(job: Job) -> str:
            self.begun.set()
            await self.go.wait()
            return "done"

        @app.job(name="careful", max_attempts=1)
        async def careful(job: Job) -> str:
            self.begun.set()
            await self.go.wait()
            try:
                await job.complete()
            except JobInterrupted as interrupted:
                self.reasons += [interrupted.reason, job.interruption]
                self.told.set()
                raise
            return "done"

        self.work, self.stubborn, self.unaware, self.careful = work, stubborn, unaware, careful

    def observe(self, event: Event) -> None:
        self.events.append(event)

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def lost(self) -> list[str]:
        return [event.reason for event in self.seen(LeaseLost)]


@pytest.fixture
async def observed(store_url: str) -> AsyncIterator[ObservedApp]:
    observed = ObservedApp(store_url)
    async with observed.app:
        yield observed


async def complete(observed: ObservedApp, job_id: str) -> None:
    async with observed.app.complete_sequence(job_id) as completion:
        await completion.complete("by hand")


async def delete(observed: ObservedApp, job_id: str) -> None:
    await observed.app.delete_sequences(job_id)


async def cancel(observed: ObservedApp, job_id: str) -> None:
    await observed.app.cancel(job_id)


async def take(observed: ObservedApp, job_id: str) -> None:
    """Another worker has it, all at once."""
    store = observed.app.store
    order = ClaimOrder(
        worker="rival",
        token=new_token(),
        lease_for=600,
        queues=(QueueShare("default", 1),),
        types=tuple(observed.app.registry.handlers()),
        limit=1,
    )
    async with store.begin() as tx:
        await store.run_in(tx, store.cancel, [job_id])
        await store.run_in(tx, store.retry, [job_id])
        (claimed,) = await store.run_in(tx, store.claim, order)
    assert claimed.id == job_id


Change = Callable[[ObservedApp, str], Awaitable[None]]
CHANGES: dict[str, tuple[Change, JobState | None, str | None]] = {
    "already_completed": (complete, JobState.COMPLETED, '"by hand"'),
    "not_found": (delete, None, None),
    "cancelled": (cancel, JobState.CANCELLED, None),
    "taken_by_another_worker": (take, JobState.RUNNING, None),
}


async def check(observed: ObservedApp, job_id: str, reason: str) -> None:
    """What others made of the job stands, and nothing is recorded of the execution."""
    _, state, output = CHANGES[reason]
    assert observed.seen(AttemptFailed) == []
    assert await observed.app.attempts(job_id) == []
    if state is None:
        with pytest.raises(JobNotFound):
            await observed.app.get(job_id)
    else:
        job = await observed.app.get(job_id)
        assert (job.state, job.output, job.attempts) == (state, output, 0)


@pytest.mark.parametrize("reason", CHANGES)
@pytest.mark.parametrize("handler", ["work", "stubborn"])
async def test_a_handler_is_told_that_the_job_is_not_its_own_any_more(
    observed: ObservedApp, handler: str, reason: str
) -> None:
    change, _, _ = CHANGES[reason]
    sequence = await observed.app.start(observed.app.request(handler))
    worker = observed.app.worker(lease_for=1.5, poll_every=0.05, reap_every=60)
    await worker.start()
    async with asyncio.timeout(PATIENCE):
        await observed.begun.wait()
        await change(observed, sequence.id)
        await observed.told.wait()
        await worker.stop()
    assert observed.reasons == observed.lost() == [reason]
    await check(observed, sequence.id, reason)


@pytest.mark.parametrize("reason", CHANGES)
@pytest.mark.parametrize("handler", ["unaware", "careful"])
async def test_its_completion_is_refused_with_the_reason(
    observed: ObservedApp, handler: str, reason: str
) -> None:
    """Nobody could tell it before: it finds out when it wants to complete."""
    change, _, _ = CHANGES[reason]
    sequence = await observed.app.start(observed.app.request(handler))
    worker = observed.app.worker(lease_for=600, poll_every=0.05, reap_every=600)
    worker._notifier = None  # it hears of nothing
    await worker.start()
    async with asyncio.timeout(PATIENCE):
        await observed.begun.wait()
        await change(observed, sequence.id)
        observed.go.set()
        await worker.stop()
    assert observed.reasons == ([reason, reason] if handler == "careful" else [])
    # To say of a completed job that it is completed is no error: nobody lost anything by it.
    agreed = handler == "unaware" and reason == "already_completed"
    assert observed.lost() == ([] if agreed else [reason])
    await check(observed, sequence.id, reason)


async def test_a_timeout_is_a_failed_attempt(observed: ObservedApp) -> None:
    sequence = await observed.app.start(observed.work.request(), timeout=0.1)
    worker = observed.app.worker(poll_every=0.05)
    await worker.start()
    async with asyncio.timeout(PATIENCE):
        await observed.told.wait()
        await worker.stop()
    assert observed.reasons == ["timeout"]
    (attempt,) = await observed.app.attempts(sequence)
    assert attempt.failure.type == "TimeoutError"
    assert (await observed.app.get(sequence)).state is JobState.FAILED


async def test_a_shutdown_is_none(observed: ObservedApp) -> None:
    sequence = await observed.app.start(observed.work.request())
    worker = observed.app.worker(poll_every=0.05, grace=0.05)
    await worker.start()
    async with asyncio.timeout(PATIENCE):
        await observed.begun.wait()
        await worker.stop()
    assert observed.reasons == ["shutdown"]
    job = await observed.app.get(sequence)
    assert (job.state, job.attempts, job.losses) == (JobState.PENDING, 0, 0)
    assert await observed.app.attempts(sequence) == []
