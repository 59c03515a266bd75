"""settle with Complete: a job completes once, for good."""

from __future__ import annotations

import msgspec

from headway.domain.job import JobState, NewJob
from headway.domain.lease import Verdict
from headway.domain.settlement import Complete, Fail, Release, Retry, Settled
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.insert import TEXTS
from headway.testing.conformance.store.kit import ERROR, LEASE, T0, StoreCases, at

case = StoreCases("complete")


@case
async def a_completed_job_keeps_its_output(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.read(store, job.id)
    settled = await kit.settle(store, Complete(job.id, job.lease.token, '{"paid":true}'), now=at(4))
    assert settled == Settled([Verdict.APPLIED], [])
    assert await kit.read(store, job.id) == msgspec.structs.replace(
        before, state=JobState.COMPLETED, output='{"paid":true}', finished_at=at(4), lease=None
    )


@case
async def an_output_may_be_absent(store: Store) -> None:
    job = await kit.running(store)
    await kit.complete(store, job, None)
    stored = await kit.read(store, job.id)
    assert (stored.state, stored.output) == (JobState.COMPLETED, None)


@case.each(TEXTS)
async def output_comes_back_as_it_was(store: Store, text: str) -> None:
    job = await kit.running(store)
    await kit.complete(store, job, text)
    assert (await kit.read(store, job.id)).output == text


@case
async def success_leaves_no_attempt(store: Store) -> None:
    job = await kit.running(store)
    await kit.complete(store, job)
    assert await kit.attempts_of(store, job.id) == []
    assert (await kit.read(store, job.id)).attempts == 0


@case
async def completing_again_succeeds_and_changes_nothing(store: Store) -> None:
    job = await kit.running(store)
    await kit.complete(store, job, "1")
    before = await kit.snapshot(store)
    for token in (job.lease.token, kit.new_token()):
        settled = await kit.settle(store, Complete(job.id, token, "2"), now=at(LEASE + 9))
        assert settled == Settled([Verdict.ALREADY], [])
    assert await kit.snapshot(store) == before


@case
async def completing_again_adds_no_second_successor(store: Store) -> None:
    job = await kit.running(store)
    following = kit.new_job(sequence_id=job.id, sequence_type=job.type, root_id=job.id, position=1)
    await kit.complete(store, job, successor=following)
    before = await kit.snapshot(store)
    other = kit.new_job(sequence_id=job.id, sequence_type=job.type, root_id=job.id, position=1)
    settled = await kit.settle(store, Complete(job.id, job.lease.token, None, other), now=at(2))
    assert settled.verdicts == [Verdict.ALREADY]
    assert await kit.snapshot(store) == before


@case
async def a_completed_job_is_never_claimed_again(store: Store) -> None:
    job = await kit.running(store)
    await kit.complete(store, job)
    assert await kit.claim(store, job.queue, now=at(3600)) == []


@case
async def a_job_completes_after_failed_attempts(store: Store) -> None:
    job = await kit.running(store, queue="default")
    await kit.apply(store, Retry(job.id, job.lease.token, 0.0, ERROR))
    (again,) = await kit.claim(store, now=at(2))
    await kit.complete(store, again, now=at(3))
    stored = await kit.read(store, job.id)
    assert (stored.state, stored.attempts, stored.last_error) == (JobState.COMPLETED, 1, ERROR)
    assert (stored.started_at, stored.finished_at, stored.lease_version) == (at(2), at(3), 2)


@case
async def a_large_batch_is_settled_whole(store: Store) -> None:
    await kit.insert(store, *[kit.new_job() for _ in range(500)])
    jobs = await kit.claim(store, limit=500)
    await kit.apply(store, *[Complete(job.id, job.lease.token, job.id) for job in jobs])
    stored = await store.run(store.get, [job.id for job in jobs])
    assert all(job and job.output == job.id and job.finished_at == at(1) for job in stored)


@case
async def one_bad_item_harms_no_other(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(4)]
    done = await kit.in_state(store, JobState.COMPLETED)
    settled = await kit.settle(
        store,
        Complete(jobs[0].id, jobs[0].lease.token, "0"),
        Complete(jobs[1].id, kit.new_token(), "1"),
        Complete(kit.new_id(), kit.new_token(), "2"),
        Complete(done, kit.new_token(), "3"),
        Complete(jobs[2].id, jobs[2].lease.token, "4"),
        Fail(done, kit.new_token(), ERROR),
        Complete(jobs[3].id, jobs[3].lease.token, "5"),
    )
    assert settled.verdicts == [
        Verdict.APPLIED,
        Verdict.MISMATCH,
        Verdict.NOT_FOUND,
        Verdict.ALREADY,
        Verdict.APPLIED,
        Verdict.NOT_RUNNING,
        Verdict.APPLIED,
    ]
    outputs = [(await kit.read(store, job.id)).output for job in jobs]
    assert outputs == ["0", None, "4", "5"]
    assert await kit.state_of(store, jobs[1].id) is JobState.RUNNING


@case
async def expired_items_harm_no_other(store: Store) -> None:
    short = await kit.running(store, lease_for=5.0)
    long = await kit.running(store)
    settled = await kit.settle(
        store,
        Complete(short.id, short.lease.token, "1"),
        Complete(long.id, long.lease.token, "2"),
        now=at(5),
    )
    assert settled.verdicts == [Verdict.EXPIRED, Verdict.APPLIED]
    assert await kit.state_of(store, short.id) is JobState.RUNNING


@case
async def a_batch_may_mix_all_that_can_happen(store: Store) -> None:
    done, again, dead, back, gone = [await kit.running(store) for _ in range(5)]
    await kit.apply(
        store,
        Retry(again.id, again.lease.token, 1.0, ERROR),
        Complete(done.id, done.lease.token, "1"),
        Release(back.id, back.lease.token),
        Fail(dead.id, dead.lease.token, ERROR),
        Complete(gone.id, gone.lease.token, None, _following(gone.id)),
    )
    states = [await kit.state_of(store, job.id) for job in (done, again, dead, back, gone)]
    assert states == [
        JobState.COMPLETED,
        JobState.PENDING,
        JobState.FAILED,
        JobState.PENDING,
        JobState.COMPLETED,
    ]


@case
async def the_same_completion_twice_in_a_batch_counts_once(store: Store) -> None:
    job = await kit.running(store)
    again = Complete(job.id, job.lease.token, "1")
    settled = await kit.settle(store, again, again)
    assert settled.verdicts == [Verdict.APPLIED, Verdict.ALREADY]
    assert (await kit.read(store, job.id)).output == "1"


@case
async def settling_nothing_is_fine(store: Store) -> None:
    assert await store.run(store.settle, [], now=T0) == Settled([], [])


def _following(sequence_id: str) -> NewJob:
    return kit.new_job(
        sequence_id=sequence_id, sequence_type="work", root_id=sequence_id, position=1
    )
