"""Limits that are declared, replaced and overridden while workers run; and limits beside the other
rules by which workers claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from headway import Headway, Job, Rate
from headway.domain.events import (
    AttemptStarted,
    ClaimRefused,
    JobCompleted,
    JobReaped,
    WorkerTroubled,
)
from headway.domain.job import JobState
from headway.domain.lifecycle import after_expiry
from headway.domain.limits.queue_limits import LimitsOverride, QueueLimits
from headway.domain.orders import ClaimOrder, QueueShare
from headway.errors import StoreUnreachable
from headway.jobs.ids import new_token
from headway.limits.changes import override
from headway.worker.background import queue_limits
from headway.worker.settings import WorkQueue
from tests.support.faulty_store import FaultyStore
from tests.support.observed_app import ObservedApp
from tests.support.stores import store_urls
from tests.support.worker_harness import eventually
from tests.worker.test_limits import SOON, Gate, set_limits

store_url = store_urls("memory", "sqlite", "postgres")
shared_url = store_urls("sqlite", "postgres")


@pytest.fixture
async def observed(store_url: str) -> AsyncIterator[ObservedApp]:
    observed = ObservedApp(store_url)
    async with observed.app:
        yield observed


async def limits_of(app: Headway, queue: str = "x") -> QueueLimits:
    state = await app.store.run(app.store.queue_state, queue)
    return QueueLimits() if state is None else state.effective


async def test_an_override_holds_within_a_second(observed: ObservedApp) -> None:
    """Also for a queue that had no limits, and when they are taken back."""
    app = observed.app
    gate = Gate(app)
    async with observed.working(concurrency=4, queues=["x"], prefetch_for=0.0):
        await app.start_many([gate.request(text) for text in "abcd"])
        await gate.until(*"abcd")
        await set_limits(app, "x", LimitsOverride(running=2))
        await app.start_many([gate.request(text) for text in "efghij"])
        gate.end("a", "b")
        await observed.until(JobCompleted, 2, type="stay")
        await observed.until(ClaimRefused, limit="running")
        assert sorted(gate.running) == ["c", "d"]
        gate.end("c")
        await gate.until("d", "e", within=SOON)
        await set_limits(app, "x", LimitsOverride(running=3))
        await gate.until("d", "e", "f", within=SOON)
        await set_limits(app, "x", LimitsOverride(running=None))
        await gate.until("d", "e", "f", "g", within=SOON)
        gate.end(*"defghij")
        await observed.until(JobCompleted, 10, type="stay")


async def test_an_override_holds_within_a_second_without_a_notifier(store_url: str) -> None:
    app = Headway(store_url, notifier="none", migrate=True)
    gate = Gate(app)
    async with app:
        # Nothing is claimed ahead: what was claimed before an override runs.
        worker = app.worker(concurrency=4, queues=["x"], grace=5.0, prefetch_for=0.0)
        await worker.start()
        app.queue("unused", running=1)
        await app.start_many([gate.request(text) for text in "abcdefgh"])
        await gate.until(*"abcd")
        await app.store.run(override, app.store, "x", LimitsOverride(running=2))
        gate.end("a", "b")
        await gate.until("c", "d")
        await asyncio.sleep(1.2)  # it polls meanwhile
        assert sorted(gate.running) == ["c", "d"]
        for change, running in (
            (LimitsOverride(running=3), "cde"),
            (LimitsOverride(running=None), "cdef"),
        ):
            await app.store.run(override, app.store, "x", change)
            await gate.until(*running, within=2.0)
        await app.store.run(override, app.store, "x", LimitsOverride(rate=Rate(1, per=3600)))
        gate.end("c", "d")
        await gate.until("e", "f", "g", within=2.0)
        await app.store.run(override, app.store, "x", None)
        await gate.until("e", "f", "g", "h", within=2.0)
        gate.end(*"efgh")
        await worker.stop()


async def test_limits_are_stored_before_the_first_claim(observed: ObservedApp) -> None:
    app = observed.app
    gate = Gate(app)
    app.queue("x", running=1)
    await app.start_many([gate.request(text) for text in "ab"])
    async with observed.working(concurrency=4):
        await gate.until("a")
        await observed.until(ClaimRefused, limit="running")
        assert gate.most == 1
        gate.end("a", "b")
        await observed.until(JobCompleted, 2, type="stay")
    assert gate.most == 1


async def test_a_worker_claims_nothing_before_its_limits_are_stored() -> None:
    refused = 3

    async def away() -> None:
        nonlocal refused
        refused -= 1
        if refused >= 0:
            raise StoreUnreachable("the test's store", "it is away")

    app = Headway(FaultyStore(before={"is_declared": away}))
    gate = Gate(app)
    app.queue("x", running=1)
    async with app:
        await app.start_many([gate.request(text) for text in "ab"])
        worker = app.worker(grace=5.0)
        await worker.start()
        await gate.until("a")
        assert refused < 0
        gate.end("a", "b")
        await eventually(lambda: _ended(app, 2))
        await worker.stop()
    assert gate.most == 1


async def _ended(app: Headway, count: int) -> bool:
    return len((await app.list(state=JobState.COMPLETED)).jobs) == count


async def test_declarations_of_two_releases_do_not_take_turns(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer one stays while its workers live; after a rollback the older one comes back."""
    monkeypatch.setattr(queue_limits, "CHECK_EVERY", 0.1)
    old, new = ObservedApp(shared_url), ObservedApp(shared_url)
    old.app.queue("x", running=1)
    new.app.queue("x", running=2)
    async with old.app, new.app, old.working(worker_id="old"):
        await eventually(lambda: _has(old.app, QueueLimits(running=1)))
        async with new.working(worker_id="new"):
            await eventually(lambda: _has(old.app, QueueLimits(running=2)))
            await asyncio.sleep(0.5)  # the old worker checks meanwhile
            assert await limits_of(old.app) == QueueLimits(running=2)
        await eventually(lambda: _has(old.app, QueueLimits(running=1)))


async def _has(app: Headway, limits: QueueLimits) -> bool:
    return await limits_of(app) == limits


async def test_a_worker_of_an_app_that_declares_nothing_keeps_the_limits_of_another(
    shared_url: str,
) -> None:
    first, second = ObservedApp(shared_url), ObservedApp(shared_url)
    gate = Gate(first.app, second.app)
    first.app.queue("x", running=1)
    async with first.app, second.app:
        async with first.working(worker_id="first"):
            await eventually(lambda: _has(first.app, QueueLimits(running=1)))
        async with second.working(worker_id="second"):
            await second.app.start_many([gate.request(text) for text in "ab"])
            await gate.until("a")
            await second.until(ClaimRefused, limit="running")
            gate.end("a", "b")
            await second.until(JobCompleted, 2, type="stay")
        assert await limits_of(second.app) == QueueLimits(running=1)
    assert gate.most == 1


async def test_a_drain_waits_for_a_rate_and_ends_when_nothing_is_due(
    observed: ObservedApp,
) -> None:
    app = observed.app
    gate = Gate(app)
    gate.end(*"abcd")
    app.queue("x", rate=Rate(2, per=0.5))
    await app.start_many([gate.request(text) for text in "abcd"])
    async with asyncio.timeout(30):
        await observed.worker().run(drain=True)
        assert gate.started == list("abcd")
        await observed.worker(worker_id="again").run(drain=True)
    assert len(observed.seen(AttemptStarted, type="stay")) == 4


async def test_a_drain_waits_for_a_permit_that_another_worker_has(observed: ObservedApp) -> None:
    app = observed.app
    gate = Gate(app)
    app.queue("x", running=1)
    async with observed.working(worker_id="first", concurrency=1, queues=["x"]):
        await app.start(gate.request("a"))
        await gate.until("a")
        await app.start(gate.request("b"))
        draining = asyncio.create_task(observed.worker(worker_id="second").run(drain=True))
        await observed.until(ClaimRefused, worker="second")
        assert not draining.done()
        gate.end("a", "b")
        async with asyncio.timeout(30):
            await draining
    assert gate.most == 1


async def test_a_worker_that_waits_for_a_limit_stops_at_once(observed: ObservedApp) -> None:
    app = observed.app
    gate = Gate(app)
    app.queue("x", rate=Rate(1, per=3600))
    gate.end("a")
    worker = observed.worker()
    await worker.start()
    await app.start_many([gate.request(text) for text in "ab"])
    await observed.until(ClaimRefused, limit="rate")
    async with asyncio.timeout(SOON):
        await worker.stop()


async def test_a_claim_of_a_queue_with_limits_without_an_answer_is_repeated() -> None:
    """By its token: the jobs are neither lost nor counted twice."""
    lost = 2

    async def lose() -> None:
        nonlocal lost
        lost -= 1
        if lost >= 0:
            raise StoreUnreachable("the test's store", "the answer was lost")

    observed = ObservedApp("memory://")
    app = observed.app = Headway(FaultyStore(after={"claim_limited": lose}), observers=[observed])
    gate = Gate(app)
    app.queue("x", running=2, rate=Rate(4, per=3600, burst=4))
    async with app:
        started = await app.start_many([gate.request(text) for text in "abc"])
        async with observed.working(concurrency=4):
            await gate.until("a", "b")
            assert lost < 0
            gate.end("a", "b", "c")
            await observed.until(JobCompleted, 3, type="stay")
        state = await app.store.run(app.store.queue_state, "x")
        records = [await app.get(job) for job in started]
    assert gate.most == 2
    assert [(each.attempts, each.losses) for each in records] == [(0, 0)] * 3
    assert not observed.seen(JobReaped)
    assert observed.seen(WorkerTroubled, part="fetcher")
    assert state is not None
    assert state.effective.rate is not None
    assert state.effective.rate.allowed(state.paid_until, datetime.now(UTC)) == 1


async def test_the_highest_priority_gets_the_freed_permit(observed: ObservedApp) -> None:
    app = observed.app
    gate = Gate(app)
    app.queue("x", running=1)
    for text, priority in (("low", -5), ("plain", 0), ("high", 5), ("first", 9)):
        await app.start(gate.request(text), priority=priority)
    async with observed.working(concurrency=4):
        gate.end("first", "low", "plain", "high")
        await observed.until(JobCompleted, 4, type="stay")
    assert gate.started == ["first", "high", "plain", "low"]


async def test_limits_of_the_worker_hold_beside_those_of_the_queue(observed: ObservedApp) -> None:
    app = observed.app
    x, y = Gate(app), Gate(app, name="other", queue="y")
    app.queue("x", running=3)
    app.queue("y", running=3)
    async with observed.working(
        concurrency=4, queues=[WorkQueue("x", limit=2), WorkQueue("y")], prefetch_for=0.0
    ):
        await app.start_many([x.request(text) for text in "abc"])
        await app.start_many([y.request(text) for text in "abcd"])
        await x.until("a", "b")
        await y.until("a", "b")
        x.end("a")
        await x.until("b", "c", within=SOON)
        y.end("a", "b")
        await y.until("c", "d", within=SOON)
        x.end("b", "c")
        y.end("c", "d")
        await observed.until(JobCompleted, 7)
    assert (x.most, y.most) == (2, 2)


async def test_atomic_jobs_under_a_limit(observed: ObservedApp) -> None:
    app, running, most = observed.app, 0, 0

    @app.job(queue="x", atomic=True)
    async def keep(job: Job) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    app.queue("x", running=2)
    async with observed.working(concurrency=8):
        await app.start_many([keep.request()] * 12)
        await observed.until(JobCompleted, 12, type="keep")
    assert 1 <= most <= 2


async def test_a_suspect_under_a_limit_gets_its_turn(observed: ObservedApp) -> None:
    """A job that was lost twice is claimed alone; its queue has one permit."""
    app = observed.app
    gate = Gate(app)
    app.queue("x", running=1)
    await app.store.run(override, app.store, "x", LimitsOverride(running=1))
    gate.end("a", *map(str, range(20)))
    suspect = await app.start(gate.request("a"))
    await lose(app, suspect.id, times=2)
    async with observed.working(concurrency=4):
        await app.start_many([gate.request(str(number)) for number in range(20)])
        await app.start_many([observed.write.request(str(number)) for number in range(20)])
        await observed.until(JobCompleted, 21, type="stay")
        await observed.until(JobCompleted, 20, type="write")
    assert gate.most == 1


async def lose(app: Headway, job_id: str, times: int) -> None:
    """As workers do that die with the job."""
    store = app.store
    for _ in range(times):
        order = ClaimOrder(
            worker="dead",
            token=new_token(),
            lease_for=0.05,
            queues=(QueueShare("x", 1),),
            types=("stay",),
            limit=1,
            limited=True,
        )
        assert [job.id for job in await store.run(store.claim, order)] == [job_id]
        await eventually(lambda: _expired(app))
        expired: Any = await store.run(store.expired, 10)
        await store.run(store.settle, [after_expiry(job) for job in expired])


async def _expired(app: Headway) -> bool:
    return bool(await app.store.run(app.store.expired, 10))
