"""tally, ended, throughput, failures and time.

With few jobs every store is exact; very many jobs are tested with each store by itself.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headway.domain.due_time import After
from headway.domain.job import JobState
from headway.domain.queries import (
    EndedCount,
    EndedJob,
    FailureCount,
    JobFilter,
    QueueRecord,
    Tally,
)
from headway.domain.settlement import Fail, Lose
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, OTHER_ERROR, T0, StoreCases, at

case = StoreCases("statistics")


@case
async def the_time_is_the_one_given_or_the_stores_own(store: Store) -> None:
    assert await store.run(store.time, now=T0) == T0
    first = await store.run(store.time)
    second = await store.run(store.time)
    assert first <= second
    assert second - first < timedelta(minutes=5)


@case
async def nothing_is_tallied_where_nothing_is(store: Store) -> None:
    assert await store.run(store.tally, now=T0) == []
    assert await store.run(store.ended, 10) == []
    assert await store.run(store.throughput, 3, 1.0, now=T0) == []
    assert await store.run(store.failures, JobFilter(), 10, now=T0) == []


@case
async def jobs_are_tallied_by_queue_type_and_state(store: Store) -> None:
    await kit.add(store, queue="a", type="x", now=at(3))
    await kit.add(store, queue="a", type="x", now=at(2))
    await kit.add(store, queue="a", type="x", schedule=After(seconds=60))
    await kit.add(store, queue="a", type="y")
    await kit.add(store, queue="b", type="x", priority=5)
    (job,) = await kit.claim(store, "b", types=("x",), now=at(1))
    await kit.complete(store, job, now=at(2))
    tallies = await store.run(store.tally, now=at(10))

    def tally(queue: str, type: str, state: JobState, count: int, **more: Any) -> Tally:
        given: dict[str, Any] = {"due": True, "oldest": None, "exact": True} | more
        return Tally(queue=queue, type=type, state=state, count=count, **given)

    assert sorted(tallies, key=lambda each: (each.queue, each.type, each.state, each.due)) == [
        tally("a", "x", JobState.PENDING, 1, due=False, oldest=at(60)),
        tally("a", "x", JobState.PENDING, 2, oldest=at(2)),
        tally("a", "y", JobState.PENDING, 1, oldest=T0),
        tally("b", "x", JobState.COMPLETED, 1),
    ]


@case
async def every_state_is_tallied(store: Store) -> None:
    for state in JobState:
        await kit.in_state(store, state)
    tallies = await store.run(store.tally, now=at(10))
    by_state = dict.fromkeys(JobState, 0)
    for each in tallies:
        by_state[each.state] += each.count
        assert each.exact
    expected = dict.fromkeys(JobState, 1)
    expected[JobState.PENDING] = 2  # one blocks the blocked one
    assert by_state == expected


@case
async def those_that_ended_last_come_first(store: Store) -> None:
    one = await kit.running(store, queue="a", type="x")
    two = await kit.running(store, queue="b")
    await kit.in_state(store, JobState.PENDING)
    await kit.complete(store, two, now=at(3))
    await kit.apply(store, Fail(one.id, one.lease.token, ERROR), now=at(5))
    last, first = await store.run(store.ended, 10)
    assert last == EndedJob(
        queue="a",
        type="x",
        state=JobState.FAILED,
        run_at=T0,
        started_at=T0,
        finished_at=at(5),
    )
    assert (first.queue, first.state, first.finished_at) == ("b", JobState.COMPLETED, at(3))
    assert await store.run(store.ended, 1) == [last]


@case
async def what_ended_is_counted_by_slices_of_time(store: Store) -> None:
    async def end(second: float, queue: str) -> None:
        job = await kit.running(store, queue=queue)
        await kit.complete(store, job, now=at(second))

    for second in (1.0, 10.0, 10.5, 19.9, 20.0):
        await end(second, "a")
    await end(12, "b")
    job = await kit.running(store, queue="a")
    await kit.apply(store, Fail(job.id, job.lease.token, ERROR), now=at(15))
    counts = await store.run(store.throughput, 2, 10.0, now=at(25))  # 5 to 15, 15 to 25

    def count(slice: int, queue: str, state: JobState, number: int) -> EndedCount:
        return EndedCount(slice=slice, queue=queue, state=state, count=number, covered=10.0)

    assert sorted(counts, key=lambda each: (each.slice, each.queue, each.state)) == [
        count(0, "a", JobState.COMPLETED, 2),
        count(0, "b", JobState.COMPLETED, 1),
        count(1, "a", JobState.COMPLETED, 2),
        count(1, "a", JobState.FAILED, 1),
    ]


@case
async def failures_come_in_groups(store: Store) -> None:
    ids: dict[str, list[str]] = {"aa": [], "bb": []}
    for second, fingerprint in enumerate(("aa", "bb", "aa", "aa"), start=1):
        job = await kit.running(store, queue="ab"[second % 2])
        fail = Fail(job.id, job.lease.token, ERROR, fingerprint)
        await kit.apply(store, fail, now=at(second))
        ids[fingerprint].append(job.id)
    await kit.in_state(store, JobState.COMPLETED)
    groups = await store.run(store.failures, JobFilter(), 10, now=at(20))
    assert groups == [
        FailureCount(
            fingerprint="aa",
            count=3,
            exact=True,
            first_at=at(1),
            last_at=at(4),
            sample_id=ids["aa"][-1],
        ),
        FailureCount(
            fingerprint="bb",
            count=1,
            exact=True,
            first_at=at(2),
            last_at=at(2),
            sample_id=ids["bb"][-1],
        ),
    ]
    assert await store.run(store.failures, JobFilter(), 1, now=at(20)) == groups[:1]
    dead = JobFilter(states=(JobState.FAILED,))
    assert await store.run(store.failures, dead, 10, now=at(20)) == groups
    done = JobFilter(states=(JobState.COMPLETED,))
    assert await store.run(store.failures, done, 10, now=at(20)) == []
    (some, *_) = await store.run(store.failures, JobFilter(queues=("a",)), 10, now=at(20))
    assert (some.fingerprint, some.count) in (("aa", 1), ("bb", 1))
    (some,) = await store.run(store.failures, JobFilter(queues=("b",)), 10, now=at(20))
    assert (some.fingerprint, some.count, some.first_at) == ("aa", 2, at(1))
    (some,) = await store.run(store.failures, JobFilter(fingerprints=("bb",)), 10, now=at(20))
    assert (some.fingerprint, some.count) == ("bb", 1)
    said = JobFilter(errors=("no such",), queues=("b",))
    (some,) = await store.run(store.failures, said, 10, now=at(20))
    assert (some.fingerprint, some.count) == ("aa", 2)
    assert await store.run(store.failures, JobFilter(errors=("?",)), 10, now=at(20)) == []


@case
async def a_dead_letter_without_a_fingerprint_is_in_a_group_too(store: Store) -> None:
    job_id = await kit.in_state(store, JobState.FAILED)
    lost = await kit.running(store)
    lose = Lose(lost.id, lost.lease.token, OTHER_ERROR, dead=True, fingerprint="cc")
    await kit.apply(store, lose, now=at(60))
    groups = await store.run(store.failures, JobFilter(), 10, now=at(70))
    assert [(each.fingerprint, each.sample_id) for each in groups] == [
        ("cc", lost.id),
        ("", job_id),
    ]


@case
async def a_retried_job_is_in_no_group(store: Store) -> None:
    job_id = await kit.in_state(store, JobState.FAILED)
    await store.run(store.retry, [job_id], now=at(2))
    assert await store.run(store.failures, JobFilter(), 10, now=at(3)) == []


@case
async def managed_queues_are_those_that_somebody_touched(store: Store) -> None:
    await kit.add(store, queue="untouched")
    assert await store.run(store.managed_queues) == []
    await store.run(store.pause, "b", True, now=at(1))
    await store.run(store.pause, "a", True, now=at(2))
    await store.run(store.pause, "a", False, now=at(3))
    assert await store.run(store.managed_queues) == [
        QueueRecord("a", None),
        QueueRecord("b", at(1)),
    ]
