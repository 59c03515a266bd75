"""Blockers: a job waits until all of its blockers have completed."""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from headway.domain.due_time import At
from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.settlement import Complete, Fail, Freed, Retry
from headway.errors import InvalidOption, JobNotFound, WrongState
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, T0, StoreCases, at

case = StoreCases("blockers")


@case
async def a_job_with_an_incomplete_blocker_is_blocked(store: Store) -> None:
    blocker = await kit.add(store)
    job = kit.new_job(queue="waiting", blockers=(blocker,))
    (answer,) = await kit.insert(store, job)
    assert (answer.id, answer.blocked, answer.deduplicated) == (job.id, True, False)
    stored = await kit.read(store, job.id)
    assert (stored.state, stored.blockers) == (JobState.BLOCKED, (blocker,))
    assert await kit.claim(store, "waiting", now=at(3600)) == []


@case
async def a_completed_blocker_does_not_block(store: Store) -> None:
    done = await kit.in_state(store, JobState.COMPLETED)
    (answer,) = await kit.insert(store, kit.new_job(queue="waiting", blockers=(done,)), now=at(2))
    assert not answer.blocked
    stored = await kit.read(store, answer.id)
    assert (stored.state, stored.blockers, stored.run_at) == (JobState.PENDING, (done,), at(2))
    job = await kit.claim_one(store, "waiting", now=at(2))
    assert job.has_blockers
    assert await store.run(store.blocker_outputs, [job.id]) == {job.id: ['"done"']}


@case
async def completing_the_blocker_frees_the_job(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, queue="waiting", blockers=(blocker.id,))
    settled = await kit.complete(store, blocker, now=at(5))
    assert settled.freed == [Freed(waiting, "work", "waiting", at(5))]
    stored = await kit.read(store, waiting)
    assert (stored.state, stored.run_at) == (JobState.PENDING, at(5))
    assert (await kit.claim_one(store, "waiting", now=at(5))).id == waiting


@case.each({"past": (at(2), at(5)), "future": (at(60), at(60))})
async def a_freed_job_keeps_a_later_time(store: Store, variant: tuple[datetime, datetime]) -> None:
    scheduled, expected = variant
    blocker = await kit.running(store)
    waiting = await kit.add(store, blockers=(blocker.id,), schedule=At(scheduled))
    settled = await kit.complete(store, blocker, now=at(5))
    assert [freed.run_at for freed in settled.freed] == [expected]
    assert (await kit.read(store, waiting)).run_at == expected


@case
async def the_last_of_several_blockers_frees_the_job(store: Store) -> None:
    blockers = [await kit.running(store) for _ in range(3)]
    waiting = await kit.add(store, blockers=tuple(job.id for job in blockers))
    for blocker in (blockers[2], blockers[0]):
        assert (await kit.complete(store, blocker)).freed == []
        assert await kit.state_of(store, waiting) is JobState.BLOCKED
    settled = await kit.complete(store, blockers[1])
    assert [freed.job_id for freed in settled.freed] == [waiting]


@case
async def blockers_of_one_batch_free_the_job_together(store: Store) -> None:
    blockers = [await kit.running(store) for _ in range(4)]
    waiting = await kit.add(store, blockers=tuple(job.id for job in blockers))
    settled = await kit.apply(store, *[Complete(job.id, job.lease.token) for job in blockers])
    assert [freed.job_id for freed in settled.freed] == [waiting]
    assert await kit.state_of(store, waiting) is JobState.PENDING


@case
async def one_blocker_frees_many_jobs(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = [kit.new_job(queue="waiting", blockers=(blocker.id,)) for _ in range(50)]
    await kit.insert(store, *waiting)
    settled = await kit.complete(store, blocker)
    assert sorted(freed.job_id for freed in settled.freed) == [job.id for job in waiting]
    assert len(await kit.claim(store, "waiting", now=at(1))) == 50


@case
async def some_blockers_may_be_complete_already(store: Store) -> None:
    done = await kit.in_state(store, JobState.COMPLETED)
    busy = await kit.running(store)
    waiting = await kit.add(store, blockers=(done, busy.id))
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    settled = await kit.complete(store, busy)
    assert [freed.job_id for freed in settled.freed] == [waiting]


@case
async def outputs_come_in_the_order_of_the_blockers(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(4)]
    order = [jobs[2], jobs[0], jobs[3], jobs[1]]
    waiting = await kit.add(store, blockers=tuple(job.id for job in order))
    for number, job in enumerate(jobs):
        await kit.complete(store, job, None if number == 3 else str(number))
    free = await kit.add(store)
    outputs = await store.run(store.blocker_outputs, [waiting, free])
    assert outputs[waiting] == ["2", "0", None, "1"]
    assert outputs.get(free, []) == []
    assert (await kit.read(store, waiting)).blockers == tuple(job.id for job in order)


@case
async def storing_again_what_was_stored_changes_nothing(store: Store) -> None:
    """As after an answer that was lost."""
    blocker = await kit.running(store)
    part, waiting = kit.new_job(queue="part"), kit.new_job(queue="waiting")
    waiting = structs.replace(waiting, blockers=(blocker.id, part.id))
    await kit.insert(store, part, waiting)
    before = await kit.snapshot(store)
    await kit.insert(store, part, waiting)
    assert await kit.snapshot(store) == before
    await kit.complete(store, blocker)
    settled = await kit.complete(store, await kit.claim_one(store, "part"))
    assert [freed.job_id for freed in settled.freed] == [waiting.id]


@case
async def a_sequence_may_be_given_twice(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, blockers=(blocker.id, blocker.id))
    settled = await kit.complete(store, blocker, '"x"')
    assert [freed.job_id for freed in settled.freed] == [waiting]
    assert await store.run(store.blocker_outputs, [waiting]) == {waiting: ['"x"', '"x"']}


@case
async def blockers_may_be_part_of_the_batch(store: Store) -> None:
    first, second = kit.new_job(queue="a"), kit.new_job(queue="a")
    both = kit.new_job(queue="b", blockers=(second.id, first.id))
    after = kit.new_job(queue="c", blockers=(both.id,))
    answers = await kit.insert(store, first, second, both, after)
    assert [answer.blocked for answer in answers] == [False, False, True, True]
    for job in await kit.claim(store, "a"):
        await kit.complete(store, job)
    await kit.complete(store, await kit.claim_one(store, "b", now=at(2)), now=at(3))
    assert (await kit.claim_one(store, "c", now=at(3))).id == after.id


@case
async def an_unknown_blocker_is_refused(store: Store) -> None:
    known = await kit.add(store)
    before = await kit.snapshot(store)
    unknown = kit.new_id()
    with raises(JobNotFound) as caught:
        await kit.insert(store, kit.new_job(), kit.new_job(blockers=(known, unknown)))
    assert unknown in str(caught.error)
    assert await kit.snapshot(store) == before


@case
async def a_blocker_is_a_sequence_and_not_any_job(store: Store) -> None:
    first = await kit.running(store)
    following = kit.successor_of(first)
    await kit.complete(store, first, successor=following)
    before = await kit.snapshot(store)
    with raises(JobNotFound):
        await kit.insert(store, kit.new_job(blockers=(following.id,)))
    assert await kit.snapshot(store) == before


@case
async def a_continued_blocker_frees_only_at_its_end(store: Store) -> None:
    first = await kit.running(store)
    waiting = await kit.add(store, queue="waiting", blockers=(first.id,))
    settled = await kit.complete(store, first, '"one"', kit.successor_of(first, queue="second"))
    assert settled.freed == []
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    second = await kit.claim_one(store, "second", now=at(2))
    settled = await kit.complete(store, second, '"two"', now=at(3))
    assert [freed.job_id for freed in settled.freed] == [waiting]
    assert await store.run(store.blocker_outputs, [waiting]) == {waiting: ['"two"']}


@case
async def a_sequence_can_be_awaited_in_its_middle(store: Store) -> None:
    first = await kit.running(store)
    await kit.complete(store, first, successor=kit.successor_of(first, queue="second"))
    waiting = await kit.add(store, blockers=(first.id,), now=at(2))
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    second = await kit.claim_one(store, "second", now=at(2))
    settled = await kit.complete(store, second, now=at(3))
    assert [freed.job_id for freed in settled.freed] == [waiting]


@case
async def being_awaited_is_inherited(store: Store) -> None:
    first = await kit.running(store)
    stored = await kit.read(store, first.id)
    assert stored.awaited is False
    await kit.add(store, blockers=(first.id,))
    stored = await kit.read(store, first.id)
    assert stored.awaited is True
    following = kit.successor_of(first, queue="second")
    await kit.complete(store, first, successor=following)
    stored = await kit.read(store, following.id)
    assert stored.awaited is True
    second = await kit.claim_one(store, "second", now=at(2))
    third = kit.successor_of(second)
    await kit.complete(store, second, successor=third, now=at(3))
    stored = await kit.last_of(store, first.id)
    assert stored.awaited is True


@case
async def a_successor_can_be_blocked(store: Store) -> None:
    first, blocker = await kit.running(store), await kit.running(store)
    following = kit.successor_of(first, queue="second", blockers=(blocker.id,))
    await kit.complete(store, first, successor=following)
    assert await kit.state_of(store, following.id) is JobState.BLOCKED
    assert await kit.claim(store, "second", now=at(2)) == []
    settled = await kit.complete(store, blocker, now=at(3))
    assert [freed.job_id for freed in settled.freed] == [following.id]
    second = await kit.claim_one(store, "second", now=at(3))
    assert (second.sequence_id, second.has_blockers) == (first.id, True)


@case
async def a_completion_can_free_the_successor_of_another(store: Store) -> None:
    first, blocker = await kit.running(store), await kit.running(store)
    following = kit.successor_of(first, blockers=(blocker.id,))
    settled = await kit.settle(
        store,
        Complete(first.id, first.lease.token, None, following),
        Complete(blocker.id, blocker.lease.token),
    )
    assert settled.verdicts == [Verdict.APPLIED, Verdict.APPLIED]
    assert await kit.state_of(store, following.id) is JobState.PENDING


@case
async def chains_are_freed_link_by_link(store: Store) -> None:
    jobs = [kit.new_job(queue="chain")]
    for _ in range(9):
        jobs.append(kit.new_job(queue="chain", blockers=(jobs[-1].id,)))
    await kit.insert(store, *jobs)
    for number, expected in enumerate(jobs):
        job = await kit.claim_one(store, "chain", now=at(number))
        assert job.id == expected.id
        assert await kit.claim(store, "chain", now=at(number)) == []
        await kit.complete(store, job, now=at(number))


@case
async def a_failed_blocker_leaves_its_dependents_blocked(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, queue="waiting", blockers=(blocker.id,))
    before = await kit.read(store, waiting)
    settled = await kit.apply(store, Fail(blocker.id, blocker.lease.token, ERROR))
    assert settled.freed == []
    assert await kit.read(store, waiting) == before
    assert await kit.claim(store, "waiting", now=at(9)) == []


@case
async def a_cancelled_blocker_leaves_its_dependents_blocked(store: Store) -> None:
    blocker = await kit.add(store)
    waiting = await kit.add(store, blockers=(blocker,))
    await store.run(store.cancel, [blocker], now=at(1))
    assert await kit.state_of(store, waiting) is JobState.BLOCKED


@case.each({str(s): s for s in (JobState.FAILED, JobState.CANCELLED)})
async def a_retried_blocker_frees_its_dependents(store: Store, state: JobState) -> None:
    blocker = await kit.in_state(store, state)
    waiting = await kit.add(store, blockers=(blocker,))
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    await store.run(store.retry, [blocker], now=at(3))
    again = await kit.claim_one(store, (await kit.read(store, blocker)).queue, now=at(3))
    settled = await kit.complete(store, again, now=at(4))
    assert [freed.job_id for freed in settled.freed] == [waiting]


@case
async def retries_and_losses_of_a_blocker_free_nobody(store: Store) -> None:
    blocker = await kit.running(store)
    waiting = await kit.add(store, blockers=(blocker.id,))
    await kit.apply(store, Retry(blocker.id, blocker.lease.token, 0.0, ERROR))
    await kit.claim_one(store, blocker.queue, now=at(2))
    assert (await kit.reap(store, now=at(2 + LEASE))).freed == []
    assert await kit.state_of(store, waiting) is JobState.BLOCKED
    again = await kit.claim_one(store, blocker.queue, now=at(60))
    settled = await kit.complete(store, again, now=at(61))
    assert [freed.job_id for freed in settled.freed] == [waiting]


@case
async def completing_a_blocker_again_frees_nobody_twice(store: Store) -> None:
    blocker, other = await kit.running(store), await kit.running(store)
    waiting = await kit.add(store, blockers=(blocker.id, other.id))
    await kit.complete(store, blocker)
    for _ in range(3):
        settled = await kit.settle(store, Complete(blocker.id, blocker.lease.token))
        assert settled.verdicts == [Verdict.ALREADY]
        assert settled.freed == []
    assert await kit.state_of(store, waiting) is JobState.BLOCKED


@case
async def a_successor_must_not_wait_for_its_own_sequence(store: Store) -> None:
    first = await kit.running(store)
    before = await kit.snapshot(store)
    with raises(InvalidOption, WrongState) as caught:
        await kit.complete(store, first, successor=kit.successor_of(first, blockers=(first.id,)))
    assert "wait for itself" in str(caught.error)
    assert await kit.snapshot(store) == before


@case
async def a_circle_of_sequences_is_refused(store: Store) -> None:
    first = await kit.running(store)
    second = await kit.add(store, blockers=(first.id,))
    third = await kit.add(store, blockers=(second,))
    before = await kit.snapshot(store)
    with raises(InvalidOption, WrongState) as caught:
        await kit.complete(store, first, successor=kit.successor_of(first, blockers=(third,)))
    assert "wait for itself" in str(caught.error)
    assert await kit.snapshot(store) == before


@case
async def what_looks_like_a_circle_but_is_complete_is_fine(store: Store) -> None:
    first = await kit.running(store)
    other = await kit.running(store)
    second = await kit.add(store, queue="second", blockers=(other.id,))
    await kit.complete(store, other)
    await kit.complete(store, await kit.claim_one(store, "second", now=at(2)), now=at(3))
    following = kit.successor_of(first, blockers=(second, other.id))
    await kit.complete(store, first, successor=following, now=at(4))
    assert await kit.state_of(store, following.id) is JobState.PENDING


@case
async def a_circle_that_was_cut_from_outside_is_fine(store: Store) -> None:
    first = await kit.running(store)
    second = await kit.add(store, blockers=(first.id,))
    await store.run(store.complete_without_lease, second, '"cut"', None, now=at(1))
    following = kit.successor_of(first, blockers=(second,))
    await kit.complete(store, first, successor=following, now=at(2))
    assert await kit.state_of(store, following.id) is JobState.PENDING
    assert await store.run(store.blocker_outputs, [following.id]) == {following.id: ['"cut"']}


@case
async def a_new_job_must_not_wait_for_itself(store: Store) -> None:
    job_id = kit.new_id()
    with raises(InvalidOption, WrongState, JobNotFound):
        await kit.insert(store, kit.new_job(id=job_id, blockers=(job_id,)))
    assert await kit.everything(store) == []


@case
async def many_blockers_are_all_waited_for(store: Store) -> None:
    await kit.insert(store, *[kit.new_job(queue="many") for _ in range(60)])
    blockers = await kit.claim(store, "many")
    waiting = await kit.add(store, queue="waiting", blockers=tuple(job.id for job in blockers))
    await kit.apply(store, *[Complete(job.id, job.lease.token, job.id) for job in blockers[1:]])
    assert await kit.claim(store, "waiting", now=at(2)) == []
    await kit.complete(store, blockers[0], blockers[0].id)
    (job,) = await kit.claim(store, "waiting", now=at(2))
    assert job.created_at == T0
    outputs = await store.run(store.blocker_outputs, [waiting])
    assert outputs == {waiting: [job.id for job in blockers]}
