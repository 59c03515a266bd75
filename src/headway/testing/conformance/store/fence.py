"""The fence: without a valid lease nothing of a running job changes, not a byte."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from headway.domain.job import JobState
from headway.domain.lease import Verdict
from headway.domain.settlement import Lose, Settlement
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import (
    ERROR,
    LEASE,
    MICROSECOND,
    SETTLEMENTS,
    StoreCases,
    at,
)

case = StoreCases("fence")

Build = Callable[[str, str], Settlement]


async def refused(store: Store, settlement: Settlement, verdict: Verdict, *, now: datetime) -> None:
    """Insist on the verdict, and that nothing is different afterwards."""
    before = await kit.snapshot(store)
    settled = await kit.settle(store, settlement, now=now)
    assert settled.verdicts == [verdict]
    assert settled.freed == []
    assert await kit.snapshot(store) == before


@case.each(SETTLEMENTS)
async def a_foreign_token_is_refused(store: Store, build: Build) -> None:
    job = await kit.running(store)
    await kit.add(store, blockers=(job.id,))
    await refused(store, build(job.id, kit.new_token()), Verdict.MISMATCH, now=at(1))


@case.each(SETTLEMENTS)
async def a_foreign_token_is_refused_where_nobody_waits(store: Store, build: Build) -> None:
    job = await kit.running(store)
    await refused(store, build(job.id, kit.new_token()), Verdict.MISMATCH, now=at(1))


@case.each(SETTLEMENTS)
async def a_stale_token_is_refused(store: Store, build: Build) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    again = await kit.claim_one(store, job.queue, now=at(LEASE))
    assert again.lease.version == job.lease.version + 1
    await refused(store, build(job.id, job.lease.token), Verdict.MISMATCH, now=at(LEASE + 1))


@case.each(SETTLEMENTS)
async def an_expired_lease_is_refused(store: Store, build: Build) -> None:
    job = await kit.running(store)
    await kit.add(store, blockers=(job.id,))
    await refused(store, build(job.id, job.lease.token), Verdict.EXPIRED, now=at(3600))


@case.each(SETTLEMENTS)
async def a_lease_that_ends_now_is_refused(store: Store, build: Build) -> None:
    job = await kit.running(store)
    await refused(store, build(job.id, job.lease.token), Verdict.EXPIRED, now=at(LEASE))


@case.each(SETTLEMENTS)
async def a_foreign_token_on_an_expired_lease_is_called_expired(store: Store, build: Build) -> None:
    job = await kit.running(store)
    await refused(store, build(job.id, kit.new_token()), Verdict.EXPIRED, now=at(LEASE + 1))


@case.each(SETTLEMENTS)
async def a_token_from_before_a_reap_is_not_running(store: Store, build: Build) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    await refused(store, build(job.id, job.lease.token), Verdict.NOT_RUNNING, now=at(LEASE + 1))


@case.each(SETTLEMENTS)
async def the_last_microsecond_of_a_lease_counts(store: Store, build: Build) -> None:
    job = await kit.running(store)
    settled = await kit.settle(store, build(job.id, job.lease.token), now=at(LEASE) - MICROSECOND)
    assert settled.verdicts == [Verdict.APPLIED]
    assert await kit.state_of(store, job.id) is not JobState.RUNNING


@case.each(SETTLEMENTS)
async def an_unknown_job_is_not_found(store: Store, build: Build) -> None:
    await kit.running(store)
    await refused(store, build(kit.new_id(), kit.new_token()), Verdict.NOT_FOUND, now=at(1))


@case.each(SETTLEMENTS)
async def a_holder_of_another_job_is_refused(store: Store, build: Build) -> None:
    job, other = await kit.running(store), await kit.running(store)
    await refused(store, build(job.id, other.lease.token), Verdict.MISMATCH, now=at(1))


ENDED_ALIKE = {("complete", "completed"), ("continue", "completed"), ("fail", "failed")}
NOT_RUNNING = {
    f"{name}-{state}": (build, state, (name, str(state)) in ENDED_ALIKE)
    for name, build in SETTLEMENTS.items()
    for state in JobState
    if state is not JobState.RUNNING
}


@case.each(NOT_RUNNING)
async def a_job_that_does_not_run_stays_as_it_is(
    store: Store, variant: tuple[Build, JobState, bool]
) -> None:
    build, state, ended_alike = variant
    job_id = await kit.in_state(store, state)
    verdict = Verdict.ALREADY if ended_alike else Verdict.NOT_RUNNING
    await refused(store, build(job_id, kit.new_token()), verdict, now=at(2))


LOSSES = {"alive": False, "dead": True}


@case.each(LOSSES)
async def a_valid_lease_is_not_lost(store: Store, dead: bool) -> None:
    job = await kit.running(store)
    lose = Lose(job.id, job.lease.token, ERROR, dead)
    await refused(store, lose, Verdict.HELD, now=at(LEASE) - MICROSECOND)


@case.each(LOSSES)
async def another_lease_is_not_lost(store: Store, dead: bool) -> None:
    job = await kit.running(store)
    await refused(
        store, Lose(job.id, kit.new_token(), ERROR, dead), Verdict.MISMATCH, now=at(LEASE)
    )
    await refused(store, Lose(job.id, kit.new_token(), ERROR, dead), Verdict.MISMATCH, now=at(1))


@case.each(LOSSES)
async def a_stale_lease_is_not_lost_again(store: Store, dead: bool) -> None:
    job = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    await kit.claim_one(store, job.queue, now=at(LEASE))
    lose = Lose(job.id, job.lease.token, ERROR, dead)
    await refused(store, lose, Verdict.MISMATCH, now=at(3 * LEASE))


@case.each(LOSSES)
async def an_unknown_job_loses_nothing(store: Store, dead: bool) -> None:
    await refused(
        store, Lose(kit.new_id(), kit.new_token(), ERROR, dead), Verdict.NOT_FOUND, now=at(1)
    )


@case.each({str(state): state for state in JobState if state is not JobState.RUNNING})
async def a_job_that_does_not_run_loses_nothing(store: Store, state: JobState) -> None:
    job_id = await kit.in_state(store, state)
    token = kit.new_token()
    await refused(store, Lose(job_id, token, ERROR, False), Verdict.NOT_RUNNING, now=at(2))
    dead = Verdict.ALREADY if state is JobState.FAILED else Verdict.NOT_RUNNING
    await refused(store, Lose(job_id, token, ERROR, True), dead, now=at(2))
