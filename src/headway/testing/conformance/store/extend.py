"""extend: only the holder of a lease can extend it."""

from __future__ import annotations

from headway.domain.job import JobState
from headway.domain.lease import Held, Lease, Verdict
from headway.errors import InvalidOption
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import LEASE, MICROSECOND, T0, StoreCases, at

case = StoreCases("extend")


@case
async def a_lease_lasts_from_now_on(store: Store) -> None:
    job = await kit.running(store)
    held = [Held(job.id, job.lease.token)]
    assert await store.run(store.extend, held, 60.5, now=at(10)) == [Verdict.APPLIED]
    stored = await kit.read(store, job.id)
    assert stored.lease == Lease(job.lease.token, job.lease.version, at(70.5))
    assert stored.lease_version == job.lease.version


@case
async def nothing_but_the_lease_changes(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.read(store, job.id)
    await store.run(store.extend, [Held(job.id, job.lease.token)], LEASE, now=at(10))
    after = await kit.read(store, job.id)
    assert (after.started_at, after.run_at, after.worker) == (T0, T0, before.worker)
    assert (after.attempts, after.losses, after.state) == (0, 0, JobState.RUNNING)


@case.each({"stale first": 1, "valid first": -1})
async def each_token_of_a_job_gets_its_own_answer(store: Store, direction: int) -> None:
    job = await kit.running(store)
    stale, valid = Held(job.id, kit.new_token()), Held(job.id, job.lease.token)
    held = [stale, valid, Held(kit.new_id(), job.lease.token)][::direction]
    expected = [Verdict.MISMATCH, Verdict.APPLIED, Verdict.NOT_FOUND][::direction]
    assert await store.run(store.extend, held, 60.0, now=at(10)) == expected
    again = await store.run(store.extend, [valid, stale, valid], 60.0, now=at(10))
    assert again == [Verdict.APPLIED, Verdict.MISMATCH, Verdict.APPLIED]
    stored = await kit.read(store, job.id)
    assert stored.lease == Lease(job.lease.token, job.lease.version, at(70))


@case
async def a_lease_can_be_made_shorter(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.extend, [Held(job.id, job.lease.token)], 1.0, now=at(1))
    stored = await kit.read(store, job.id)
    assert stored.lease is not None
    assert stored.lease.until == at(2)


@case
async def an_extended_lease_is_not_reaped(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.extend, [Held(job.id, job.lease.token)], LEASE, now=at(20))
    assert await store.run(store.expired, 10, now=at(LEASE + 1)) == []
    assert (await kit.reap(store, now=at(LEASE + 1))).verdicts == []
    assert len(await store.run(store.expired, 10, now=at(20 + LEASE))) == 1


@case
async def an_extended_lease_lets_its_holder_complete(store: Store) -> None:
    job = await kit.running(store)
    await store.run(store.extend, [Held(job.id, job.lease.token)], LEASE, now=at(20))
    await kit.complete(store, job, now=at(LEASE + 10))


@case
async def a_lease_can_be_extended_until_a_microsecond_before_its_end(store: Store) -> None:
    job = await kit.running(store)
    held = [Held(job.id, job.lease.token)]
    last_moment = at(LEASE) - MICROSECOND
    assert await store.run(store.extend, held, LEASE, now=last_moment) == [Verdict.APPLIED]


@case
async def a_lease_that_ends_now_has_expired(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.snapshot(store)
    held = [Held(job.id, job.lease.token)]
    assert await store.run(store.extend, held, LEASE, now=at(LEASE)) == [Verdict.EXPIRED]
    assert await kit.snapshot(store) == before


@case
async def a_holder_that_is_late_gets_a_new_lease_if_nobody_has_the_job(store: Store) -> None:
    job, other = await kit.running(store), await kit.running(store)
    held = [Held(job.id, job.lease.token), Held(other.id, kit.new_token())]
    verdicts = await store.run(store.extend, held, LEASE, late=True, now=at(LEASE + 1))
    assert verdicts == [Verdict.APPLIED, Verdict.EXPIRED]
    assert await store.run(store.extend, held[:1], LEASE, now=at(2 * LEASE)) == [Verdict.APPLIED]


@case
async def who_is_late_gets_nothing_back_that_was_taken(store: Store) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    held = [Held(job.id, job.lease.token)]
    verdicts = await store.run(store.extend, held, LEASE, late=True, now=at(LEASE + 1))
    assert verdicts == [Verdict.NOT_RUNNING]
    await kit.claim(store, job.queue, now=at(LEASE + 1))
    before = await kit.snapshot(store)
    verdicts = await store.run(store.extend, held, LEASE, late=True, now=at(LEASE + 2))
    assert verdicts == [Verdict.MISMATCH]
    assert await kit.snapshot(store) == before


@case
async def an_expired_lease_is_expired_whatever_the_token(store: Store) -> None:
    job = await kit.running(store)
    held = [Held(job.id, kit.new_token())]
    assert await store.run(store.extend, held, LEASE, now=at(LEASE)) == [Verdict.EXPIRED]


@case
async def a_foreign_token_extends_nothing(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.snapshot(store)
    held = [Held(job.id, kit.new_token())]
    assert await store.run(store.extend, held, LEASE, now=at(1)) == [Verdict.MISMATCH]
    assert await kit.snapshot(store) == before


@case
async def a_stale_token_extends_nothing(store: Store) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    await kit.claim(store, job.queue, now=at(LEASE))
    before = await kit.snapshot(store)
    held = [Held(job.id, job.lease.token)]
    assert await store.run(store.extend, held, LEASE, now=at(LEASE + 1)) == [Verdict.MISMATCH]
    assert await kit.snapshot(store) == before


@case.each({str(state): state for state in JobState if state is not JobState.RUNNING})
async def only_running_jobs_have_leases(store: Store, state: JobState) -> None:
    job_id = await kit.in_state(store, state)
    before = await kit.snapshot(store)
    held = [Held(job_id, kit.new_token())]
    assert await store.run(store.extend, held, LEASE, now=at(2)) == [Verdict.NOT_RUNNING]
    assert await kit.snapshot(store) == before


@case
async def each_item_is_answered_and_harms_no_other(store: Store) -> None:
    first, second, third = [await kit.running(store) for _ in range(3)]
    gone = await kit.in_state(store, JobState.COMPLETED)
    verdicts = await store.run(
        store.extend,
        [
            Held(first.id, first.lease.token),
            Held(kit.new_id(), kit.new_token()),
            Held(second.id, first.lease.token),
            Held(gone, kit.new_token()),
            Held(third.id, third.lease.token),
        ],
        LEASE,
        now=at(5),
    )
    assert verdicts == [
        Verdict.APPLIED,
        Verdict.NOT_FOUND,
        Verdict.MISMATCH,
        Verdict.NOT_RUNNING,
        Verdict.APPLIED,
    ]
    assert (await kit.read(store, second.id)).lease == second.lease
    stored = await kit.read(store, third.id)
    assert stored.lease is not None
    assert stored.lease.until == at(5 + LEASE)


@case
async def many_leases_are_extended_at_once(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(40)]
    held = [Held(job.id, job.lease.token) for job in jobs]
    verdicts = await store.run(store.extend, held, LEASE, now=at(7))
    assert verdicts == [Verdict.APPLIED] * 40


@case
async def extending_nothing_is_fine(store: Store) -> None:
    assert await store.run(store.extend, [], LEASE, now=T0) == []


@case.each({"zero": 0.0, "negative": -0.5})
async def a_lease_must_last(store: Store, lease_for: float) -> None:
    job = await kit.running(store)
    before = await kit.snapshot(store)
    with raises(InvalidOption):
        await store.run(store.extend, [Held(job.id, job.lease.token)], lease_for, now=at(1))
    assert await kit.snapshot(store) == before
