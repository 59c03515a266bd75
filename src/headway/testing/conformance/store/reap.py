"""expired, and settle with Lose: jobs whose leases have expired."""

from __future__ import annotations

from collections.abc import Callable

from headway.domain.due_time import After
from headway.domain.failure import decode_failure
from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.lifecycle import after_absence
from headway.domain.settlement import Complete, Fail, Lose, Release, Reschedule, Retry, Settlement
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, MICROSECOND, T0, StoreCases, at

case = StoreCases("reap")


@case
async def a_lease_has_expired_when_it_ends_now(store: Store) -> None:
    job = await kit.running(store)
    assert await store.run(store.expired, 10, now=at(LEASE) - MICROSECOND) == []
    (late,) = await store.run(store.expired, 10, now=at(LEASE))
    assert late == await kit.read(store, job.id)


@case
async def looking_for_expired_leases_changes_nothing(store: Store) -> None:
    await kit.running(store)
    before = await kit.snapshot(store)
    await store.run(store.expired, 10, now=at(3600))
    assert await kit.snapshot(store) == before


@case
async def the_longest_expired_come_first(store: Store) -> None:
    jobs = [await kit.running(store, lease_for=lease) for lease in (20.0, 5.0, 10.0, 1.0)]
    late = await store.run(store.expired, 10, now=at(100))
    assert [job.id for job in late] == [jobs[n].id for n in (3, 1, 2, 0)]
    late = await store.run(store.expired, 2, now=at(100))
    assert [job.id for job in late] == [jobs[3].id, jobs[1].id]


@case
async def only_running_jobs_can_expire(store: Store) -> None:
    for state in JobState:
        if state is not JobState.RUNNING:
            await kit.in_state(store, state)
    assert await store.run(store.expired, 10, now=at(1e6)) == []


@case
async def a_lost_job_is_pending_at_once(store: Store) -> None:
    job = await kit.running(store)
    assert (await kit.reap(store, now=at(LEASE))).verdicts == [Verdict.APPLIED]
    stored = await kit.read(store, job.id)
    assert stored.state is JobState.PENDING
    assert (stored.lease, stored.lease_version, stored.finished_at) == (None, 1, None)
    assert (stored.losses, stored.attempts) == (1, 0)
    assert (stored.worker, stored.started_at) == ("worker-1", T0)
    again = await kit.claim_one(store, job.queue, now=at(LEASE))
    assert (again.losses, again.attempts, again.lease.version) == (1, 0, 2)


@case
async def a_loss_clears_the_schedule(store: Store) -> None:
    job = kit.new_job(schedule=After(seconds=10))
    await kit.insert(store, job)
    earlier = await kit.add(store, now=at(5))
    claimed = await kit.claim_one(store, now=at(10), types=(job.type,))
    assert claimed.id == earlier
    await kit.complete(store, claimed, now=at(10))
    await kit.claim_one(store, now=at(10))
    await kit.add(store, now=at(11))
    await kit.reap(store, now=at(60))
    assert (await kit.read(store, job.id)).run_at == T0
    assert (await kit.claim_one(store, now=at(60))).id == job.id


@case
async def a_loss_leaves_an_attempt(store: Store) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE + 2))
    (attempt,) = await kit.attempts_of(store, job.id)
    assert (attempt.job_id, attempt.version, attempt.outcome) == (job.id, 1, "lost")
    assert (attempt.worker, attempt.started_at) == ("worker-1", T0)
    assert attempt.finished_at == at(LEASE + 2)
    assert decode_failure(attempt.error).type == "LeaseLost"


@case
async def losses_and_failures_share_one_history(store: Store) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    again = await kit.claim_one(store, job.queue, now=at(40))
    await kit.apply(store, Retry(again.id, again.lease.token, 0.0, ERROR), now=at(41))
    await kit.claim_one(store, job.queue, now=at(42))
    await kit.reap(store, now=at(100))
    history = await kit.attempts_of(store, job.id)
    assert [(each.version, each.outcome) for each in history] == [
        (1, "lost"),
        (2, "failed"),
        (3, "lost"),
    ]
    stored = await kit.read(store, job.id)
    assert (stored.attempts, stored.losses) == (1, 1)


@case
async def a_job_that_costs_too_many_workers_is_dead_lettered(store: Store) -> None:
    queue = kit.new_queue()
    job_id = await kit.add(store, queue=queue, max_losses=3)
    for loss in (1, 2, 3):
        start = at(100 * loss)
        await kit.claim_one(store, queue, now=start)
        await kit.reap(store, now=at(100 * loss + LEASE))
        assert (await kit.read(store, job_id)).losses == loss
    stored = await kit.read(store, job_id)
    assert (stored.state, stored.finished_at) == (JobState.FAILED, at(300 + LEASE))
    assert stored.last_error is not None
    assert decode_failure(stored.last_error).type == "LeaseLost"
    assert (stored.lease, stored.attempts) == (None, 0)
    assert await kit.claim(store, queue, now=at(1000)) == []
    assert len(await kit.attempts_of(store, job_id)) == 3


@case
async def a_late_holder_finds_its_job_given_back(store: Store) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    before = await kit.snapshot(store)
    late = Complete(job.id, job.lease.token, "1")
    assert (await kit.settle(store, late, now=at(LEASE + 1))).verdicts == [Verdict.NOT_RUNNING]
    assert await kit.snapshot(store) == before


@case
async def a_late_holder_finds_its_job_taken_over(store: Store) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    again = await kit.claim_one(store, job.queue, now=at(LEASE), worker="worker-2")
    late = Complete(job.id, job.lease.token, "late")
    assert (await kit.settle(store, late, now=at(LEASE + 1))).verdicts == [Verdict.MISMATCH]
    await kit.complete(store, again, "right", now=at(LEASE + 2))
    assert (await kit.settle(store, late, now=at(LEASE + 3))).verdicts == [Verdict.ALREADY]
    stored = await kit.read(store, job.id)
    assert (stored.output, stored.worker) == ("right", "worker-2")


@case
async def a_reaper_that_comes_second_is_refused(store: Store) -> None:
    job = await kit.running(store)
    lose = Lose(job.id, job.lease.token, ERROR, dead=False)
    await kit.apply(store, lose, now=at(LEASE))
    before = await kit.snapshot(store)
    assert (await kit.settle(store, lose, now=at(LEASE))).verdicts == [Verdict.NOT_RUNNING]
    assert await kit.snapshot(store) == before


@case
async def a_batch_of_losses_is_settled_one_by_one(store: Store) -> None:
    short = [await kit.running(store, lease_for=5.0) for _ in range(3)]
    long = await kit.running(store)
    settled = await kit.settle(
        store,
        Lose(short[0].id, short[0].lease.token, "a", dead=False),
        Lose(long.id, long.lease.token, "b", dead=False),
        Lose(short[1].id, short[1].lease.token, "c", dead=True),
        Lose(short[2].id, long.lease.token, "d", dead=True),
        now=at(10),
    )
    assert settled.verdicts == [
        Verdict.APPLIED,
        Verdict.HELD,
        Verdict.APPLIED,
        Verdict.MISMATCH,
    ]
    states = [(await kit.read(store, job.id)).state for job in (*short, long)]
    assert states == [JobState.PENDING, JobState.FAILED, JobState.RUNNING, JobState.RUNNING]


ENDINGS: dict[str, tuple[Callable[[str, str], Settlement], int]] = {
    "retry": (lambda job_id, token: Retry(job_id, token, 0.0, ERROR), 0),
    "fail": (lambda job_id, token: Fail(job_id, token, ERROR), 0),
    "reschedule": (lambda job_id, token: Reschedule(job_id, token, After()), 0),
    "release": (Release, 2),
}
"""How an execution ends, and how many of two losses in a row are left then."""


@case.each(ENDINGS)
async def only_losses_in_a_row_count(
    store: Store, variant: tuple[Callable[[str, str], Settlement], int]
) -> None:
    end, left = variant
    job = await kit.running(store)
    await kit.reap(store, now=at(100))
    await kit.claim_one(store, job.queue, now=at(100))
    await kit.reap(store, now=at(200))
    again = await kit.claim_one(store, job.queue, now=at(200))
    assert again.losses == 2
    await kit.apply(store, end(again.id, again.lease.token), now=at(201))
    assert (await kit.read(store, job.id)).losses == left


@case
async def a_job_that_settles_in_between_is_never_dead_lettered_for_losses(store: Store) -> None:
    job = await kit.running(store, max_losses=2)
    for start in range(0, 1000, 100):
        await kit.reap(store, now=at(start + 50))
        again = await kit.claim_one(store, job.queue, now=at(start + 50))
        assert (again.losses, again.attempts) == (1, 0)
        settled = Reschedule(again.id, again.lease.token, After())
        await kit.apply(store, settled, now=at(start + 51))
        await kit.claim_one(store, job.queue, now=at(start + 52))
    assert len(await kit.attempts_of(store, job.id)) == 10


@case
async def a_lease_that_the_store_let_run_out_is_not_charged(store: Store) -> None:
    job = await kit.running(store, schedule=After(), max_losses=2)
    await kit.reap(store, now=at(LEASE))
    again = await kit.claim_one(store, job.queue, now=at(LEASE))
    await kit.apply(store, after_absence(again, "worker-1"), now=at(100))
    stored = await kit.read(store, job.id)
    assert (stored.state, stored.losses, stored.attempts) == (JobState.PENDING, 1, 0)
    assert (stored.lease, stored.run_at) == (None, T0)
    _, attempt = await kit.attempts_of(store, job.id)
    assert (attempt.version, attempt.outcome, attempt.finished_at) == (2, "lost", at(100))
    assert "no loss was charged" in decode_failure(attempt.error).message


@case
async def a_holder_cannot_take_back_what_is_not_its_own(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.snapshot(store)
    early = await kit.settle(store, after_absence(job, "worker-1"), now=at(1))
    assert early.verdicts == [Verdict.HELD]
    assert await kit.snapshot(store) == before
    await kit.reap(store, now=at(100))
    again = await kit.claim_one(store, job.queue, now=at(100))
    before = await kit.snapshot(store)
    late = await kit.settle(store, after_absence(job, "worker-1"), now=at(1000))
    assert late.verdicts == [Verdict.MISMATCH]
    assert (again.losses, await kit.snapshot(store)) == (1, before)
