"""`job.key`, `job.spent` and `job.hold` from handlers on the loop, in threads and in processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headway import After, At, Headway, Job, JobState, Rate
from headway.domain.events import (
    AttemptStarted,
    Event,
    JobCompleted,
    JobDeadLettered,
    JobReleased,
    JobRescheduled,
    QueueHeld,
    WorkerTroubled,
)
from headway.domain.limits.queue_limits import LimitsOverride, QueueState
from headway.domain.queries import JobFilter
from headway.limits.changes import override
from tests.support.observed_app import ObservedApp
from tests.support.stores import store_urls
from tests.worker import limited_jobs

ON_TIME = 0.25
"""Seconds, on a busy machine."""

E = TypeVar("E")

store_url = store_urls("memory", "sqlite", "postgres")


@pytest.fixture
async def observed(store_url: str) -> AsyncIterator[ObservedApp]:
    observed = ObservedApp(store_url)
    async with observed.app:
        yield observed


async def state_of(app: Headway, queue: str) -> QueueState:
    state = await app.store.run(app.store.queue_state, queue)
    assert state is not None
    return state


async def allowed(app: Headway, queue: str) -> int:
    state = await state_of(app, queue)
    assert state.effective.rate is not None
    return state.effective.rate.allowed(state.paid_until, datetime.now(UTC))


def spender(app: Headway, kind: str) -> Any:
    if kind == "loop":

        @app.job(name="spend", queue="rated")
        async def spend(job: Job, weight: int) -> str | None:
            job.spent(weight)
            return job.key

        return spend

    @app.job(name="spend", queue="rated")
    def spend_in_thread(job: Job, weight: int) -> str | None:
        job.spent(weight)
        return job.key

    return spend_in_thread


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_what_handlers_spend_counts_against_the_rate(
    observed: ObservedApp, kind: str
) -> None:
    app = observed.app
    spend = spender(app, kind)
    app.queue("rated", rate=Rate(10, per=3600, burst=10))
    async with observed.working():
        started = await app.start(spend.request(4), key="tenant-7")
        await observed.until(JobCompleted, type="spend")
    assert await started.result() == "tenant-7"
    assert await allowed(app, "rated") == 10 - 1 - 4


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_spending_in_a_queue_without_a_rate_fails_with_a_clear_error(
    observed: ObservedApp, kind: str
) -> None:
    app = observed.app
    spend = spender(app, kind)
    async with observed.working():
        await app.start(spend.request(1), max_attempts=1)
        await observed.until(JobDeadLettered, type="spend")
    (event,) = observed.seen(JobDeadLettered)
    assert event.failure.message == (
        "job.spent() is for queues with a rate, and queue 'rated' has none: declare "
        "`app.queue('rated', rate=Rate(...))`"
    )


async def test_spending_is_no_error_while_an_operator_has_lifted_the_rate(
    observed: ObservedApp,
) -> None:
    """The code declares it."""
    app = observed.app
    spend = spender(app, "loop")
    app.queue("rated", rate=Rate(10, per=3600, burst=10))
    await app.store.run(override, app.store, "rated", LimitsOverride(rate=None))
    async with observed.working():
        await app.start(spend.request(4))
        await observed.until(JobCompleted, type="spend")
    assert not observed.seen(JobDeadLettered)


async def test_spending_is_no_error_under_a_rate_that_only_an_operator_has_set(
    observed: ObservedApp,
) -> None:
    app = observed.app
    spend = spender(app, "loop")
    rate = Rate(10, per=3600, burst=10)
    await app.store.run(override, app.store, "rated", LimitsOverride(rate=rate))
    async with observed.working():
        await app.start(spend.request(4))
        await observed.until(JobCompleted, type="spend")
    assert await allowed(app, "rated") == 10 - 1 - 4


def holder(app: Headway, kind: str, runs: list[float]) -> Any:
    """A job type that holds its queue once, and then runs."""

    def run(job: Job, seconds: float, key: bool) -> None:
        runs.append(time.monotonic())
        if len(runs) == 1:
            job.hold(After(seconds=seconds), key=key)

    if kind == "loop":

        @app.job(name="ask", queue="x")
        async def ask(job: Job, seconds: float, key: bool = False) -> None:
            run(job, seconds, key)

        return ask

    @app.job(name="ask", queue="x")
    def ask_in_thread(job: Job, seconds: float, key: bool = False) -> None:
        run(job, seconds, key)

    return ask_in_thread


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_a_held_queue_goes_on_in_time_and_nothing_is_charged(
    observed: ObservedApp, kind: str
) -> None:
    app, runs = observed.app, list[float]()
    ask = holder(app, kind, runs)
    async with observed.working(concurrency=1):
        jobs = await app.start_many([ask.request(0.6)] * 3)
        await observed.until(JobCompleted, 3, type="ask")
    began, *others = runs
    assert len(others) == 3
    late = min(others) - began - 0.6
    assert 0 <= late < ON_TIME
    (held,) = observed.seen(QueueHeld)
    assert (held.queue, held.key, held.job_id, held.type) == ("x", None, jobs[0].id, "ask")
    record = await app.get(jobs[0])
    assert (record.attempts, record.losses, record.state) == (0, 0, JobState.COMPLETED)
    assert record.run_at == record.created_at, "it keeps its place"
    assert [event.job_id for event in observed.seen(AttemptStarted)][1] == jobs[0].id
    assert len(observed.seen(JobReleased)) == 1


async def test_a_held_key_leaves_the_others_alone(observed: ObservedApp) -> None:
    app, runs = observed.app, list[float]()
    ask = holder(app, "loop", runs)

    @app.job(queue="x")
    async def other() -> None: ...

    async with observed.working(concurrency=1):
        await app.start(ask.request(0.6, True), key="a")
        await observed.until(QueueHeld)
        await app.start(ask.request(0.6, True), key="a")
        await app.start(other.request(), key="b")
        await app.start(other.request())
        await observed.until(JobCompleted, 2, type="other")
        assert len(runs) == 1
        await observed.until(JobCompleted, 2, type="ask")
    assert 0 <= runs[1] - runs[0] - 0.6 < ON_TIME
    assert observed.seen(QueueHeld)[0].key == "a"


async def test_holding_a_key_that_the_job_does_not_have_fails_with_a_clear_error(
    observed: ObservedApp,
) -> None:
    app = observed.app
    ask = holder(app, "loop", [])
    async with observed.working():
        await app.start(ask.request(0.5, True), max_attempts=1)
        await observed.until(JobDeadLettered)
    (event,) = observed.seen(JobDeadLettered)
    assert event.failure.message == (
        "job.hold(key=True) holds the jobs of this job's key, and it has none: start it with "
        "key=, or hold the whole queue"
    )
    assert not observed.seen(QueueHeld)


@pytest.mark.parametrize("atomic", [True, False])
async def test_a_hold_rolls_back_the_transaction_of_the_handler(
    observed: ObservedApp, atomic: bool
) -> None:
    app, runs = observed.app, list[float]()

    @app.job(queue="x", atomic=atomic)
    async def ask(job: Job) -> None:
        runs.append(time.monotonic())
        tx = job.tx if atomic else await job.complete()
        await app.start(observed.write.request(f"from {len(runs)}"), tx=tx)
        if len(runs) == 1:
            job.hold(After(seconds=0.3))

    async with observed.working():
        started = await app.start(ask.request())
        await observed.until(JobCompleted, type="ask")
        await observed.until(JobCompleted, type="write")
    assert runs[1] - runs[0] >= 0.3
    letters = await app.store.run(app.store.find, JobFilter(types=("write",)), limit=10)
    assert [job.input for job in letters.jobs] == ['{"text":"from 2"}']
    record = await app.get(started)
    assert (record.attempts, record.losses) == (0, 0)


async def test_a_hold_until_a_moment_in_the_past_holds_nothing(observed: ObservedApp) -> None:
    app, runs = observed.app, list[int]()

    @app.job(queue="x")
    async def ask(job: Job) -> None:
        runs.append(1)
        if len(runs) == 1:
            job.hold(At(datetime.now(UTC) - timedelta(seconds=5)))

    async with observed.working():
        await app.start(ask.request())
        await observed.until(JobCompleted, type="ask")
    assert len(runs) == 2


async def test_a_hold_that_the_store_does_not_take_delays_the_job_alone(
    observed: ObservedApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, runs = observed.app, list[float]()
    ask = holder(app, "loop", runs)
    store: Any = app.store
    run = store.run

    async def broken(operation: Any, *args: Any, **kwargs: Any) -> Any:
        if operation.__name__ == "hold":
            raise OSError("the store is away")
        return await run(operation, *args, **kwargs)

    monkeypatch.setattr(store, "run", broken)
    async with observed.working() as worker:
        await app.start(ask.request(0.3))
        await observed.until(JobCompleted, type="ask")
        assert worker.health.ready
    assert 0 <= runs[1] - runs[0] - 0.3 < ON_TIME
    assert len(observed.seen(JobRescheduled)) == 1
    assert observed.seen(WorkerTroubled, part="limits")


async def test_a_handler_that_is_told_to_stop_while_its_queue_is_being_held_loses_nothing(
    observed: ObservedApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = observed.app
    ask = holder(app, "loop", [])
    store: Any = app.store
    run, holding = store.run, asyncio.Event()

    async def slow(operation: Any, *args: Any, **kwargs: Any) -> Any:
        if operation.__name__ == "hold":
            holding.set()
            await asyncio.sleep(30)
        return await run(operation, *args, **kwargs)

    monkeypatch.setattr(store, "run", slow)
    async with observed.working(grace=0.0):
        started = await app.start(ask.request(30.0), timeout=60)
        await holding.wait()
    record = await app.get(started)
    assert (record.state, record.attempts, record.losses) == (JobState.PENDING, 0, 0)


class Isolated:
    """An app with the isolated job types of a module."""

    def __init__(self, url: str) -> None:
        self.events: list[Event] = []
        self.app = Headway(url, observers=[self], migrate=True, registry=limited_jobs.app.registry)

    def observe(self, event: Event) -> None:
        self.events.append(event)

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
async def isolated(store_url: str) -> AsyncIterator[Isolated]:
    isolated = Isolated(store_url)
    async with isolated.app:
        yield isolated


async def test_what_a_process_spends_counts_against_the_rate(isolated: Isolated) -> None:
    app = isolated.app
    async with asyncio.timeout(60):
        started = await app.start(limited_jobs.spend.request(4), key="tenant-7")
        await app.worker(concurrency=2).run(drain=True)
    assert await started.result() == "tenant-7"
    assert await allowed(app, "rated") == 10 - 1 - 4


async def test_a_process_that_spends_without_a_rate_fails_with_a_clear_error(
    isolated: Isolated,
) -> None:
    async with asyncio.timeout(60):
        await isolated.app.start(limited_jobs.spend_in_vain.request(), max_attempts=1)
        await isolated.app.worker(concurrency=2).run(drain=True)
    (event,) = isolated.seen(JobDeadLettered)
    assert event.failure.message.startswith("job.spent() is for queues with a rate")


@pytest.mark.parametrize("key", [True, False])
async def test_a_process_holds_its_queue_and_nothing_is_charged(
    isolated: Isolated, key: bool, tmp_path: Path
) -> None:
    """The drain waits for the end of the hold, because the job is due."""
    app = isolated.app
    async with asyncio.timeout(60):
        request = limited_jobs.hold.request(1.5, key, str(tmp_path / "mark"))
        started = await app.start(request, key="tenant-7")
        await app.worker(concurrency=2).run(drain=True)
    (held,) = isolated.seen(QueueHeld)
    assert held.key == ("tenant-7" if key else None)
    assert await started.result() >= held.until.timestamp()
    record = await app.get(started)
    assert (record.attempts, record.losses) == (0, 0)
