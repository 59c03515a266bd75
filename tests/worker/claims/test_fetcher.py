"""What is claimed, in which order, how much of it, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

import pytest

from headway import After, Continuation, Headway
from headway.domain.events import (
    AttemptStarted,
    JobCompleted,
    JobDeadLettered,
    JobReleased,
    LeaseLost,
    WorkerRecovered,
    WorkerTroubled,
)
from headway.domain.failure import decode_failure
from headway.domain.job import ClaimedJobs, JobState
from headway.domain.orders import ClaimOrder
from headway.domain.retry import Fixed
from headway.errors import StoreUnreachable
from headway.jobs.job import Job
from headway.notifiers.local import LocalNotifier
from headway.ports.notifications import EVERYTHING, Interest, JobsScheduled
from headway.ports.notifier import Disposer, Listener
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore
from headway.worker.claims.slots import MOST_AHEAD
from headway.worker.committer import MOST_BEHIND
from headway.worker.settings import MAX_BATCH, WorkQueue
from tests.support.faulty_store import FaultyStore
from tests.support.worker_harness import PATIENCE, WorkerHarness

P = ParamSpec("P")
T = TypeVar("T")


class Counting(MemoryStore):
    """Remembers the claims it was asked for, and how many jobs each gave."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[tuple[ClaimOrder, int]] = []

    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        claimed = yield from super().claim(order, now=now)
        self.claims.append((order, len(claimed)))
        return claimed


class Forgetful(Counting):
    """Grants claims, and the answers of the first so many are lost."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.on_loss: Callable[[], None] = lambda: None

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        answer = await super().run(operation, *args, **kwargs)
        if operation.__name__ == "claim" and self.times:
            self.times -= 1
            self.on_loss()
            raise StoreUnreachable("the test's store", "the answer was lost")
        return answer


async def test_a_claim_without_an_answer_is_repeated_until_there_is_one() -> None:
    store = Forgetful(times=3)
    harness = WorkerHarness(store)
    await store.open()
    ran: list[int] = []

    @harness.job
    async def work(number: int) -> None:
        ran.append(number)

    job_ids = await harness.start(*(work.request(number) for number in range(20)))
    await harness.drain(concurrency=10)
    assert sorted(ran) == list(range(20))
    assert not harness.seen(LeaseLost)
    for job_id in job_ids:
        job = await harness.get(job_id)
        assert (job.state, job.losses, job.lease_version) == (JobState.COMPLETED, 0, 1)
    tokens = [order.token for order, _ in store.claims]
    assert len(set(tokens[:4])) == 1
    assert [order.again for order, _ in store.claims[:5]] == [False, True, True, True, False]


async def test_a_worker_that_stops_gives_back_what_an_unanswered_claim_took() -> None:
    store = Forgetful(times=1)
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def work() -> None: ...

    job_ids = await harness.start(*(work.request() for _ in range(5)))
    worker = harness.worker(concurrency=3)
    store.on_loss = worker.request_stop
    async with asyncio.timeout(PATIENCE):
        await worker.run()
    assert not harness.seen(AttemptStarted)
    for job_id in job_ids:
        job = await harness.get(job_id)
        assert (job.state, job.losses, job.attempts) == (JobState.PENDING, 0, 0)
    assert len(store.claims) == 2


async def test_no_more_is_claimed_than_slots_are_free_for(harness: WorkerHarness) -> None:
    begun: list[int] = []
    go = asyncio.Event()

    @harness.job
    async def slow(number: int) -> None:
        begun.append(number)
        await go.wait()

    async def claimed() -> int:
        counts = await harness.store.run(harness.store.counts)
        return sum(each.count for each in counts if each.state is JobState.RUNNING)

    await harness.start(*(slow.request(number) for number in range(20)))
    async with harness.working(concurrency=3) as worker:
        await harness.until(lambda: len(harness.seen(AttemptStarted)) == 3)
        assert await claimed() < 10
        # Three quick starts may look like short jobs: then a few are claimed ahead, and given back.
        async with asyncio.timeout(PATIENCE):
            while await claimed() != 3:
                await asyncio.sleep(0.02)
        assert len(worker.running) == len(begun) == 3
        go.set()
        await harness.until(lambda: len(harness.seen(JobCompleted)) == 20)
    assert sorted(begun) == list(range(20))


async def test_a_slow_queue_within_its_limit_does_not_starve_a_fast_one(
    harness: WorkerHarness,
) -> None:
    go = asyncio.Event()

    @harness.job(queue="slow")
    async def slow() -> None:
        await go.wait()

    @harness.job(queue="fast")
    async def fast() -> None: ...

    await harness.start(*(slow.request() for _ in range(50)))
    await harness.start(*(fast.request() for _ in range(200)))
    async with harness.working(queues={"slow": 2, "fast": None}, concurrency=5):
        await harness.until(lambda: len(harness.seen(JobCompleted, type="fast")) == 200)
        assert len(harness.seen(AttemptStarted, type="slow")) == 2
        go.set()
        await harness.until(lambda: len(harness.seen(JobCompleted)) == 250)


async def test_queues_are_asked_in_their_order(harness: WorkerHarness) -> None:
    @harness.job
    async def work() -> None: ...

    await harness.start(*(work.request().using(queue="low") for _ in range(20)))
    await harness.start(*(work.request().using(queue="high") for _ in range(20)))
    await harness.drain(queues=["high", "low"], batch_size=5, concurrency=5)
    assert [event.queue for event in harness.seen(AttemptStarted)] == ["high"] * 20 + ["low"] * 20


async def test_queues_with_weights_are_asked_first_in_proportion() -> None:
    store = Counting()
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def work() -> None: ...

    for queue in ("a", "b"):
        await harness.start(*(work.request().using(queue=queue) for _ in range(1_000)))
    await harness.drain(
        queues=[WorkQueue("a", weight=9), WorkQueue("b", weight=1)],
        batch_size=2,
        concurrency=2,
        prefetch_for=0,
    )
    first = [order.queues[0].name for order, count in store.claims[:400] if count]
    assert 300 < first.count("a") < 400
    assert "b" in first


async def test_short_jobs_are_claimed_in_large_batches() -> None:
    store = Counting()
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def quick() -> None: ...

    await harness.start(*(quick.request() for _ in range(20_000)))
    # As many are claimed as start within this time, however slow the machine is.
    await harness.drain(concurrency=10, prefetch_for=5)
    given = [count for _, count in store.claims if count]
    assert max(given) == 500
    assert len(given) < 20_000 / 50


async def test_jobs_claimed_ahead_are_given_back_when_the_running_ones_turn_out_long(
    harness: WorkerHarness,
) -> None:
    go = asyncio.Event()

    @harness.job
    async def quick() -> None: ...

    @harness.job
    async def slow() -> None:
        await go.wait()

    await harness.start(*(quick.request() for _ in range(1_000)))
    await harness.start(*(slow.request() for _ in range(50)))
    async with harness.working(concurrency=2) as worker:
        await harness.until(lambda: len(harness.seen(AttemptStarted, type="slow")) == 2)
        await harness.event(JobReleased, type="slow")
        counts = await harness.store.run(harness.store.counts)
        assert [each.count for each in counts if each.state is JobState.RUNNING] == [2]
        assert len(worker.running) == 2
        go.set()
        await harness.until(lambda: len(harness.seen(JobCompleted, type="slow")) == 50)


async def test_queues_are_asked_in_their_order_when_claims_are_slow() -> None:
    """What has been claimed and waits must not look like a stock that needs no more."""
    store = FaultyStore(before={"claim": lambda: asyncio.sleep(0.05)})
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def work() -> None: ...

    for queue in ("low", "high"):
        await harness.start(*(work.request().using(queue=queue) for _ in range(20)))
    await harness.drain(queues=["high", "low"], batch_size=5, concurrency=5)
    assert [event.queue for event in harness.seen(AttemptStarted)] == ["high"] * 20 + ["low"] * 20


async def test_no_more_is_claimed_while_commits_are_far_behind() -> None:
    most_held = 0

    async def slowly() -> None:
        """Commits take longer than the jobs of a batch."""
        nonlocal most_held
        await asyncio.sleep(0.1)
        counts = await store.run(store.counts)
        running = [each.count for each in counts if each.state == "running"]
        most_held = max(most_held, *running, 0)

    store = FaultyStore(before={"settle": slowly})
    harness = WorkerHarness(store)
    await store.open()

    @harness.job
    async def quick() -> None: ...

    await harness.start(*(quick.request() for _ in range(8_000)))
    await harness.drain(concurrency=100)
    assert len(harness.seen(JobCompleted)) == 8_000
    assert most_held < MOST_BEHIND + MOST_AHEAD + 2 * MAX_BATCH


@pytest.fixture
def hours_between_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle worker has looked, and does not look again unless there is a reason."""
    monkeypatch.setattr("headway.worker.claims.claim_timing.SHORTEST_POLL", 3600.0)


@pytest.mark.usefixtures("hours_between_looks")
async def test_a_notification_wakes_an_idle_worker() -> None:
    store = Counting()
    harness = WorkerHarness(store)
    await store.open()
    harness.notifier = LocalNotifier()

    @harness.job
    async def work() -> None: ...

    async with harness.working(poll_every=3600):
        await _settle_down(store)
        (job_id,) = await harness.start(work.request())
        await harness.notifier.publish([JobsScheduled("default", "work", 1)])
        await harness.event(JobCompleted, job_id=job_id)


class Talkative(LocalNotifier):
    """Delivers all notifications, whatever the interest."""

    async def subscribe(
        self, listener: Listener, interest: Interest = EVERYTHING, **others: Any
    ) -> Disposer:
        return await super().subscribe(listener, EVERYTHING, **others)


@pytest.mark.usefixtures("hours_between_looks")
@pytest.mark.parametrize("notifier", [LocalNotifier, Talkative])
@pytest.mark.parametrize(
    "notification",
    [JobsScheduled("elsewhere", "work", 1), JobsScheduled("default", "foreign", 1)],
    ids=["other queue", "other type"],
)
async def test_a_notification_for_others_leaves_the_worker_alone(
    notification: JobsScheduled, notifier: type[LocalNotifier]
) -> None:
    store = Counting()
    harness = WorkerHarness(store)
    await store.open()
    harness.notifier = notifier()

    @harness.job
    async def work() -> None: ...

    async with harness.working(poll_every=3600):
        claims = await _settle_down(store)
        await harness.notifier.publish([notification])
        assert await _settle_down(store) == claims


@pytest.mark.usefixtures("hours_between_looks")
async def test_a_notification_of_a_job_that_another_took_costs_one_look() -> None:
    store = Counting()
    harness = WorkerHarness(store)
    await store.open()
    harness.notifier = LocalNotifier()

    @harness.job
    async def work() -> None: ...

    async with harness.working(poll_every=3600):
        claims = await _settle_down(store)
        await harness.notifier.publish([JobsScheduled("default", "work", 1)])
        assert await _settle_down(store) == claims + 1


@pytest.mark.usefixtures("hours_between_looks")
async def test_a_blocker_of_a_continuation_that_is_due_later_is_not_left_to_polling() -> None:
    app = Headway("memory://")
    ran: list[str] = []

    @app.job(entry=False)
    async def ship(job: Job[str]) -> None: ...

    @app.job
    async def charge() -> str:
        ran.append("charge")
        return "paid"

    @app.job
    async def order(job: Job) -> Continuation[None]:
        later = charge.request().using(schedule=After(seconds=0.2))
        return job.continue_with(ship.request().using(blockers=(later,)))

    async with app:
        worker = app.worker(poll_every=3600)
        running = asyncio.create_task(worker.run())
        sequence = await app.start(order.request())
        await sequence.result(timeout=30)
        worker.request_stop()
        await running
    assert ran == ["charge"]


async def _settle_down(store: Counting) -> int:
    """Wait until an idle worker rests; how often it has looked until then."""
    before = -1
    while len(store.claims) != before:
        before = len(store.claims)
        await asyncio.sleep(0.5)
    return before


@pytest.mark.usefixtures("hours_between_looks")
async def test_a_retry_is_taken_when_it_falls_due_and_not_at_the_next_poll(
    harness: WorkerHarness,
) -> None:
    runs: list[float] = []

    @harness.job(retry=Fixed(0.15))
    async def flaky() -> None:
        runs.append(time.monotonic())
        if len(runs) == 1:
            raise ValueError

    await harness.start(flaky.request())
    async with harness.working(poll_every=3600):
        await harness.event(JobCompleted)
    assert runs[1] - runs[0] > 0.14


async def test_a_paused_queue_is_left_alone(harness: WorkerHarness) -> None:
    @harness.job
    async def work() -> None: ...

    await harness.store.run(harness.store.pause, "default", True)
    (job_id,) = await harness.start(work.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.PENDING
    await harness.store.run(harness.store.pause, "default", False)
    await harness.drain()
    assert await harness.state(job_id) is JobState.COMPLETED


class Unreadable(MemoryStore):
    """Cannot say what the blockers of some jobs yielded."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[str] = set()
        self.broken = False

    def blocker_outputs(self, job_ids: Sequence[str]) -> Operation[dict[str, list[str | None]]]:
        if self.broken or self.bad & set(job_ids):
            raise ValueError("invalid byte sequence\nrow: secret")
        return super().blocker_outputs(job_ids)


@pytest.fixture
async def unreadable() -> AsyncIterator[Unreadable]:
    store = Unreadable()
    await store.open()
    yield store
    await store.close()


def first_and_second(harness: WorkerHarness) -> tuple[Any, Any]:
    """Job types; the second one waits for the first."""

    @harness.job
    async def first() -> int:
        return 1

    @harness.job
    async def second(job: Job[int]) -> int:
        return job.blockers[0] + 1

    return first, second


async def test_a_job_whose_blockers_cannot_be_read_is_dead_lettered_and_others_go_on(
    unreadable: Unreadable,
) -> None:
    harness = WorkerHarness(unreadable)
    first, second = first_and_second(harness)
    ids = await harness.start(
        *[second.request().using(blockers=(first.request(),)) for _ in range(3)]
    )
    unreadable.bad = {ids[1]}
    await harness.drain()
    jobs = [await harness.get(job_id) for job_id in ids]
    states = [job.state for job in jobs]
    assert states == [JobState.COMPLETED, JobState.FAILED, JobState.COMPLETED]
    failure = decode_failure(jobs[1].last_error or "")
    assert failure.message == (
        "what its blockers yielded could not be read: ValueError: invalid byte sequence"
    )
    assert harness.seen(JobDeadLettered, job_id=ids[1])


async def test_a_store_that_cannot_read_any_blockers_keeps_nothing_else_waiting(
    unreadable: Unreadable,
) -> None:
    harness = WorkerHarness(unreadable)
    first, second = first_and_second(harness)
    unreadable.broken = True
    (waiting,) = await harness.start(second.request().using(blockers=(first.request(),)))
    async with harness.working():
        await harness.event(JobReleased, job_id=waiting)
        (other,) = await harness.start(first.request())
        await harness.event(JobCompleted, job_id=other)
        unreadable.broken = False
        await harness.event(JobCompleted, job_id=waiting)
    job = await harness.get(waiting)
    assert (job.attempts, job.losses) == (0, 0)
    assert len(harness.seen(WorkerTroubled)) == len(harness.seen(WorkerRecovered)) == 1
