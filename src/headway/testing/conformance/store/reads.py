"""get, find, counts and attempts: stored jobs can be read, page by page."""

from __future__ import annotations

from typing import Any

from headway.domain.due_time import After
from headway.domain.job import JobState
from headway.domain.queries import JobCount, JobFilter
from headway.errors import InvalidOption
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import T0, StoreCases, at

case = StoreCases("reads")


async def found(store: Store, **which: Any) -> list[str]:
    page = await store.run(store.find, JobFilter(**which))
    assert page.cursor is None
    return [job.id for job in page.jobs]


@case
async def jobs_are_read_in_the_order_asked(store: Store) -> None:
    a, b = await kit.add(store), await kit.add(store)
    missing = kit.new_id()
    jobs = await store.run(store.get, [b, missing, a, b])
    assert [job and job.id for job in jobs] == [b, None, a, b]
    assert await store.run(store.get, []) == []


@case
async def jobs_are_found_newest_first(store: Store) -> None:
    jobs = [kit.new_job() for _ in range(5)]
    await kit.insert(store, *jobs)
    assert await found(store) == [job.id for job in reversed(jobs)]


@case
async def what_is_found_is_the_whole_record(store: Store) -> None:
    job = await kit.running(store, trace="t", timeout=1.5)
    page = await store.run(store.find, JobFilter())
    assert page.jobs == [await kit.read(store, job.id)]


@case
async def pages_follow_one_another(store: Store) -> None:
    jobs = [kit.new_job() for _ in range(23)]
    await kit.insert(store, *jobs)
    seen: list[str] = []
    cursor: str | None = None
    sizes: list[int] = []
    while True:
        page = await store.run(store.find, JobFilter(), cursor=cursor, limit=5)
        seen += [job.id for job in page.jobs]
        sizes.append(len(page.jobs))
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [job.id for job in reversed(jobs)]
    assert sizes == [5, 5, 5, 5, 3]


@case
async def a_last_page_that_is_full_has_no_cursor(store: Store) -> None:
    await kit.insert(store, *[kit.new_job() for _ in range(6)])
    page = await store.run(store.find, JobFilter(), limit=3)
    assert page.cursor is not None
    page = await store.run(store.find, JobFilter(), cursor=page.cursor, limit=3)
    assert (len(page.jobs), page.cursor) == (3, None)


@case
async def newer_jobs_do_not_disturb_paging(store: Store) -> None:
    jobs = [kit.new_job() for _ in range(6)]
    await kit.insert(store, *jobs)
    page = await store.run(store.find, JobFilter(), limit=3)
    await kit.add(store)
    rest = await store.run(store.find, JobFilter(), cursor=page.cursor, limit=3)
    seen = [job.id for job in (*page.jobs, *rest.jobs)]
    assert seen == [job.id for job in reversed(jobs)]


@case
async def pages_respect_the_filter(store: Store) -> None:
    jobs = [kit.new_job(queue="ab"[number % 2]) for number in range(12)]
    await kit.insert(store, *jobs)
    which = JobFilter(queues=("a",))
    page = await store.run(store.find, which, limit=4)
    rest = await store.run(store.find, which, cursor=page.cursor, limit=4)
    assert [job.id for job in (*page.jobs, *rest.jobs)] == [
        job.id for job in reversed(jobs) if job.queue == "a"
    ]
    assert rest.cursor is None


@case.each({"nonsense": "nonsense!", "empty": "", "sql": "' or 1=1 --", "unicode": "🚚"})
async def a_cursor_that_is_not_ours_is_refused(store: Store, cursor: str) -> None:
    await kit.add(store)
    with raises(InvalidOption):
        await store.run(store.find, JobFilter(), cursor=cursor)


@case.each({"zero": 0, "negative": -1, "too_many": 1_001})
async def a_page_has_bounds(store: Store, limit: int) -> None:
    with raises(InvalidOption):
        await store.run(store.find, JobFilter(), limit=limit)


@case
async def jobs_are_found_by_state(store: Store) -> None:
    made = {state: await kit.in_state(store, state) for state in JobState}
    for state in (JobState.RUNNING, JobState.FAILED, JobState.COMPLETED, JobState.CANCELLED):
        assert await found(store, states=(state,)) == [made[state]]
    several = await found(store, states=(JobState.BLOCKED, JobState.FAILED))
    assert sorted(several) == sorted([made[JobState.BLOCKED], made[JobState.FAILED]])


@case
async def jobs_are_found_by_type_and_queue(store: Store) -> None:
    made = {
        (type, queue): await kit.add(store, type=type, queue=queue)
        for type in "xy"
        for queue in "ab"
    }
    assert await found(store, types=("x",)) == [made["x", "b"], made["x", "a"]]
    assert await found(store, queues=("b",)) == [made["y", "b"], made["x", "b"]]
    assert await found(store, types=("y",), queues=("a",)) == [made["y", "a"]]
    assert len(await found(store, types=("x", "y"), queues=("a", "b"))) == 4
    assert await found(store, types=("z",)) == []


@case
async def jobs_are_found_by_sequence_and_root(store: Store) -> None:
    first = await kit.running(store)
    following = kit.successor_of(first)
    await kit.complete(store, first, successor=following)
    child = await kit.add(store, root_id=first.id, origin_id=first.id)
    await kit.add(store)
    assert await found(store, sequence_id=first.id) == [following.id, first.id]
    assert await found(store, root_id=first.id) == [child, following.id, first.id]
    assert await found(store, sequence_id=child) == [child]
    assert await found(store, sequence_id=kit.new_id()) == []
    completed = await found(store, root_id=first.id, states=(JobState.COMPLETED,))
    assert completed == [first.id]


@case
async def jobs_are_counted_by_queue_type_and_state(store: Store) -> None:
    assert await store.run(store.counts) == []
    await kit.add(store, queue="a", type="x", schedule=After(seconds=9))
    await kit.add(store, queue="a", type="x", now=at(3))
    await kit.add(store, queue="a", type="y")
    await kit.add(store, queue="b", type="x", now=at(1))
    (job,) = await kit.claim(store, "b", types=("x",), now=at(1))
    await kit.add(store, queue="b", type="x", now=at(2))
    await kit.complete(store, job, now=at(2))
    counts = await store.run(store.counts)
    assert sorted(counts, key=lambda count: (count.queue, count.type, count.state)) == [
        JobCount("a", "x", JobState.PENDING, 2, at(3)),
        JobCount("a", "y", JobState.PENDING, 1, T0),
        JobCount("b", "x", JobState.COMPLETED, 1, at(1)),
        JobCount("b", "x", JobState.PENDING, 1, at(2)),
    ]


@case
async def a_job_without_failures_has_no_attempts(store: Store) -> None:
    assert await kit.attempts_of(store, await kit.add(store)) == []
    assert await kit.attempts_of(store, kit.new_id()) == []


@case
async def the_current_job_of_a_sequence_is_its_last(store: Store) -> None:
    first = await kit.running(store)
    other = await kit.add(store)
    missing = kit.new_id()
    following = kit.successor_of(first)
    await kit.complete(store, first, successor=following)
    current = await store.run(store.current, [other, first.id, missing])
    assert [job and job.id for job in current] == [other, following.id, None]
    assert await store.run(store.current, [following.id]) == [None]
