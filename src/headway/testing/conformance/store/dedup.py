"""Deduplication: one sequence per key, also for concurrent inserts."""

from __future__ import annotations

import asyncio

import msgspec

from headway.domain.job import JobState
from headway.domain.settlement import Fail
from headway.domain.validation import LONGEST
from headway.ports.store import Inserted, Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, MICROSECOND, T0, StoreCases, at

case = StoreCases("dedup")

KEY = "order-7: größer"


async def again(store: Store, seconds: float = 10.0, **fields: object) -> Inserted:
    """Start another sequence under the key."""
    (answer,) = await kit.insert(store, kit.new_job(dedup_key=KEY, **fields), now=at(seconds))
    return answer


@case
async def a_key_in_use_hands_out_its_sequence(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY, input='"first"')
    before = await kit.snapshot(store)
    answer = await again(store, input='"second"')
    assert (answer.id, answer.deduplicated) == (first, True)
    assert await kit.snapshot(store) == before


@case
async def the_first_under_a_key_is_no_duplicate(store: Store) -> None:
    answer = await again(store)
    assert not answer.deduplicated
    assert (await kit.read(store, answer.id)).dedup_key == KEY


@case
async def other_keys_and_other_types_do_not_collide(store: Store) -> None:
    await kit.add(store, dedup_key=KEY)
    answers = await kit.insert(
        store,
        kit.new_job(dedup_key=KEY + " "),
        kit.new_job(dedup_key=KEY.upper()),
        kit.new_job(dedup_key=KEY, type="other"),
        kit.new_job(),
    )
    assert not any(answer.deduplicated for answer in answers)
    assert len(await kit.everything(store)) == 5


@case
async def other_queues_share_the_key(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY, queue="a")
    assert (await again(store, queue="b")).id == first


@case.each({str(s): s for s in (JobState.BLOCKED, JobState.PENDING, JobState.RUNNING)})
async def a_sequence_that_has_not_ended_counts(store: Store, state: JobState) -> None:
    first = await kit.in_state(store, state, dedup_key=KEY)
    answer = await again(store)
    assert (answer.id, answer.deduplicated) == (first, True)


ENDED = {str(s): s for s in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)}


@case.each(ENDED)
async def a_sequence_that_has_ended_does_not_count(store: Store, state: JobState) -> None:
    first = await kit.in_state(store, state, dedup_key=KEY)
    answer = await again(store)
    assert not answer.deduplicated
    assert answer.id != first


@case.each(ENDED)
async def a_sequence_that_has_ended_counts_for_any(store: Store, state: JobState) -> None:
    first = await kit.in_state(store, state, dedup_key=KEY)
    answer = await again(store, dedup_any=True)
    assert (answer.id, answer.deduplicated) == (first, True)


@case
async def a_failed_attempt_and_a_retry_keep_the_key(store: Store) -> None:
    job = await kit.running(store, dedup_key=KEY)
    await kit.apply(store, Fail(job.id, job.lease.token, ERROR))
    await store.run(store.retry, [job.id], now=at(2))
    assert (await again(store)).id == job.id


@case
async def the_whole_sequence_counts_and_not_its_first_job(store: Store) -> None:
    first = await kit.running(store, dedup_key=KEY)
    await kit.complete(store, first, successor=kit.successor_of(first, queue="second"))
    answer = await again(store)
    assert (answer.id, answer.deduplicated) == (first.id, True)
    second = await kit.claim_one(store, "second", now=at(2))
    await kit.complete(store, second, now=at(3))
    assert not (await again(store)).deduplicated


@case
async def a_sequence_that_failed_in_its_second_job_has_ended(store: Store) -> None:
    first = await kit.running(store, dedup_key=KEY)
    await kit.complete(store, first, successor=kit.successor_of(first, queue="second"))
    second = await kit.claim_one(store, "second", now=at(2))
    await kit.apply(store, Fail(second.id, second.lease.token, ERROR), now=at(3))
    assert (await again(store, dedup_any=True)).id == first.id
    assert not (await again(store)).deduplicated


@case
async def a_sequence_within_the_window_counts(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY)
    (answer,) = await kit.insert(
        store, kit.new_job(dedup_key=KEY, dedup_window=60.0), now=at(60) - MICROSECOND
    )
    assert (answer.id, answer.deduplicated) == (first, True)


@case
async def a_sequence_from_before_the_window_does_not_count(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY)
    job = kit.new_job(dedup_key=KEY, dedup_window=60.0)
    (answer,) = await kit.insert(store, job, now=at(60))
    assert (answer.id, answer.deduplicated) == (job.id, False)
    assert answer.id != first


@case
async def a_window_with_any_looks_at_ended_ones(store: Store) -> None:
    first = await kit.in_state(store, JobState.COMPLETED, dedup_key=KEY)
    assert (await again(store, 59.0, dedup_any=True, dedup_window=60.0)).id == first
    assert not (await again(store, 61.0, dedup_any=True, dedup_window=60.0)).deduplicated


@case
async def the_window_counts_from_the_sequences_first_job(store: Store) -> None:
    first = await kit.running(store, dedup_key=KEY)
    await kit.complete(store, first, successor=kit.successor_of(first), now=at(20))
    assert not (await again(store, 61.0, dedup_window=60.0)).deduplicated


@case
async def the_newest_sequence_that_counts_is_handed_out(store: Store) -> None:
    await kit.in_state(store, JobState.COMPLETED, dedup_key=KEY)
    newer = await kit.add(store, dedup_key=KEY, now=at(2))
    assert (await again(store, dedup_any=True)).id == newer


@case
async def a_sequence_can_be_left_out(store: Store) -> None:
    own = await kit.running(store, dedup_key=KEY)
    answer = await again(store, dedup_except=own.id)
    assert not answer.deduplicated
    second = await again(store, dedup_except=own.id)
    assert (second.id, second.deduplicated) == (answer.id, True)


@case
async def duplicates_within_a_batch_are_found(store: Store) -> None:
    jobs = [kit.new_job(dedup_key=KEY, input=str(number)) for number in range(3)]
    other = kit.new_job(dedup_key="other")
    answers = await kit.insert(store, jobs[0], other, jobs[1], jobs[2])
    assert [answer.id for answer in answers] == [jobs[0].id, other.id, jobs[0].id, jobs[0].id]
    assert [answer.deduplicated for answer in answers] == [False, False, True, True]
    assert len(await kit.everything(store)) == 2
    assert (await kit.read(store, jobs[0].id)).input == "0"


@case
async def a_batch_may_hold_old_and_new_keys(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY)
    fresh, plain = kit.new_job(dedup_key="fresh"), kit.new_job()
    answers = await kit.insert(store, kit.new_job(dedup_key=KEY), fresh, plain)
    assert [answer.id for answer in answers] == [first, fresh.id, plain.id]
    assert [answer.deduplicated for answer in answers] == [True, False, False]


@case
async def our_own_earlier_try_is_no_duplicate(store: Store) -> None:
    job = kit.new_job(dedup_key=KEY)
    await kit.insert(store, job)
    (answer,) = await kit.insert(store, job, now=at(1))
    assert (answer.id, answer.deduplicated) == (job.id, False)
    assert len(await kit.everything(store)) == 1


@case
async def a_duplicate_waits_for_nothing(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY)
    blocker = await kit.running(store)
    answer = await again(store, blockers=(blocker.id,))
    assert (answer.id, answer.deduplicated) == (first, True)
    assert await store.run(store.dependents, [blocker.id]) == []
    assert (await kit.read(store, first)).state is JobState.PENDING


@case
async def a_duplicates_own_blockers_are_not_stored(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY)
    job = kit.new_job(dedup_key=KEY)
    blocker = kit.new_job(only_for=job.id)
    answers = await kit.insert(
        store, blocker, kit.new_job(id=job.id, dedup_key=KEY, blockers=(blocker.id,))
    )
    assert (answers[1].id, answers[1].deduplicated) == (first, True)
    assert answers[0].deduplicated
    assert [stored.id for stored in await kit.everything(store)] == [first]


@case
async def nothing_duplicates_a_blocker_that_is_not_stored(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY)
    job = kit.new_job(dedup_key=KEY)
    blocker = kit.new_job(only_for=job.id, dedup_key="of the blocker")
    alike = kit.new_job(dedup_key="of the blocker")
    answers = await kit.insert(store, blocker, job, alike)
    assert (answers[1].id, answers[1].deduplicated) == (first, True)
    assert (answers[2].id, answers[2].deduplicated) == (alike.id, False)
    assert [stored.id for stored in await kit.everything(store)] == [alike.id, first]


@case
async def a_duplicate_of_what_is_not_stored_keeps_its_blockers(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY)
    for key in ("of the blocker", "of the other blocker"):
        job = kit.new_job(dedup_key=KEY)
        blocker = kit.new_job(only_for=job.id, dedup_key=key)
        its_own = kit.new_job()
        alike = kit.new_job(dedup_key=key, blockers=(its_own.id,))
        its_own = msgspec.structs.replace(its_own, only_for=alike.id)
        batch = [blocker, job, its_own, alike]
        if key == "of the other blocker":
            batch = [its_own, blocker, job, alike]
        answers = dict(
            zip([each.id for each in batch], await kit.insert(store, *batch), strict=True)
        )
        assert (answers[job.id].id, answers[job.id].deduplicated) == (first, True)
        assert (answers[alike.id].id, answers[alike.id].blocked) == (alike.id, True)
        assert (await kit.read(store, alike.id)).blockers == (its_own.id,)


@case
async def a_fresh_jobs_own_blockers_are_stored(store: Store) -> None:
    job = kit.new_job(dedup_key=KEY)
    blocker = kit.new_job(only_for=job.id)
    answers = await kit.insert(
        store, blocker, kit.new_job(id=job.id, dedup_key=KEY, blockers=(blocker.id,))
    )
    assert [answer.deduplicated for answer in answers] == [False, False]
    assert answers[1].blocked


@case
async def a_job_waits_for_the_sequence_that_its_blocker_duplicates(store: Store) -> None:
    existing = await kit.running(store, dedup_key=KEY)
    blocker = kit.new_job(dedup_key=KEY)
    job = kit.new_job(blockers=(blocker.id,))
    answers = await kit.insert(store, blocker, job)
    assert (answers[0].id, answers[0].deduplicated) == (existing.id, True)
    assert (answers[1].id, answers[1].blocked) == (job.id, True)
    assert (await kit.read(store, job.id)).blockers == (existing.id,)
    settled = await kit.complete(store, existing)
    assert [freed.job_id for freed in settled.freed] == [job.id]


@case
async def keys_may_be_long_and_strange(store: Store) -> None:
    for key in ("k" * 500, "'; drop table job; --", "%s ? $1 :a", "🚚\n\t ü", "ß" * 500):
        first = await kit.add(store, dedup_key=key)
        (answer,) = await kit.insert(store, kit.new_job(dedup_key=key))
        assert answer.id == first


@case
async def of_16_inserts_at_once_one_creates(store: Store) -> None:
    for _ in range(5):
        key = kit.new_job().id
        jobs = [kit.new_job(dedup_key=key) for _ in range(16)]
        answers = await asyncio.gather(*[kit.insert(store, job) for job in jobs])
        created = [answer for (answer,) in answers if not answer.deduplicated]
        assert len(created) == 1
        assert {answer.id for (answer,) in answers} == {created[0].id}
    assert len(await kit.everything(store)) == 5


@case
async def batches_with_keys_in_opposite_orders_do_not_get_stuck(store: Store) -> None:
    keys = [f"key-{number}" for number in range(10)]
    batches = [
        [kit.new_job(dedup_key=key) for key in keys[::step]] for step in (1, -1) for _ in range(8)
    ]
    answers = await asyncio.gather(*[kit.insert(store, *batch) for batch in batches])
    created = [one for answer in answers for one in answer if not one.deduplicated]
    assert len(created) == 10
    assert len(await kit.everything(store)) == 10


@case
async def a_sequence_that_ends_meanwhile_gives_way_to_one(store: Store) -> None:
    for number in range(10):
        first = await kit.running(store, dedup_key=f"key-{number}")
        jobs = [kit.new_job(dedup_key=f"key-{number}") for _ in range(4)]
        _, answers = await asyncio.gather(
            kit.complete(store, first),
            asyncio.gather(*[kit.insert(store, job, now=at(2)) for job in jobs]),
        )
        created = [answer.id for (answer,) in answers if not answer.deduplicated]
        assert len(created) <= 1
        assert {answer.id for (answer,) in answers} <= {first.id, *created}


@case.only(kit.has_transactions)
async def of_16_transactions_at_once_one_creates(store: Store) -> None:
    async def transaction(job_id: str) -> Inserted:
        async with store.begin() as tx:
            job = kit.new_job(id=job_id, dedup_key=KEY)
            (answer,) = await store.run_in(tx, store.insert, [job], now=T0)
            await asyncio.sleep(0)
            return answer

    answers = await asyncio.gather(*[transaction(kit.new_job().id) for _ in range(16)])
    created = [answer.id for answer in answers if not answer.deduplicated]
    assert len(created) == 1
    assert {answer.id for answer in answers} == set(created)
    assert [job.id for job in await kit.everything(store)] == created


@case.only(kit.has_transactions)
async def a_key_that_is_rolled_back_is_free_again(store: Store) -> None:
    class Undo(Exception):
        pass

    async def undone() -> None:
        async with store.begin() as tx:
            await store.run_in(tx, store.insert, [kit.new_job(dedup_key=KEY)], now=T0)
            raise Undo

    answers = await asyncio.gather(undone(), again(store), return_exceptions=True)
    assert isinstance(answers[0], Undo)
    assert isinstance(answers[1], Inserted)
    assert not answers[1].deduplicated
    assert [job.id for job in await kit.everything(store)] == [answers[1].id]


@case
async def a_window_can_be_a_hundred_years_long(store: Store) -> None:
    first = await kit.add(store, dedup_key=KEY, dedup_window=LONGEST)
    later = kit.new_job(dedup_key=KEY, dedup_window=LONGEST)
    (inserted,) = await kit.insert(store, later, now=at(1e6))
    assert inserted.id == first
