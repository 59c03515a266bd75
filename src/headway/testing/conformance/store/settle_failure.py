"""settle with Retry and Fail: counters and history after a failed execution."""

from __future__ import annotations

import msgspec

from headway.domain.job import AttemptRecord, JobState
from headway.domain.lease import Verdict
from headway.domain.settlement import Fail, Retry, Settled
from headway.domain.validation import LONGEST
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import (
    ERROR,
    LEASE,
    MICROSECOND,
    OTHER_ERROR,
    T0,
    StoreCases,
    at,
)

case = StoreCases("failure")


@case
async def a_retry_makes_the_job_pending_after_its_delay(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.read(store, job.id)
    settled = await kit.settle(store, Retry(job.id, job.lease.token, 2.5, ERROR), now=at(4))
    assert settled == Settled([Verdict.APPLIED], [])
    assert await kit.read(store, job.id) == msgspec.structs.replace(
        before,
        state=JobState.PENDING,
        run_at=at(6.5),
        attempts=1,
        last_error=ERROR,
        lease=None,
    )


@case
async def a_retry_is_not_due_before_its_delay_is_over(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 2.5, ERROR), now=at(4))
    assert await kit.claim(store, job.queue, now=at(6.5) - MICROSECOND) == []
    again = await kit.claim_one(store, job.queue, now=at(6.5))
    assert (again.id, again.attempts, again.lease.version) == (job.id, 1, 2)


@case
async def a_retry_without_delay_is_due_at_once(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 0.0, ERROR), now=at(4))
    assert (await kit.claim_one(store, job.queue, now=at(4))).id == job.id


@case
async def a_delay_is_kept_to_the_microsecond(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 0.123_457, ERROR), now=at(1))
    assert (await kit.read(store, job.id)).run_at == at(1.123_457)


@case
async def a_retried_job_goes_behind_those_that_are_due(store: Store) -> None:
    job = await kit.running(store, queue="q")
    other = await kit.running(store, queue="q")
    await kit.apply(store, Retry(other.id, other.lease.token, 1.0, ERROR), now=at(1))
    await kit.apply(store, Retry(job.id, job.lease.token, 5.0, ERROR), now=at(1))
    assert [claimed.id for claimed in await kit.claim(store, "q", now=at(9))] == [other.id, job.id]


@case
async def a_failed_execution_leaves_an_attempt(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 1.0, ERROR), now=at(4))
    assert await kit.attempts_of(store, job.id) == [
        AttemptRecord(
            job_id=job.id,
            version=1,
            outcome="failed",
            worker="worker-1",
            started_at=T0,
            finished_at=at(4),
            error=ERROR,
        )
    ]


@case
async def attempts_are_kept_oldest_first(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 0.0, ERROR), now=at(1))
    for number in (2, 3):
        again = await kit.claim_one(store, job.queue, now=at(number), worker=f"worker-{number}")
        change = Retry(job.id, again.lease.token, 0.0, OTHER_ERROR)
        await kit.apply(store, change, now=at(number) + MICROSECOND)
    last = await kit.claim_one(store, job.queue, now=at(4), worker="worker-4")
    await kit.apply(store, Fail(job.id, last.lease.token, ERROR), now=at(5))
    history = await kit.attempts_of(store, job.id)
    assert [attempt.version for attempt in history] == [1, 2, 3, 4]
    assert [attempt.worker for attempt in history] == [f"worker-{n}" for n in (1, 2, 3, 4)]
    assert [attempt.error for attempt in history] == [ERROR, OTHER_ERROR, OTHER_ERROR, ERROR]
    assert [attempt.started_at for attempt in history] == [T0, at(2), at(3), at(4)]
    assert history[1].finished_at == at(2) + MICROSECOND
    assert (await kit.read(store, job.id)).attempts == 4


@case
async def the_store_retries_as_often_as_it_is_told(store: Store) -> None:
    job = await kit.running(store, max_attempts=1)
    await kit.apply(store, Retry(job.id, job.lease.token, 0.0, ERROR))
    again = await kit.claim_one(store, job.queue, now=at(2))
    assert (again.attempts, again.max_attempts) == (1, 1)


@case
async def a_failed_job_is_dead_lettered(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.read(store, job.id)
    settled = await kit.settle(store, Fail(job.id, job.lease.token, ERROR), now=at(4))
    assert settled == Settled([Verdict.APPLIED], [])
    assert await kit.read(store, job.id) == msgspec.structs.replace(
        before,
        state=JobState.FAILED,
        attempts=1,
        last_error=ERROR,
        finished_at=at(4),
        lease=None,
    )
    (attempt,) = await kit.attempts_of(store, job.id)
    assert (attempt.outcome, attempt.error, attempt.finished_at) == ("failed", ERROR, at(4))


@case
async def a_failed_job_is_not_claimed(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Fail(job.id, job.lease.token, ERROR))
    assert await kit.claim(store, job.queue, now=at(3600)) == []


@case
async def failing_again_succeeds_and_changes_nothing(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Fail(job.id, job.lease.token, ERROR))
    before = await kit.snapshot(store)
    for token in (job.lease.token, kit.new_token()):
        settled = await kit.settle(store, Fail(job.id, token, OTHER_ERROR), now=at(LEASE + 9))
        assert settled.verdicts == [Verdict.ALREADY]
    assert await kit.snapshot(store) == before


@case
async def retrying_twice_charges_once(store: Store) -> None:
    job = await kit.running(store)
    retry = Retry(job.id, job.lease.token, 1.0, ERROR)
    await kit.apply(store, retry)
    before = await kit.snapshot(store)
    assert (await kit.settle(store, retry)).verdicts == [Verdict.NOT_RUNNING]
    assert await kit.snapshot(store) == before


@case
async def errors_come_back_as_they_were(store: Store) -> None:
    error = '{"type":"Erreur","message":"là-bas \\u0000 🚚 \'quoted\' %s"}' + "x" * 20_000
    job = await kit.running(store)
    await kit.apply(store, Fail(job.id, job.lease.token, error))
    assert (await kit.read(store, job.id)).last_error == error
    (attempt,) = await kit.attempts_of(store, job.id)
    assert attempt.error == error


@case
async def each_job_of_a_batch_keeps_its_own_error(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(6)]
    await kit.apply(
        store,
        *[
            Retry(job.id, job.lease.token, float(number), f"error {number}")
            if number % 2
            else Fail(job.id, job.lease.token, f"error {number}")
            for number, job in enumerate(jobs)
        ],
    )
    for number, job in enumerate(jobs):
        (attempt,) = await kit.attempts_of(store, job.id)
        assert attempt.error == f"error {number}"
        stored = await kit.read(store, job.id)
        assert stored.last_error == f"error {number}"
        assert stored.run_at == (at(1 + number) if number % 2 else T0)


@case
async def a_retry_can_be_put_off_for_a_hundred_years(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, LONGEST, ERROR), now=at(5))
    stored = await kit.read(store, job.id)
    assert (stored.run_at, stored.attempts) == (at(5 + LONGEST), 1)
    assert await kit.claim(store, job.queue, now=at(1e6)) == []
