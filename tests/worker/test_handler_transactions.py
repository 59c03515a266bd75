"""Preparing, completing in a transaction, atomic handlers, continuations and blockers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway.domain.due_time import After
from headway.domain.events import JobCompleted, LeaseLost
from headway.domain.failure import decode_failure
from headway.domain.job import JobRecord, JobState
from headway.domain.request import Continuation
from headway.errors import ConfigurationError, InvalidRequest, JobInterrupted
from headway.jobs.job import Job
from headway.stores.memory import MemoryStore
from tests.support.worker_harness import AT_ONCE, WorkerHarness


def data(harness: WorkerHarness) -> Any:
    assert isinstance(harness.store, MemoryStore)
    return harness.store.data


async def error_of(harness: WorkerHarness, job_id: str) -> str:
    error = (await harness.get(job_id)).last_error
    assert error is not None
    return decode_failure(error).message


async def successors(harness: WorkerHarness, sequence_id: str) -> list[JobRecord]:
    (current,) = await harness.store.run(harness.store.current, [sequence_id])
    assert current is not None
    return [] if current.id == sequence_id else [current]


async def test_writes_commit_together_with_the_completion(harness: WorkerHarness) -> None:
    @harness.job
    async def place(job: Job, order: int) -> str:
        async with job.prepare() as tx:
            tx.data["seen"] = order
        assert data(harness)["seen"] == order
        tx = await job.complete()
        assert job.tx is tx
        tx.data["order"] = order
        assert "order" not in data(harness)
        return "placed"

    (job_id,) = await harness.start(place.request(7))
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.output) == (JobState.COMPLETED, '"placed"')
    assert dict(data(harness)) == {"seen": 7, "order": 7}
    assert harness.seen(JobCompleted, job_id=job_id)


async def test_an_atomic_handler_is_one_transaction(harness: WorkerHarness) -> None:
    @harness.job(atomic=True)
    async def move(job: Job) -> str:
        job.tx.data["moved"] = True
        return "moved"

    (job_id,) = await harness.start(move.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.COMPLETED
    assert dict(data(harness)) == {"moved": True}


@pytest.mark.parametrize("where", ["prepare", "between", "complete", "after", "output"])
async def test_an_error_rolls_everything_back_and_the_job_is_tried_again(
    harness: WorkerHarness, where: str
) -> None:
    @harness.job
    async def follow() -> None: ...

    @harness.job(retry=AT_ONCE)
    async def place(job: Job) -> Continuation[None]:
        first = job.attempt == 1
        async with job.prepare() as tx:
            tx.data["prepared"] = job.attempt
            if first and where == "prepare":
                raise ValueError(where)
        if first and where == "between":
            raise ValueError(where)
        tx = await job.complete()
        tx.data["completed"] = job.attempt
        if first and where == "complete":
            raise ValueError(where)
        continuation = job.continue_with(follow.request())
        if first and where == "after":
            raise ValueError(where)
        if first and where == "output":
            return object()  # type: ignore[return-value]
        return continuation

    (job_id,) = await harness.start(place.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
    assert dict(data(harness)) == {"prepared": 2, "completed": 2}
    assert [each.type for each in await successors(harness, job_id)] == ["follow"]


async def test_an_atomic_handler_that_fails_leaves_nothing_behind(harness: WorkerHarness) -> None:
    @harness.job(atomic=True, max_attempts=1)
    async def move(job: Job) -> None:
        job.tx.data["moved"] = True
        raise ValueError("after all not")

    (job_id,) = await harness.start(move.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert dict(data(harness)) == {}


async def test_completing_is_refused_when_the_job_is_no_longer_ours(harness: WorkerHarness) -> None:
    @harness.job
    async def place(job: Job) -> None:
        await harness.store.run(harness.store.cancel, [job.id])
        tx = await job.complete()
        tx.data["order"] = 1

    (job_id,) = await harness.start(place.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.CANCELLED
    assert harness.seen(LeaseLost, job_id=job_id)
    assert dict(data(harness)) == {}
    assert await harness.attempts(job_id) == []


async def test_swallowing_the_refusal_does_not_complete_the_job(harness: WorkerHarness) -> None:
    @harness.job
    async def place(job: Job) -> str:
        await harness.store.run(harness.store.cancel, [job.id])
        with pytest.raises(JobInterrupted):
            await job.complete()
        return "as if nothing had happened"

    (job_id,) = await harness.start(place.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.output) == (JobState.CANCELLED, None)


async def test_a_completing_transaction_may_outlast_the_lease(harness: WorkerHarness) -> None:
    @harness.job
    async def slow(job: Job) -> str:
        await job.complete()
        await asyncio.sleep(2.6)
        return "done"

    (job_id,) = await harness.start(slow.request())
    await harness.drain(lease_for=2.0, reap_every=0.02)
    job = await harness.get(job_id)
    assert (job.state, job.losses) == (JobState.COMPLETED, 0)


async def test_a_timeout_in_the_completing_transaction_rolls_it_back(
    harness: WorkerHarness,
) -> None:
    @harness.job(timeout=0.05, max_attempts=1)
    async def slow(job: Job) -> str:
        tx = await job.complete()
        tx.data["order"] = 1
        await asyncio.sleep(30)
        return "done"

    (job_id,) = await harness.start(slow.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert dict(data(harness)) == {}


async def prepare_twice(job: Job) -> None:
    async with job.prepare():
        pass
    async with job.prepare():
        pass


async def complete_twice(job: Job) -> None:
    await job.complete()
    await job.complete()


async def prepare_after_complete(job: Job) -> None:
    await job.complete()
    job.prepare()


async def complete_inside_prepare(job: Job) -> None:
    async with job.prepare():
        await job.complete()


async def no_transaction(job: Job) -> None:
    assert job.tx


@pytest.mark.parametrize(
    ("misuse", "complaint"),
    [
        (prepare_twice, "job.prepare() may be called once per execution"),
        (complete_twice, "job.complete() may be called once per execution"),
        (prepare_after_complete, "job.prepare() comes before job.complete(), not after it"),
        (complete_inside_prepare, "leave `async with job.prepare()` before the job is completed"),
        (no_transaction, "there is no transaction yet"),
    ],
)
async def test_misuse_is_named(
    harness: WorkerHarness, misuse: Callable[[Job], Awaitable[None]], complaint: str
) -> None:
    @harness.job(max_attempts=1)
    async def place(job: Job) -> None:
        await misuse(job)

    (job_id,) = await harness.start(place.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.FAILED
    assert complaint in await error_of(harness, job_id)


@pytest.mark.parametrize("verb", ["prepare", "complete"])
async def test_an_atomic_handler_has_no_other_transactions(
    harness: WorkerHarness, verb: str
) -> None:
    @harness.job(max_attempts=1, atomic=True)
    async def move(job: Job) -> None:
        getattr(job, verb)()

    (job_id,) = await harness.start(move.request())
    await harness.drain()
    assert "an atomic handler runs in one transaction" in await error_of(harness, job_id)


async def test_only_async_handlers_can_be_atomic(harness: WorkerHarness) -> None:
    with pytest.raises(ConfigurationError, match="'move' cannot be atomic"):

        @harness.job(atomic=True)
        def move() -> None: ...


async def test_handlers_in_threads_have_no_transactions(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=1)
    def move(job: Job) -> None:
        job.complete()

    (job_id,) = await harness.start(move.request())
    await harness.drain()
    assert "only available in `async def` handlers" in await error_of(harness, job_id)


async def test_a_sequence_goes_on_with_the_next_job(harness: WorkerHarness) -> None:
    @harness.job
    async def last(number: int) -> int:
        return number * 10

    @harness.job
    async def first(job: Job, number: int) -> Continuation[int]:
        return job.continue_with(last.request(number + 1))

    (sequence_id,) = await harness.start(first.request(1))
    await harness.drain()
    (current,) = await successors(harness, sequence_id)
    assert (current.type, current.state, current.output) == ("last", JobState.COMPLETED, "20")
    assert (current.sequence_id, current.position, current.origin_id) == (
        sequence_id,
        1,
        sequence_id,
    )
    first_job = await harness.get(sequence_id)
    assert (first_job.state, first_job.output) == (JobState.COMPLETED, None)


async def test_a_continuation_may_be_scheduled(harness: WorkerHarness) -> None:
    @harness.job
    async def last() -> None: ...

    @harness.job
    async def first(job: Job) -> Continuation[None]:
        return job.continue_with(last.request().using(schedule=After(hours=1)))

    (sequence_id,) = await harness.start(first.request())
    await harness.drain()
    (current,) = await successors(harness, sequence_id)
    assert current.state is JobState.PENDING


async def test_continuing_twice_or_not_returning_it_is_an_error(harness: WorkerHarness) -> None:
    @harness.job
    async def last() -> None: ...

    @harness.job(max_attempts=1)
    async def twice(job: Job) -> Continuation[None]:
        job.continue_with(last.request())
        return job.continue_with(last.request())

    @harness.job(max_attempts=1)
    async def forgets(job: Job) -> None:
        job.continue_with(last.request())

    double, forgetful = await harness.start(twice.request(), forgets.request())
    await harness.drain()
    assert "may be called once per execution" in await error_of(harness, double)
    assert "write `return job.continue_with(...)`" in await error_of(harness, forgetful)


async def test_blockers_reach_the_handler_typed_and_in_order(harness: WorkerHarness) -> None:
    @harness.job
    async def charge(cents: int) -> str:
        return f"receipt {cents}"

    @harness.job
    async def weigh() -> float:
        return 1.5

    @harness.job
    async def ship(job: Job[str, float], order: int) -> str:
        receipt, weight = job.blockers
        return f"{order}: {receipt}, {weight} kg"

    (job_id,) = await harness.start(
        ship.request(7).using(blockers=(charge.request(1999), weigh.request()))
    )
    await harness.drain()
    assert (await harness.get(job_id)).output == '"7: receipt 1999, 1.5 kg"'


async def test_a_continuation_is_stored_together_with_its_blockers(harness: WorkerHarness) -> None:
    @harness.job
    async def part() -> int:
        return 20

    @harness.job
    async def whole(job: Job[int, int]) -> int:
        return sum(job.blockers) + 2

    @harness.job
    async def plan(job: Job) -> Continuation[int]:
        return job.continue_with(whole.request().using(blockers=(part.request(), part.request())))

    (sequence_id,) = await harness.start(plan.request())
    await harness.drain()
    (current,) = await successors(harness, sequence_id)
    assert (current.type, current.output) == ("whole", "42")
    assert harness.seen(JobCompleted, job_id=sequence_id)


async def test_reschedule_in_the_completing_transaction_rolls_it_back(
    harness: WorkerHarness,
) -> None:
    @harness.job
    async def poll(job: Job) -> None:
        tx = await job.complete()
        tx.data["polled"] = True
        job.reschedule(After(hours=1))

    (job_id,) = await harness.start(poll.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.PENDING, 0)
    assert dict(data(harness)) == {}


async def test_wrong_arguments_of_the_jobs_own_verbs_are_refused(harness: WorkerHarness) -> None:
    @harness.job
    async def work(job: Job) -> None:
        with pytest.raises(InvalidRequest, match="between 0 and 1"):
            job.progress(7)
        with pytest.raises(InvalidRequest, match=r"At\(...\) or After\(...\)"):
            job.reschedule(30)  # type: ignore[arg-type]

    (job_id,) = await harness.start(work.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.COMPLETED
