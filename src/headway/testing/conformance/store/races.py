"""Races: of many concurrent operations on a job exactly one is applied."""

from __future__ import annotations

import asyncio
from collections import Counter

from headway.domain.job import ClaimedJob, JobState
from headway.domain.lease import Held, Verdict
from headway.domain.lifecycle import after_expiry
from headway.domain.settlement import Complete, Fail, Release
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, StoreCases, at

case = StoreCases("races")


@case
async def of_32_claimers_none_gets_anothers_job(store: Store) -> None:
    jobs = [kit.new_job(priority=number % 3) for number in range(2_000)]
    await kit.insert(store, *jobs)

    async def claimer(number: int) -> list[ClaimedJob]:
        taken: list[ClaimedJob] = []
        while batch := await kit.claim(store, limit=17, worker=f"worker-{number}"):
            taken += batch
        return taken

    taken = [job for batch in await asyncio.gather(*map(claimer, range(32))) for job in batch]
    assert Counter(job.id for job in taken) == Counter(job.id for job in jobs)
    held = {job.id: job.lease for job in taken}
    for stored in await kit.everything(store):
        assert stored.lease == held[stored.id]


@case
async def of_32_claimers_one_gets_the_only_job(store: Store) -> None:
    for _ in range(5):
        job_id = await kit.add(store)
        answers = await asyncio.gather(*[kit.claim(store) for _ in range(32)])
        assert [job.id for answer in answers for job in answer] == [job_id]


@case
async def of_32_racers_one_takes_over_an_expired_lease(store: Store) -> None:
    job = await kit.running(store, queue="default")
    late = at(LEASE)

    async def racer(number: int) -> tuple[list[Verdict], list[ClaimedJob]]:
        expired = await store.run(store.expired, 10, now=late)
        settled = await kit.settle(store, *[after_expiry(record) for record in expired], now=late)
        return settled.verdicts, await kit.claim(store, now=late, worker=f"racer-{number}")

    answers = await asyncio.gather(*map(racer, range(32)))
    verdicts = [verdict for found, _ in answers for verdict in found]
    taken = [claimed for _, found in answers for claimed in found]
    assert verdicts.count(Verdict.APPLIED) == 1
    assert set(verdicts) <= {Verdict.APPLIED, Verdict.NOT_RUNNING, Verdict.MISMATCH}
    assert [claimed.id for claimed in taken] == [job.id]
    stored = await kit.read(store, job.id)
    assert (stored.losses, stored.lease_version) == (1, 2)
    assert stored.lease == taken[0].lease
    assert len(await kit.attempts_of(store, job.id)) == 1


@case
async def of_16_settlements_one_takes(store: Store) -> None:
    job = await kit.running(store)
    token = job.lease.token
    answers = await asyncio.gather(
        *[
            kit.settle(store, Fail(job.id, token, ERROR) if number % 2 else Release(job.id, token))
            for number in range(16)
        ]
    )
    verdicts = [answer.verdicts[0] for answer in answers]
    assert verdicts.count(Verdict.APPLIED) == 1
    stored = await kit.read(store, job.id)
    assert stored.attempts == (1 if stored.state is JobState.FAILED else 0)
    assert len(await kit.attempts_of(store, job.id)) == stored.attempts


@case
async def a_completion_said_by_many_is_recorded_once(store: Store) -> None:
    job = await kit.running(store)
    answers = await asyncio.gather(
        *[kit.settle(store, Complete(job.id, job.lease.token, str(number))) for number in range(16)]
    )
    verdicts = [answer.verdicts[0] for answer in answers]
    assert verdicts.count(Verdict.APPLIED) == 1
    assert verdicts.count(Verdict.ALREADY) == 15
    assert (await kit.read(store, job.id)).output == str(verdicts.index(Verdict.APPLIED))


@case
async def a_reaper_and_a_holder_never_both_win(store: Store) -> None:
    jobs = [await kit.running(store, queue="default") for _ in range(20)]
    records = [await kit.read(store, job.id) for job in jobs]
    reaped, extended = await asyncio.gather(
        kit.settle(store, *[after_expiry(record) for record in records], now=at(LEASE)),
        store.run(
            store.extend,
            [Held(job.id, job.lease.token) for job in jobs],
            LEASE,
            now=at(LEASE - 1),
        ),
    )
    for job, lost, kept in zip(jobs, reaped.verdicts, extended, strict=True):
        assert (lost, kept) in {
            (Verdict.APPLIED, Verdict.NOT_RUNNING),
            (Verdict.HELD, Verdict.APPLIED),
        }
        state = await kit.state_of(store, job.id)
        assert state is (JobState.PENDING if lost is Verdict.APPLIED else JobState.RUNNING)


@case
async def a_cancellation_and_a_completion_never_both_win(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(20)]
    settled, cancelled = await asyncio.gather(
        kit.settle(store, *[Complete(job.id, job.lease.token, "1") for job in jobs]),
        store.run(store.cancel, [job.id for job in jobs], now=at(1)),
    )
    for job, done, gone in zip(jobs, settled.verdicts, cancelled, strict=True):
        assert (done, gone) in {
            (Verdict.APPLIED, Verdict.WRONG_STATE),
            (Verdict.NOT_RUNNING, Verdict.APPLIED),
        }
        expected = JobState.COMPLETED if done is Verdict.APPLIED else JobState.CANCELLED
        assert await kit.state_of(store, job.id) is expected


@case
async def batches_in_opposite_orders_do_not_get_stuck(store: Store) -> None:
    jobs = [await kit.running(store) for _ in range(30)]
    held = [Held(job.id, job.lease.token) for job in jobs]
    answers = await asyncio.gather(
        *[
            store.run(store.extend, held[::step], LEASE, now=at(number))
            for number, step in enumerate((1, -1) * 8)
        ]
    )
    assert all(verdict is Verdict.APPLIED for answer in answers for verdict in answer)
    forward = [Complete(job.id, job.lease.token) for job in jobs]
    done = await asyncio.gather(*[kit.settle(store, *forward[::step]) for step in (1, -1) * 4])
    assert sum(answer.verdicts.count(Verdict.APPLIED) for answer in done) == 30


@case
async def inserting_and_claiming_at_once_loses_nothing(store: Store) -> None:
    made: list[str] = []
    taken: list[str] = []
    producing = asyncio.Event()

    async def producer() -> None:
        made.extend([await kit.add(store) for _ in range(20)])

    async def consumer() -> None:
        while True:
            last = producing.is_set()
            batch = await kit.claim(store, limit=3)
            taken.extend(job.id for job in batch)
            if last and not batch:
                return

    consumers = [asyncio.create_task(consumer()) for _ in range(4)]
    await asyncio.gather(*[producer() for _ in range(4)])
    producing.set()
    await asyncio.gather(*consumers)
    # A claim may pass over a job whose insertion was not visible yet; a later one finds it.
    taken.extend(job.id for job in await kit.claim(store))
    assert sorted(taken) == sorted(made)


@case
async def of_16_retries_one_takes(store: Store) -> None:
    job_id = await kit.in_state(store, JobState.FAILED)
    answers = await asyncio.gather(
        *[store.run(store.retry, [job_id], now=at(2)) for _ in range(16)]
    )
    verdicts = [answer[0] for answer in answers]
    assert verdicts.count(Verdict.APPLIED) == 1
    assert verdicts.count(Verdict.WRONG_STATE) == 15
    assert len(await kit.claim(store, (await kit.read(store, job_id)).queue, now=at(2))) == 1


@case
async def a_sequence_grows_by_one_job_whoever_continues_it(store: Store) -> None:
    job = await kit.running(store)
    continuations = [
        Complete(
            job.id,
            job.lease.token,
            None,
            kit.new_job(sequence_id=job.id, sequence_type=job.type, root_id=job.id, position=1),
        )
        for _ in range(12)
    ]
    answers = await asyncio.gather(*[kit.settle(store, each) for each in continuations])
    assert [answer.verdicts[0] for answer in answers].count(Verdict.APPLIED) == 1
    assert len(await kit.everything(store)) == 2


async def racing_pairs(store: Store, pairs: int) -> None:
    """Blockers that complete while their dependents are being created: none is left blocked.

    The suite runs some; call it with 2,000 to be sure.
    """
    jobs = [kit.new_job(queue="blockers") for _ in range(pairs)]
    await kit.insert(store, *jobs)
    blockers = await kit.claim(store, "blockers", limit=pairs)
    at_once = asyncio.Semaphore(16)

    async def race(number: int, blocker: ClaimedJob) -> None:
        async with at_once:
            dependent = kit.new_job(queue="dependents", blockers=(blocker.id,))
            both = (kit.complete(store, blocker), kit.insert(store, dependent, now=at(1)))
            await asyncio.gather(*(both if number % 2 else both[::-1]))

    await asyncio.gather(*[race(number, job) for number, job in enumerate(blockers)])
    left = [job.id for job in await kit.everything(store) if job.state is JobState.BLOCKED]
    assert left == []
    assert len(await kit.claim(store, "dependents", now=at(2), limit=pairs)) == pairs


@case
async def a_blocker_that_completes_meanwhile_strands_nobody(store: Store) -> None:
    await racing_pairs(store, 200)


@case
async def a_blocker_that_is_awaited_already_strands_no_latecomer(store: Store) -> None:
    blockers = [await kit.running(store) for _ in range(25)]
    await kit.insert(store, *[kit.new_job(queue="first", blockers=(job.id,)) for job in blockers])
    late = [kit.new_job(queue="late", blockers=(job.id,)) for job in blockers]
    await asyncio.gather(
        *[
            asyncio.gather(kit.complete(store, blocker), kit.insert(store, job, now=at(1)))
            for blocker, job in zip(blockers, late, strict=True)
        ]
    )
    assert len(await kit.claim(store, "late", now=at(2))) == 25
    assert len(await kit.claim(store, "first", now=at(2))) == 25


@case
async def blockers_that_complete_together_free_their_dependents(store: Store) -> None:
    groups = [[await kit.running(store) for _ in range(3)] for _ in range(15)]
    waiting = [
        await kit.add(store, queue="waiting", blockers=tuple(job.id for job in group))
        for group in groups
    ]
    settled = await asyncio.gather(*[kit.complete(store, job) for group in groups for job in group])
    freed = [each.job_id for answer in settled for each in answer.freed]
    assert sorted(freed) == sorted(waiting)
    assert len(await kit.claim(store, "waiting", now=at(2))) == 15


@case
async def a_blocker_that_is_continued_meanwhile_still_blocks(store: Store) -> None:
    for _ in range(20):
        blocker = await kit.running(store)
        following = kit.new_job(
            sequence_id=blocker.id, sequence_type=blocker.type, root_id=blocker.id, position=1,
            queue=f"following-{blocker.id}",
        )  # fmt: skip
        dependent = kit.new_job(blockers=(blocker.id,))
        await asyncio.gather(
            kit.complete(store, blocker, successor=following),
            kit.insert(store, dependent, now=at(1)),
        )
        assert await kit.state_of(store, dependent.id) is JobState.BLOCKED
        (last,) = await kit.claim(store, following.queue, now=at(2))
        settled = await kit.apply(store, Complete(last.id, last.lease.token), now=at(3))
        assert [freed.job_id for freed in settled.freed] == [dependent.id]
