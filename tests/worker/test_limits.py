"""Workers under the limits of queues: when they look, when they do not, and who is woken."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import pytest

from headway import Headway, Job, Rate, Worker
from headway.after_commit.effects import Effects
from headway.domain.events import (
    AttemptStarted,
    ClaimRefused,
    JobCompleted,
    JobReaped,
    JobReleased,
    PermitsGranted,
    WorkerStopping,
)
from headway.domain.job import JobState
from headway.domain.limits.queue_limits import LimitsOverride
from headway.domain.orders import ClaimOrder, QueueShare
from headway.jobs.ids import new_token
from headway.limits.changes import override
from headway.limits.claim import claim_limited
from headway.limits.key_claim import KeyTurns
from headway.ports.current_attempt import current_attempt
from headway.worker.settings import WorkQueue
from tests.support.observed_app import ObservedApp
from tests.support.stores import store_urls

SOON = 1.0
"""Seconds in which a woken worker has looked. The workers of these tests poll every 30 seconds."""
QUIET = 0.4
"""Seconds without a reason to look."""
POLLS = 4
"""Polls in this time at most: the pauses between them double, beginning with 0.05 seconds."""

store_url = store_urls("memory", "sqlite", "postgres")
shared_url = store_urls("sqlite", "postgres")
"""Stores that several apps, as in several processes, can share."""


class Gate:
    """Jobs that run until the test lets them end, in any of the apps."""

    def __init__(
        self, *apps: Headway, name: str = "stay", queue: str = "x", **options: Any
    ) -> None:
        self.running: list[str] = []
        self.most = 0
        self.started: list[str] = []
        self.workers: dict[str, str] = {}
        """By text, the worker that ran it last."""
        self._ends: dict[str, asyncio.Event] = {}

        async def stay(job: Job, text: str) -> str:
            self.running.append(text)
            self.started.append(text)
            attempt = current_attempt.get()
            assert attempt is not None
            self.workers[text] = attempt.worker
            self.most = max(self.most, len(self.running))
            try:
                await self._ends.setdefault(text, asyncio.Event()).wait()
            finally:
                self.running.remove(text)
            return text

        types = [app.job(name=name, queue=queue, **options)(stay) for app in apps]
        self.request = types[0].request

    def end(self, *texts: str) -> None:
        for text in texts:
            self._ends.setdefault(text, asyncio.Event()).set()

    async def until(self, *texts: str, within: float = 30.0) -> None:
        """Wait until these jobs run, and no others."""
        async with asyncio.timeout(within):
            while sorted(self.running) != sorted(texts):
                await asyncio.sleep(0.002)


def counted(app: Headway) -> Counter[str]:
    """Counts the operations that run on the app's store from now on, by name."""
    counts: Counter[str] = Counter()
    store: Any = app.store
    run = store.run

    async def counted_run(operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        counts[operation.__name__] += 1
        return await run(operation, *args, **kwargs)

    store.run = counted_run
    return counts


async def set_limits(app: Headway, queue: str, change: LimitsOverride | None) -> None:
    """As an operator does."""
    await app.store.run(override, app.store, queue, change)
    effects = Effects()
    effects.change_limits(queue)
    app.notifier.publish_soon(effects.notifications)


@pytest.fixture
async def observed(store_url: str) -> AsyncIterator[ObservedApp]:
    observed = ObservedApp(store_url)
    async with observed.app:
        yield observed


class Two:
    """Two apps on one store, each with a notifier of its own, as in two processes."""

    def __init__(self, url: str) -> None:
        self.first, self.second = ObservedApp(url), ObservedApp(url)
        self.apps = self.first.app, self.second.app

    def working(self, **settings: Any) -> AbstractAsyncContextManager[Worker]:
        return self.first.working(worker_id="first", **settings)

    def also_working(self, **settings: Any) -> AbstractAsyncContextManager[Worker]:
        return self.second.working(worker_id="second", **settings)


@pytest.fixture
async def two(shared_url: str) -> AsyncIterator[Two]:
    two = Two(shared_url)
    async with two.first.app, two.second.app:
        yield two


async def test_a_cap_holds_and_each_freed_permit_is_used_without_a_poll(
    observed: ObservedApp,
) -> None:
    app = observed.app
    gate = Gate(app)
    app.queue("x", running=2)
    async with observed.working(concurrency=10):
        await app.start_many([gate.request(text) for text in "abcdef"])
        await gate.until("a", "b")
        for ended, next_ in (("a", "bc"), ("b", "cd"), ("c", "de"), ("d", "ef")):
            gate.end(ended)
            await gate.until(*next_, within=SOON)
        gate.end("e", "f")
        await observed.until(JobCompleted, 6, type="stay")
    assert gate.most == 2
    assert observed.seen(ClaimRefused)[0].limit == "running"
    granted = observed.seen(PermitsGranted)
    assert [len(each.waited) for each in granted] == [1, 1, 1, 1]
    assert all(0 <= waited < 30 for each in granted for waited in each.waited)


async def test_a_worker_does_not_look_again_while_a_cap_binds(observed: ObservedApp) -> None:
    app = observed.app
    gate = Gate(app)
    app.queue("x", running=1)
    async with observed.working(concurrency=10, queues=["x"]):
        await app.start_many([gate.request("a"), gate.request("b")])
        await gate.until("a")
        await observed.until(ClaimRefused)
        counts = counted(app)
        await asyncio.sleep(QUIET)
        assert counts["claim_limited"] <= POLLS
        assert counts["claim"] == 0
        counts.clear()
        began = monotonic()
        for number in range(100):  # each of which wakes the worker
            await app.start(gate.request(f"late {number}"))
        looks = counts["claim_limited"]
        assert looks <= (monotonic() - began) / 0.05 + 2
        assert counts["claim"] == 0
        gate.end("a")
        await gate.until("b", within=SOON)
        gate.end("b", *(f"late {number}" for number in range(100)))
        await observed.until(JobCompleted, 102, type="stay")
    assert gate.most == 1


async def test_a_worker_does_not_look_again_while_a_rate_waits(observed: ObservedApp) -> None:
    """Not even while another queue has it claim all the time."""
    app = observed.app
    gate = Gate(app)
    app.queue("x", rate=Rate(1, per=60))
    async with observed.working(concurrency=10):
        gate.end("a")
        await app.start_many([gate.request("a"), gate.request("b")])
        await observed.until(ClaimRefused, limit="rate")
        counts = counted(app)
        await asyncio.sleep(QUIET)
        assert counts["claim_limited"] == 0  # it polls in vain, without a statement
        began = monotonic()
        for number in range(50):
            await app.start(observed.write.request(str(number)))
            await observed.until(JobCompleted, number + 1, type="write")
        assert counts["claim"] >= 5
        assert counts["claim_limited"] <= (monotonic() - began) / 0.5 + 1
    assert len(observed.seen(AttemptStarted, type="stay")) == 1


async def test_times_to_look_again_do_not_pile_up(observed: ObservedApp) -> None:
    """They would leave no room for the times of retries."""
    app = observed.app
    gate = Gate(app)
    app.queue("x", rate=Rate(1, per=3600))
    async with observed.working(concurrency=10) as worker:
        gate.end("a")
        await app.start_many([gate.request("a"), gate.request("b")])
        await observed.until(ClaimRefused, limit="rate")
        for _ in range(20):
            refused = len(observed.seen(ClaimRefused))
            await set_limits(app, "x", None)
            await observed.until(ClaimRefused, refused + 1)
        timing: Any = worker._run._schedule  # type: ignore[union-attr]
        assert len(timing._due_times) <= 5


async def test_starts_under_a_rate_are_not_kept_waiting_for_a_slot(observed: ObservedApp) -> None:
    """The rate has paid for them when they are claimed: none is claimed for a slot that the jobs of
    another queue have taken in the same round."""
    app = observed.app
    rated = Gate(app, name="rated", queue="rated")
    app.queue("rated", rate=Rate(100, per=3600, burst=100))
    short = [observed.write.request(str(number)) for number in range(600)]
    rated.end(*map(str, range(100)))
    async with observed.working(concurrency=2, queues=["letters", "rated"]):
        await app.start_many(short)
        await app.start_many([rated.request(str(number)) for number in range(60)])
        await observed.until(JobCompleted, 600, type="write")
        await observed.until(JobCompleted, 60, type="rated")
        state = await app.store.run(app.store.queue_state, "rated")
    assert not observed.seen(JobReleased, type="rated")
    assert state is not None
    assert state.effective.rate is not None
    assert state.effective.rate.allowed(state.paid_until, datetime.now(UTC)) == 40


async def test_a_permit_goes_to_another_worker_if_another_queue_took_the_slot(two: Two) -> None:
    gate = Gate(*two.apps)
    before = Gate(two.first.app, name="before", queue="before")
    two.first.app.queue("x", running=1)
    async with two.working(concurrency=1, queues=["before", "x"]):
        await two.first.app.start(gate.request("a"))
        await gate.until("a")
        async with two.also_working(concurrency=1, queues=["x"]):
            await two.first.app.start(gate.request("b"))
            await two.second.until(ClaimRefused, limit="running")
            await two.first.app.start(before.request("c"))
            gate.end("a")
            await before.until("c", within=SOON)
            await gate.until("b", within=SOON)
            assert gate.workers == {"a": "first", "b": "second"}
            before.end("c")
            gate.end("b")


async def test_a_permit_goes_to_another_worker_if_its_own_has_other_types(two: Two) -> None:
    gate = Gate(two.first.app)
    other = Gate(two.second.app, name="other")
    two.first.app.queue("x", running=1)
    async with two.working(), two.also_working():
        await two.first.app.start(gate.request("a"))
        await gate.until("a")
        await two.second.app.start(other.request("b"))
        await two.second.until(ClaimRefused, limit="running")
        gate.end("a")
        await other.until("b", within=SOON)
        other.end("b")


async def test_a_permit_goes_to_another_worker_if_its_own_stops(two: Two) -> None:
    gate = Gate(*two.apps)
    two.first.app.queue("x", running=1)
    worker = two.first.worker(worker_id="first")
    await worker.start()
    await two.first.app.start_many([gate.request("a"), gate.request("b")])
    await gate.until("a")
    async with two.also_working():
        await two.second.until(ClaimRefused, limit="running")
        stopping = asyncio.create_task(worker.stop())
        await two.first.until(WorkerStopping)
        gate.end("a")
        await gate.until("b", within=SOON)
        await stopping
        gate.end("b")
    assert gate.workers == {"a": "first", "b": "second"}


@pytest.mark.parametrize("how", ["cancelled", "deleted", "completed"])
async def test_a_job_that_is_ended_from_outside_frees_its_permit_at_once(
    two: Two, how: str
) -> None:
    """Also if its handler goes on, as one in a thread does."""
    app = two.first.app
    goes_on, began = threading.Event(), threading.Event()

    @app.job(queue="x")
    def deaf() -> None:
        began.set()
        goes_on.wait(30)

    gate = Gate(two.second.app)
    app.queue("x", running=1)
    try:
        async with two.working(queues=["x"]), two.also_working(queues=["x"]):
            started = await app.start(deaf.request())
            await asyncio.to_thread(began.wait, 30)
            await two.second.app.start(gate.request("b"))
            await two.second.until(ClaimRefused, limit="running")
            match how:
                case "cancelled":
                    await app.cancel(started.id)
                case "deleted":
                    await app.delete_sequences([started.id])
                case _:
                    async with app.complete_sequence(started.id, deaf) as completion:
                        await completion.complete(None)
            await gate.until("b", within=SOON)
            gate.end("b")
            goes_on.set()
    finally:
        goes_on.set()


async def _lost(app: Headway, request: Any, *, max_losses: int) -> str:
    """A job whose worker has died: its lease ends in a moment."""
    started = await app.start(request, max_losses=max_losses)
    order = ClaimOrder(
        worker="dead",
        token=new_token(),
        lease_for=0.3,
        queues=(QueueShare("x", 1),),
        types=(request.type,),
        limit=1,
        limited=True,
    )
    claimed = await app.store.run(claim_limited, app.store, order, KeyTurns())
    assert [job.id for job in claimed.jobs] == [started.id]
    return started.id


@pytest.mark.parametrize("max_losses", [1, 5])
async def test_a_lost_job_frees_its_permit_when_it_is_reaped(two: Two, max_losses: int) -> None:
    """Whether it is dead-lettered or given back; also for workers that do not know its type."""
    app = two.first.app
    await app.store.run(override, app.store, "x", LimitsOverride(running=1))
    gate, other = Gate(app), Gate(two.second.app, name="other")
    lost = await _lost(app, gate.request("a"), max_losses=max_losses)
    async with two.also_working(reap_every=3600.0):
        await two.second.app.start(other.request("b"))
        await two.second.until(ClaimRefused, limit="running")
        async with two.working(queues=["letters"]):
            await two.first.until(JobReaped)
            await other.until("b", within=SOON)
        other.end("b")
    state = (await app.get(lost)).state
    assert state is (JobState.FAILED if max_losses == 1 else JobState.PENDING)


@pytest.mark.parametrize("limits", [{"running": 1}, {"rate": Rate(1000, per=1, burst=100)}])
@pytest.mark.parametrize("weighted", [False, True])
async def test_a_queue_with_limits_gets_slots_beside_a_queue_with_a_long_backlog(
    observed: ObservedApp, limits: dict[str, Any], weighted: bool
) -> None:
    """Its jobs cannot be claimed ahead, and those of the other queue take every slot otherwise."""
    app = observed.app
    gate = Gate(app)
    app.queue("x", **limits)
    names = ["x", "letters"]
    queues = [WorkQueue(name, weight=1.0) for name in names] if weighted else names
    async with observed.working(concurrency=2, queues=queues):
        await app.start_many([observed.write.request(str(number)) for number in range(12_000)])
        await observed.until(JobCompleted, 200, type="write")
        gate.end("a", "b", "c")
        await app.start_many([gate.request(text) for text in "abc"])
        await observed.until(JobCompleted, 3, type="stay")
        assert len(observed.seen(JobCompleted, type="write")) < 11_000


async def test_two_queues_are_both_drained_without_polls(observed: ObservedApp) -> None:
    """A claim that could ask only one of them must not make the worker forget the other."""
    app = observed.app
    gate = Gate(app)
    app.queue("x", rate=Rate(1000, per=3600, burst=1000))
    gate.end(*map(str, range(20)))
    requests = [observed.write.request(str(number)) for number in range(300)]
    async with observed.working(concurrency=2, queues=["x", "letters"]):
        counts = counted(app)
        await app.start_many([gate.request(str(number)) for number in range(20)])
        await app.start_many(requests)
        await observed.until(JobCompleted, 300, type="write")
        await observed.until(JobCompleted, 20, type="stay")
        assert counts["claim"] + counts["claim_limited"] < 320
