"""claim: the jobs that a worker gets, and their order."""

from __future__ import annotations

from headway.domain.due_time import After, At
from headway.domain.job import ClaimedJob, JobState
from headway.domain.lease import Held, Lease, Verdict
from headway.domain.orders import QueueShare
from headway.domain.validation import LONGEST
from headway.errors import InvalidOption
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import LEASE, MICROSECOND, T0, TYPE, StoreCases, at

case = StoreCases("claim")


def ids(jobs: list[ClaimedJob]) -> list[str]:
    return [job.id for job in jobs]


@case
async def a_claim_hands_out_all_that_a_worker_needs(store: Store) -> None:
    job = kit.new_job(
        input='{"n":1}', queue="q", priority=3, timeout=2.5, max_attempts=None, trace="trace"
    )
    await kit.insert(store, job)
    token = kit.new_token()
    (claimed,) = await kit.claim(store, "q", now=at(2), token=token)
    assert claimed == ClaimedJob(
        id=job.id,
        type=TYPE,
        queue="q",
        priority=3,
        input='{"n":1}',
        run_at=T0,
        created_at=T0,
        attempts=0,
        losses=0,
        max_attempts=None,
        max_losses=5,
        timeout=2.5,
        lease=Lease(token, 1, at(2 + LEASE)),
        sequence_id=job.id,
        sequence_type=TYPE,
        root_id=job.id,
        origin_id=None,
        position=0,
        has_blockers=False,
        trace="trace",
    )


@case
async def a_claimed_job_is_running_and_shows_its_holder(store: Store) -> None:
    job_id = await kit.add(store)
    claimed = await kit.claim_one(store, now=at(3), worker="host:7")
    stored = await kit.read(store, job_id)
    assert stored.state is JobState.RUNNING
    assert stored.lease == claimed.lease
    assert stored.lease_version == 1
    assert (stored.worker, stored.started_at, stored.finished_at) == ("host:7", at(3), None)
    assert (stored.run_at, stored.attempts, stored.losses) == (T0, 0, 0)


@case
async def a_job_is_due_exactly_at_run_at(store: Store) -> None:
    job_id = await kit.add(store, schedule=At(at(10)))
    assert ids(await kit.claim(store, now=at(10))) == [job_id]


@case
async def a_job_is_not_due_a_microsecond_before(store: Store) -> None:
    await kit.add(store, schedule=At(at(10)))
    assert await kit.claim(store, now=at(10) - MICROSECOND) == []


@case
async def what_was_not_due_is_claimed_later(store: Store) -> None:
    job_id = await kit.add(store, schedule=After(seconds=10))
    assert await kit.claim(store, now=at(9)) == []
    assert ids(await kit.claim(store, now=at(11))) == [job_id]


@case
async def a_clock_set_back_makes_nothing_due(store: Store) -> None:
    early = await kit.add(store)
    late = await kit.add(store, schedule=After(seconds=10))
    assert ids(await kit.claim(store, now=at(10), limit=1)) == [early]
    assert await kit.claim(store, now=at(9)) == []
    assert ids(await kit.claim(store, now=at(10))) == [late]


@case
async def the_oldest_comes_first(store: Store) -> None:
    jobs = [await kit.add(store, now=at(number)) for number in range(5)]
    assert ids(await kit.claim(store, now=at(9))) == jobs


@case
async def equal_times_are_ordered_by_id(store: Store) -> None:
    jobs = [kit.new_job() for _ in range(20)]
    await kit.insert(store, *reversed(jobs))
    assert ids(await kit.claim(store)) == [job.id for job in jobs]


@case
async def run_at_counts_and_not_the_moment_of_insertion(store: Store) -> None:
    second = await kit.add(store, schedule=At(at(5)))
    first = await kit.add(store, schedule=At(at(4)), now=at(1))
    assert ids(await kit.claim(store, now=at(6))) == [first, second]


@case
async def higher_priorities_come_first(store: Store) -> None:
    by_priority = {p: await kit.add(store, priority=p) for p in (0, -5, 10, 3, -32_767, 32_767)}
    expected = [by_priority[p] for p in sorted(by_priority, reverse=True)]
    assert ids(await kit.claim(store)) == expected


@case
async def priority_comes_before_age(store: Store) -> None:
    old = await kit.add(store, now=T0)
    urgent = await kit.add(store, priority=1, now=at(5))
    assert ids(await kit.claim(store, now=at(6))) == [urgent, old]


@case
async def an_urgent_job_that_is_not_due_holds_up_nobody(store: Store) -> None:
    await kit.add(store, priority=100, schedule=After(hours=1))
    job_id = await kit.add(store)
    assert ids(await kit.claim(store)) == [job_id]


@case
async def the_order_holds_across_claims(store: Store) -> None:
    jobs = [kit.new_job(priority=number % 3) for number in range(30)]
    await kit.insert(store, *jobs)
    expected = [job.id for job in sorted(jobs, key=lambda job: (-job.priority, job.id))]
    taken: list[str] = []
    while batch := await kit.claim(store, limit=7):
        taken += ids(batch)
    assert taken == expected


@case
async def no_more_than_the_limit_is_handed_out(store: Store) -> None:
    jobs = [await kit.add(store) for _ in range(5)]
    assert ids(await kit.claim(store, limit=3)) == jobs[:3]
    assert ids(await kit.claim(store, limit=3)) == jobs[3:]
    assert await kit.claim(store, limit=3) == []


@case
async def a_limit_of_none_hands_out_nothing(store: Store) -> None:
    await kit.add(store)
    assert await kit.claim(store, limit=0) == []
    assert await kit.claim(store, QueueShare("default", 0), limit=5) == []


@case
async def queues_are_served_in_the_order_given(store: Store) -> None:
    a = await kit.add(store, queue="a")
    b = await kit.add(store, queue="b", priority=50)
    c = await kit.add(store, queue="c")
    assert ids(await kit.claim(store, "c", "a", "b")) == [c, a, b]


@case
async def an_earlier_queue_can_use_up_the_limit(store: Store) -> None:
    for queue in ("a", "b"):
        await kit.insert(store, *[kit.new_job(queue=queue) for _ in range(4)])
    taken = await kit.claim(store, "b", "a", limit=5)
    assert [job.queue for job in taken] == ["b", "b", "b", "b", "a"]


@case
async def each_queue_has_a_limit_of_its_own(store: Store) -> None:
    for queue in ("a", "b", "c"):
        await kit.insert(store, *[kit.new_job(queue=queue) for _ in range(5)])
    shares = QueueShare("a", 2), QueueShare("b", 1), QueueShare("c", 9)
    taken = await kit.claim(store, *shares, limit=6)
    assert [job.queue for job in taken] == ["a", "a", "b", "c", "c", "c"]


@case
async def a_queues_limit_takes_its_most_urgent_jobs(store: Store) -> None:
    jobs = [await kit.add(store, queue="a", priority=p) for p in (1, 2, 3, 4)]
    taken = await kit.claim(store, QueueShare("a", 2), QueueShare("b", 5), limit=10)
    assert ids(taken) == [jobs[3], jobs[2]]


@case
async def only_the_queues_named_are_served(store: Store) -> None:
    await kit.add(store, queue="a")
    job_id = await kit.add(store, queue="b")
    assert ids(await kit.claim(store, "b", "no-such-queue")) == [job_id]
    assert await kit.claim(store, "A") == []


@case
async def only_the_types_named_are_handed_out(store: Store) -> None:
    jobs = {name: await kit.add(store, type=name) for name in ("one", "two", "three")}
    taken = await kit.claim(store, types=("three", "one"))
    assert ids(taken) == [jobs["one"], jobs["three"]]
    assert await kit.claim(store, types=("four",)) == []
    assert await kit.claim(store, types=()) == []
    assert ids(await kit.claim(store, types=("two", "four"))) == [jobs["two"]]


@case
async def types_share_one_order(store: Store) -> None:
    jobs = [kit.new_job(type=f"type-{number % 4}", priority=number % 3) for number in range(40)]
    await kit.insert(store, *jobs)
    types = [f"type-{number}" for number in range(4)]
    expected = [job.id for job in sorted(jobs, key=lambda job: (-job.priority, job.id))]
    assert ids(await kit.claim(store, types=types, limit=25)) == expected[:25]
    assert ids(await kit.claim(store, types=types, limit=25)) == expected[25:]


@case
async def jobs_of_other_types_ahead_hide_none(store: Store) -> None:
    await kit.insert(store, *[kit.new_job(type="other", priority=5) for _ in range(300)])
    job_id = await kit.add(store)
    assert ids(await kit.claim(store, limit=1)) == [job_id]


@case
async def a_running_job_is_not_handed_out_again(store: Store) -> None:
    job = await kit.running(store, queue="default")
    assert await kit.claim(store, now=at(LEASE) - MICROSECOND) == []
    assert (await kit.read(store, job.id)).lease == job.lease


@case
async def an_expired_lease_is_not_handed_out_before_it_is_reaped(store: Store) -> None:
    await kit.running(store, queue="default")
    before = await kit.snapshot(store)
    assert await kit.claim(store, now=at(LEASE + 3600)) == []
    assert await kit.snapshot(store) == before


@case.each(
    {str(s): s for s in (JobState.BLOCKED, JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)}
)
async def nothing_but_pending_jobs_is_handed_out(store: Store, state: JobState) -> None:
    stored = await kit.read(store, await kit.in_state(store, state))
    assert await kit.claim(store, stored.queue, now=at(3600)) == []
    assert await kit.read(store, stored.id) == stored


@case
async def all_jobs_of_a_claim_share_its_token(store: Store) -> None:
    await kit.insert(store, *[kit.new_job() for _ in range(3)])
    token = kit.new_token()
    taken = await kit.claim(store, token=token)
    assert {job.lease.token for job in taken} == {token}
    assert {job.lease.version for job in taken} == {1}


@case
async def the_version_rises_with_every_claim(store: Store) -> None:
    job_id = await kit.add(store)
    for version in (1, 2, 3):
        job = await kit.claim_one(store, now=at(version))
        assert job.lease.version == version
        stored = await kit.read(store, job_id)
        assert stored.lease is not None
        assert (stored.lease.token, stored.lease_version) == (job.lease.token, version)
        await store.run(store.cancel, [job_id], now=at(version))
        await store.run(store.retry, [job_id], now=at(version))


@case
async def a_lease_can_be_a_microsecond_long(store: Store) -> None:
    job = await kit.running(store, lease_for=0.000_001)
    assert job.lease.until == T0 + MICROSECOND
    stored = await kit.read(store, job.id)
    assert stored.lease is not None
    assert stored.lease.until == T0 + MICROSECOND


@case.each({"zero": 0.0, "negative": -1.0, "nan": float("nan")})
async def a_lease_must_last(store: Store, lease_for: float) -> None:
    await kit.add(store)
    before = await kit.snapshot(store)
    with raises(InvalidOption):
        await store.run(store.claim, kit.order(lease_for=lease_for), now=T0)
    assert await kit.snapshot(store) == before


@case
async def a_completed_job_frees_the_way_for_the_next(store: Store) -> None:
    first, second = await kit.add(store), await kit.add(store)
    job = await kit.claim_one(store)
    assert job.id == first
    await kit.complete(store, job)
    assert (await kit.claim_one(store, now=at(2))).id == second


@case
async def claiming_from_nothing_gives_nothing(store: Store) -> None:
    assert await kit.claim(store) == []
    assert await kit.claim(store, "a", "b", "c") == []


async def a_job_lost_once(store: Store) -> tuple[str, str]:
    """Its queue and its id."""
    lost = await kit.running(store)
    await kit.reap(store, now=at(LEASE))
    return lost.queue, lost.id


@case
async def jobs_that_were_lost_too_often_are_left_where_they_are(store: Store) -> None:
    queue, first = await a_job_lost_once(store)
    second = await kit.add(store, queue=queue, now=at(1))
    third = await kit.add(store, queue=queue, now=at(2))
    assert (await kit.claim_one(store, queue, now=at(40), most_losses=0)).id == second
    assert ids(await kit.claim(store, queue, now=at(40), most_losses=0)) == [third]
    assert await kit.claim(store, queue, now=at(40), most_losses=0) == []
    assert ids(await kit.claim(store, queue, now=at(40), most_losses=1)) == [first]


@case
async def jobs_that_were_left_keep_their_place(store: Store) -> None:
    queue, first = await a_job_lost_once(store)
    others = [await kit.add(store, queue=queue, now=at(1)) for _ in range(3)]
    assert (await kit.claim_one(store, queue, now=at(40), most_losses=0)).id == others[0]
    assert ids(await kit.claim(store, queue, now=at(40))) == [first, *others[1:]]


@case
async def a_lease_of_a_hundred_years_can_be_had_and_no_longer_one(store: Store) -> None:
    await kit.add(store)
    for lease_for in (LONGEST + 1, float("inf"), float("nan")):
        with raises(InvalidOption):
            await kit.claim(store, lease_for=lease_for)
    job = await kit.claim_one(store, lease_for=LONGEST)
    assert job.lease.until == at(LONGEST)
    held = Held(job.id, job.lease.token)
    with raises(InvalidOption):
        await store.run(store.extend, [held], float("inf"), now=at(1))
    assert await store.run(store.extend, [held], LONGEST, now=at(1)) == [Verdict.APPLIED]
    assert (await kit.read(store, job.id)).lease == Lease(job.lease.token, 1, at(1 + LONGEST))


@case
async def a_claim_that_is_repeated_hands_out_what_it_took_before(store: Store) -> None:
    first = [await kit.add(store, queue="q", priority=priority) for priority in (1, 3, 2)]
    other = [await kit.add(store, queue="r", priority=priority) for priority in (5, 9)]
    token = kit.new_token()
    taken = await kit.claim(store, "q", "r", now=at(2), token=token, worker="host:7")
    assert ids(taken) == [first[1], first[2], first[0], other[1], other[0]]
    await kit.add(store, queue="q", priority=7)
    repeated = await kit.claim(
        store, "q", "r", now=at(12), token=token, worker="host:7", again=True
    )
    assert ids(repeated) == ids(taken)
    assert [job.lease for job in repeated] == [Lease(token, 1, at(12 + LEASE))] * 5
    stored = await kit.read(store, first[0])
    assert (stored.lease, stored.started_at, stored.losses) == (repeated[2].lease, at(2), 0)
    await kit.complete(store, repeated[0], now=at(11 + LEASE))


@case
async def a_repeated_claim_that_took_nothing_before_is_like_any_other(store: Store) -> None:
    await kit.running(store, queue="q")
    job_id = await kit.add(store, queue="q")
    token = kit.new_token()
    (claimed,) = await kit.claim(store, "q", now=at(2), token=token, again=True)
    assert (claimed.id, claimed.lease) == (job_id, Lease(token, 1, at(2 + LEASE)))


@case
async def a_repeated_claim_leaves_what_was_settled_or_has_expired_alone(store: Store) -> None:
    for _ in range(2):
        await kit.add(store, queue="q")
    token = kit.new_token()
    done, late = await kit.claim(store, "q", token=token)
    await kit.complete(store, done)
    before = await kit.snapshot(store)
    assert await kit.claim(store, "q", now=late.lease.until, token=token, again=True) == []
    assert await kit.snapshot(store) == before
    assert ids(
        await kit.claim(store, "q", now=late.lease.until - MICROSECOND, token=token, again=True)
    ) == [late.id]


@case
async def a_repeated_claim_for_no_jobs_hands_out_only_what_it_took_before(store: Store) -> None:
    job_id = await kit.add(store, queue="q")
    token = kit.new_token()
    (taken,) = await kit.claim(store, "q", token=token)
    await kit.add(store, queue="q")
    again = await kit.claim(store, QueueShare("q", 5), limit=0, now=at(1), token=token, again=True)
    assert ids(again) == [taken.id] == [job_id]
    await kit.complete(store, taken, now=at(2))
    assert not await kit.claim(
        store, QueueShare("q", 5), limit=0, now=at(3), token=token, again=True
    )
