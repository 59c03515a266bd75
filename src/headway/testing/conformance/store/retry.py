"""retry: failed and cancelled jobs become pending again."""

from __future__ import annotations

from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.settlement import Fail, Retry
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, OTHER_ERROR, StoreCases, at

case = StoreCases("retry")


@case.each({str(s): s for s in (JobState.FAILED, JobState.CANCELLED)})
async def an_ended_job_starts_afresh(store: Store, state: JobState) -> None:
    before = await kit.read(store, await kit.in_state(store, state))
    assert await store.run(store.retry, [before.id], now=at(7)) == [Verdict.APPLIED]
    after = await kit.read(store, before.id)
    assert after.state is JobState.PENDING
    assert (after.run_at, after.finished_at, after.lease) == (at(7), None, None)
    assert (after.attempts, after.losses) == (0, 0)
    assert (after.input, after.created_at) == (before.input, before.created_at)
    assert after.lease_version == before.lease_version
    again = await kit.claim_one(store, before.queue, now=at(7))
    assert again.lease.version == before.lease_version + 1


@case
async def attempts_and_losses_are_forgiven_and_history_stays(store: Store) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    again = await kit.claim_one(store, job.queue, now=at(40))
    await kit.apply(store, Retry(again.id, again.lease.token, 0.0, ERROR), now=at(41))
    last = await kit.claim_one(store, job.queue, now=at(42))
    await kit.apply(store, Fail(last.id, last.lease.token, ERROR), now=at(43))
    history = await kit.attempts_of(store, job.id)
    await store.run(store.retry, [job.id], now=at(50))
    stored = await kit.read(store, job.id)
    assert (stored.attempts, stored.losses) == (0, 0)
    assert await kit.attempts_of(store, job.id) == history
    assert len(history) == 3
    fresh = await kit.claim_one(store, job.queue, now=at(50))
    assert (fresh.attempts, fresh.losses, fresh.lease.version) == (0, 0, 4)
    await kit.apply(store, Fail(fresh.id, fresh.lease.token, ERROR), now=at(51))
    assert [each.version for each in await kit.attempts_of(store, job.id)] == [1, 2, 3, 4]


@case
async def another_input_can_be_given(store: Store) -> None:
    job_id = await kit.in_state(store, JobState.FAILED, input='{"wrong":1}')
    await store.run(store.retry, [job_id], input='{"right":"ä"}', now=at(7))
    stored = await kit.read(store, job_id)
    assert stored.input == '{"right":"ä"}'
    assert (await kit.claim_one(store, stored.queue, now=at(7))).input == '{"right":"ä"}'


@case.each(
    {str(s): s for s in (JobState.BLOCKED, JobState.PENDING, JobState.RUNNING, JobState.COMPLETED)}
)
async def others_stay_as_they_are(store: Store, state: JobState) -> None:
    job_id = await kit.in_state(store, state)
    before = await kit.snapshot(store)
    verdicts = await store.run(store.retry, [job_id], input="other", now=at(7))
    assert verdicts == [Verdict.WRONG_STATE]
    assert await kit.snapshot(store) == before


@case
async def each_job_of_a_batch_is_answered(store: Store) -> None:
    dead = [await kit.in_state(store, JobState.FAILED) for _ in range(2)]
    done = await kit.in_state(store, JobState.COMPLETED)
    verdicts = await store.run(store.retry, [dead[0], done, kit.new_id(), dead[1]], now=at(7))
    assert verdicts == [
        Verdict.APPLIED,
        Verdict.WRONG_STATE,
        Verdict.NOT_FOUND,
        Verdict.APPLIED,
    ]


@case
async def the_token_of_before_is_of_no_use_afterwards(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.cancel, [job.id], now=at(1))
    await store.run(store.retry, [job.id], now=at(2))
    again = await kit.claim_one(store, job.queue, now=at(2))
    before = await kit.snapshot(store)
    settled = await kit.settle(store, Fail(job.id, job.lease.token, ERROR), now=at(3))
    assert settled.verdicts == [Verdict.MISMATCH]
    assert await kit.snapshot(store) == before
    await kit.complete(store, again, now=at(3))


@case
async def a_job_cancelled_while_blocked_is_blocked_again(store: Store) -> None:
    blocker = await kit.running(store)
    job_id = await kit.add(store, queue="waiting", blockers=(blocker.id,))
    await store.run(store.cancel, [job_id], now=at(1))
    assert await store.run(store.retry, [job_id], now=at(2)) == [Verdict.APPLIED]
    assert await kit.state_of(store, job_id) is JobState.BLOCKED
    assert await kit.claim(store, "waiting", now=at(3)) == []
    settled = await kit.complete(store, blocker, now=at(4))
    assert [freed.job_id for freed in settled.freed] == [job_id]
    assert (await kit.claim_one(store, "waiting", now=at(4))).id == job_id


@case
async def a_job_whose_blockers_completed_meanwhile_is_pending(store: Store) -> None:
    blocker = await kit.running(store)
    job_id = await kit.add(store, queue="waiting", blockers=(blocker.id,))
    await store.run(store.cancel, [job_id], now=at(1))
    settled = await kit.complete(store, blocker, now=at(2))
    assert settled.freed == []
    assert await kit.state_of(store, job_id) is JobState.CANCELLED
    await store.run(store.retry, [job_id], now=at(3))
    assert (await kit.claim_one(store, "waiting", now=at(3))).id == job_id


@case
async def a_retried_sequence_goes_on(store: Store) -> None:
    first = await kit.running(store)
    following = kit.new_job(
        queue="second", sequence_id=first.id, sequence_type=first.type, root_id=first.id, position=1
    )
    await kit.complete(store, first, successor=following)
    second = await kit.claim_one(store, "second", now=at(2))
    await kit.apply(store, Fail(second.id, second.lease.token, ERROR), now=at(3))
    await store.run(store.retry, [second.id], now=at(4))
    again = await kit.claim_one(store, "second", now=at(4))
    assert (again.sequence_id, again.position) == (first.id, 1)
    await kit.complete(store, again, now=at(5))
    (last,) = await store.run(store.current, [first.id])
    assert last is not None
    assert (last.id, last.state) == (following.id, JobState.COMPLETED)


@case.each({"fails again": True, "completes": False})
async def the_last_error_is_kept_until_there_is_another(store: Store, fails: bool) -> None:
    job = await kit.read(store, await kit.in_state(store, JobState.FAILED))
    await store.run(store.retry, [job.id], now=at(2))
    assert (await kit.read(store, job.id)).last_error == ERROR
    again = await kit.claim_one(store, job.queue, now=at(2))
    assert (await kit.read(store, job.id)).last_error == ERROR
    if fails:
        await kit.apply(store, Fail(again.id, again.lease.token, OTHER_ERROR), now=at(3))
    else:
        await kit.complete(store, again, now=at(3))
    assert (await kit.read(store, job.id)).last_error == (OTHER_ERROR if fails else ERROR)


@case
async def the_last_error_of_a_job_that_is_completed_from_outside_is_kept(store: Store) -> None:
    job = await kit.running(store)
    await kit.apply(store, Retry(job.id, job.lease.token, 5.0, ERROR))
    await store.run(store.complete_without_lease, job.id, None, None, now=at(2))
    stored = await kit.read(store, job.id)
    assert (stored.state, stored.last_error) == (JobState.COMPLETED, ERROR)
