"""Claims from queues with limits: permits for running jobs, of a queue and of a key."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import structs

from headway.domain.due_time import At
from headway.domain.job import ClaimedJob, JobState
from headway.domain.lease import Held, Verdict
from headway.domain.limits.permits import Limit
from headway.domain.limits.queue_limits import QueueLimits, QueueState, StoredLimits
from headway.domain.limits.rate import Rate
from headway.domain.orders import QueueShare
from headway.domain.settlement import Complete, Settlement
from headway.limits.claim import LimitedClaim, claim_limited
from headway.limits.key_claim import KeyTurns
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import LEASE, T0, StoreCases, at

case = StoreCases("limited_claims")

Q = "limited"
BY_KIND: list[dict[str, Any]] = [
    {"running": 5},
    {"per_key": 5},
    {"fair": True},
    {"running": 5, "fair": True},
]


async def limit(store: Store, queue: str = Q, **limits: Any) -> None:
    """Declare limits of a queue."""

    def change() -> Operation[None]:
        state = (yield from store.queue_state(queue, lock=True)) or QueueState(name=queue)
        declared = StoredLimits(declared=QueueLimits(**limits))
        yield from store.save_queue(structs.replace(state, limits=declared))

    await store.run(change)


async def state_of(store: Store, queue: str = Q) -> QueueState:
    state = await store.run(store.queue_state, queue)
    assert state is not None, f"nothing is kept of queue {queue}"
    return state


async def take(
    store: Store,
    most: int = 100,
    *,
    queue: str = Q,
    at_once: int | None = None,
    turns: KeyTurns | None = None,
    now: datetime | None = T0,
    **fields: Any,
) -> LimitedClaim:
    """Claim from a queue with limits, as a worker does."""
    order = kit.order(QueueShare(queue, most, at_once), limit=most, **fields)
    order = structs.replace(order, limited=True)
    return await store.run(claim_limited, store, order, turns or KeyTurns(), now=now)


async def taken(store: Store, most: int = 100, **fields: Any) -> list[ClaimedJob]:
    return (await take(store, most, **fields)).jobs


async def fill(
    store: Store, count: int, key: str | None = None, *, queue: str = Q, **fields: Any
) -> list[str]:
    """Start so many jobs; their ids."""
    jobs = [kit.new_job(queue=queue, key=key, **fields) for _ in range(count)]
    return [each.id for each in await kit.insert(store, *jobs)]


async def running_now(store: Store, queue: str = Q) -> int:
    return sum((await store.run(store.running_keys, queue)).values())


# claim


@case
async def a_claim_leaves_queues_with_limits_out_and_names_them(store: Store) -> None:
    await limit(store, running=5)
    await fill(store, 2)
    await fill(store, 2, queue="other")
    claimed = await store.run(store.claim, kit.order(Q, "other", "third", limit=10), now=T0)
    assert [job.queue for job in claimed] == ["other", "other"]
    assert set(claimed.limited) == {Q}


@case
async def a_claim_of_a_queue_without_limits_names_none(store: Store) -> None:
    await limit(store)
    await store.run(store.pause, "paused", True, now=T0)
    await fill(store, 2)
    claimed = await store.run(store.claim, kit.order(Q, "paused", limit=10), now=T0)
    assert (len(claimed), set(claimed.limited)) == (2, set())


@case
async def limits_that_were_taken_away_do_not_hold(store: Store) -> None:
    await limit(store, running=1)
    await fill(store, 5)
    turns = KeyTurns()
    assert len(await taken(store, turns=turns)) == 1
    await limit(store)
    answer = await take(store, turns=turns)
    assert (len(answer.jobs), answer.limited, answer.permits) == (4, False, False)
    assert len(await kit.claim(store, Q)) == 0


@case
async def a_queue_of_which_nothing_is_kept_is_claimed_from_as_any_other(store: Store) -> None:
    await fill(store, 3)
    answer = await take(store, 2)
    assert (len(answer.jobs), answer.limited, answer.more) == (2, False, True)


@case
async def a_paused_queue_with_limits_gives_nothing(store: Store) -> None:
    await limit(store, running=5, per_key=5)
    await fill(store, 3, "a")
    await store.run(store.pause, Q, True, now=T0)
    answer = await take(store)
    assert (answer.jobs, answer.wait, answer.limited) == ([], None, True)
    await store.run(store.pause, Q, False, now=T0)
    assert len(await taken(store)) == 3


@case
async def a_paused_queue_whose_limits_were_taken_away_gives_nothing(store: Store) -> None:
    await limit(store, running=5)
    await fill(store, 3)
    await limit(store)
    await store.run(store.pause, Q, True, now=T0)
    assert await taken(store) == []


@case
async def jobs_claimed_under_a_limit_come_as_others_do(store: Store) -> None:
    await limit(store, running=10)
    low, high = await fill(store, 1), await fill(store, 1, priority=5)
    later = await fill(store, 1, priority=5, schedule=At(at(1)))
    await fill(store, 1, type="other")
    await fill(store, 1, schedule=At(at(60)))
    jobs = await taken(store, now=at(2))
    assert [job.id for job in jobs] == high + later + low
    (first, *_) = jobs
    stored = await kit.read(store, first.id)
    assert (stored.state, stored.started_at, stored.worker) == (
        JobState.RUNNING,
        at(2),
        "worker-1",
    )
    assert stored.lease == first.lease
    assert first.lease.until == at(2 + LEASE)


@case
async def jobs_that_were_lost_too_often_are_left(store: Store) -> None:
    for limits in BY_KIND:
        await limit(store, **limits)
        (id,) = await fill(store, 1, "a", max_losses=9)
        for number in range(2):
            (job,) = await taken(store, lease_for=1.0, now=at(10 * number))
            assert job.id == id
            await kit.reap(store, now=at(10 * number + 1))
        assert await taken(store, most_losses=1, now=at(60)) == []
        (job,) = await taken(store, most_losses=2, now=at(60))
        await kit.complete(store, job, now=at(61))


# running


@case
async def no_more_jobs_run_than_the_cap(store: Store) -> None:
    await limit(store, running=3)
    await fill(store, 10)
    answer = await take(store, 5)
    assert len(answer.jobs) == 3
    assert answer.wait is not None
    wait = answer.wait
    assert (wait.limit, wait.used, wait.most, wait.again_in) == (Limit.RUNNING, 0, 3, None)
    answer = await take(store, 5)
    assert answer.jobs == []
    assert answer.wait is not None
    assert (answer.wait.used, answer.wait.most) == (3, 3)
    assert not answer.more


@case
async def the_cap_counts_the_running_jobs_of_its_queue_alone(store: Store) -> None:
    await limit(store, running=2)
    await kit.running(store)
    await fill(store, 3)
    assert len(await taken(store)) == 2


@case.each(kit.SETTLEMENTS)
async def a_job_that_ends_frees_one_permit(
    store: Store, ending: Callable[[str, str], Settlement]
) -> None:
    await limit(store, running=2, per_key=2)
    await fill(store, 10, "a")
    first, _ = await taken(store)
    settlement = ending(first.id, first.lease.token)
    await kit.apply(store, settlement)
    assert len(await taken(store, now=at(2))) == 1
    # A settlement that comes again, after its answer was lost, frees nothing.
    await kit.settle(store, settlement, now=at(3))
    assert await taken(store, now=at(3)) == []
    assert await running_now(store) == 2


@case
async def a_continuation_in_the_same_queue_takes_a_permit_like_any_other(store: Store) -> None:
    await limit(store, running=1)
    await fill(store, 1)
    (job,) = await taken(store)
    await kit.complete(store, job, successor=kit.successor_of(job, queue=Q))
    (following,) = await taken(store, now=at(2))
    assert following.sequence_id == job.sequence_id
    assert await taken(store, now=at(2)) == []


@case
async def a_running_job_that_is_cancelled_frees_one_permit(store: Store) -> None:
    await limit(store, running=2)
    await fill(store, 10)
    first, _ = await taken(store)
    assert await store.run(store.cancel, [first.id], now=at(1)) == [Verdict.APPLIED]
    assert len(await taken(store, now=at(2))) == 1
    # Its holder comes back.
    settled = await kit.settle(store, Complete(first.id, first.lease.token), now=at(3))
    assert settled.verdicts != [Verdict.APPLIED]
    assert await taken(store, now=at(3)) == []


@case
async def a_job_whose_lease_expired_runs_until_it_is_given_back(store: Store) -> None:
    await limit(store, running=2, per_key=2)
    await fill(store, 10, "a")
    lost = await taken(store, lease_for=5.0)
    assert len(lost) == 2
    assert await taken(store, now=at(60)) == []
    await kit.reap(store, now=at(60))
    again = await taken(store, now=at(60))
    assert len(again) == 2
    # The old holders come back, and free nothing.
    for job in lost:
        settled = await kit.settle(store, Complete(job.id, job.lease.token), now=at(61))
        assert settled.verdicts != [Verdict.APPLIED]
    assert await taken(store, now=at(61)) == []
    assert await running_now(store) == 2


@case
async def a_lease_that_is_extended_late_keeps_its_permit(store: Store) -> None:
    await limit(store, running=1)
    await fill(store, 3)
    (job,) = await taken(store, lease_for=5.0)
    held = [Held(job.id, job.lease.token)]
    assert await store.run(store.extend, held, LEASE, late=True, now=at(10)) == [Verdict.APPLIED]
    assert await taken(store, now=at(11)) == []


@case
async def a_higher_cap_holds_at_once_and_a_lower_one_stops_nothing(store: Store) -> None:
    await limit(store, running=2)
    await fill(store, 10)
    turns = KeyTurns()
    assert len(await taken(store, turns=turns)) == 2
    await limit(store, running=5)
    assert len(await taken(store, turns=turns)) == 3
    await limit(store, running=1)
    answer = await take(store, turns=turns)
    assert answer.jobs == []
    assert answer.wait is not None
    assert (answer.wait.used, answer.wait.most) == (5, 1)
    assert await running_now(store) == 5


@case
async def jobs_are_claimed_ahead_only_while_permits_are_left_for_others(store: Store) -> None:
    await limit(store, running=10)
    await fill(store, 30)
    assert len(await taken(store, 10, at_once=2)) == 6
    answer = await take(store, 10, at_once=2)
    assert len(answer.jobs) == 3
    answer = await take(store, 10, at_once=2)
    assert (len(answer.jobs), answer.wait is not None) == (1, True)
    assert await taken(store, 10, at_once=0) == []


@case
async def a_claim_that_is_refused_although_nothing_is_due_waits_for_nothing(store: Store) -> None:
    await limit(store, running=1)
    await fill(store, 1)
    await taken(store, 1)
    answer = await take(store)
    assert (answer.jobs, answer.wait) == ([], None)
    assert not (await state_of(store)).refused
    await fill(store, 1, schedule=At(at(60)))
    assert (await take(store)).wait is None
    assert (await take(store, now=at(60))).wait is not None


@case
async def permits_that_others_found_missing_are_passed_on_once(store: Store) -> None:
    await limit(store, running=2)
    await fill(store, 3)
    turns = KeyTurns()
    first, second = await taken(store, turns=turns)
    assert (await take(store)).wait is not None
    assert (await state_of(store)).refused
    await kit.complete(store, first)
    await kit.complete(store, second)
    answer = await take(store, 1, turns=turns, now=at(2))
    assert (len(answer.jobs), answer.more) == (1, True)
    answer = await take(store, 1, turns=turns, now=at(2))
    assert (answer.jobs, answer.others) == ([], 1)
    assert not (await state_of(store)).refused
    assert (await take(store, turns=turns, now=at(2))).others == 0


@case
async def a_permit_is_passed_on_although_the_rate_allows_no_start(store: Store) -> None:
    await limit(store, running=1, rate=Rate(1, per=100))
    await fill(store, 1)
    await fill(store, 1, type="other")
    (only,) = await taken(store, 1)
    assert (await take(store, types=("other",))).wait is not None
    await kit.complete(store, only)
    answer = await take(store, now=at(2))
    assert (answer.jobs, answer.wait, answer.others) == ([], None, 1)


# per_key


@case
async def no_more_jobs_of_a_key_run_than_its_cap(store: Store) -> None:
    await limit(store, per_key=2)
    of_a, of_b = await fill(store, 5, "a"), await fill(store, 3, "b")
    without = await fill(store, 4)
    answer = await take(store)
    assert [job.id for job in answer.jobs] == of_a[:2] + of_b[:2] + without
    answer = await take(store)
    assert answer.jobs == []
    assert answer.wait is not None
    assert (answer.wait.limit, answer.wait.most) == (Limit.PER_KEY, 2)
    assert await store.run(store.running_keys, Q) == {"a": 2, "b": 2, None: 4}
    assert await store.run(store.running_keys, Q, by_key=False) == {None: 8}


@case
async def the_end_of_a_job_frees_a_permit_of_its_key(store: Store) -> None:
    await limit(store, per_key=1)
    await fill(store, 3, "a")
    await fill(store, 3, "b")
    jobs = {job.key: job for job in await taken(store)}
    await kit.complete(store, jobs["b"])
    (job,) = await taken(store, now=at(2))
    assert job.key == "b"


@case
async def a_cap_and_a_cap_of_each_key_hold_together(store: Store) -> None:
    await limit(store, running=3, per_key=2)
    for key in ("a", "b", "c"):
        await fill(store, 5, key)
    answer = await take(store)
    assert [job.key for job in answer.jobs] == ["a", "a", "b"]
    assert answer.wait is not None
    assert answer.wait.limit is Limit.RUNNING
    await kit.complete(store, answer.jobs[0])
    (job,) = await taken(store, now=at(2))
    assert job.key == "a"


@case
async def jobs_of_other_keys_are_found_behind_many_of_a_full_one(store: Store) -> None:
    await limit(store, per_key=1)
    await fill(store, 700, "a")
    (without,) = await fill(store, 1)
    (last,) = await fill(store, 1, "b")
    turns = KeyTurns()
    found: list[str] = []
    for _ in range(5):
        found += [job.id for job in await taken(store, 2, turns=turns)]
    assert {without, last} < set(found)
    assert len(found) == 3


@case
async def a_key_counts_its_jobs_of_every_priority(store: Store) -> None:
    await limit(store, per_key=2)
    for priority in (0, 5, 9):
        await fill(store, 2, "a", priority=priority)
    jobs = await taken(store)
    assert [job.priority for job in jobs] == [9, 9]
    await kit.complete(store, jobs[0])
    (job,) = await taken(store, now=at(2))
    assert job.priority == 5


@case
async def a_key_with_one_place_left_gives_one_job_of_all_priorities(store: Store) -> None:
    for fair in (False, True):
        queue = f"fair-{fair}"
        await limit(store, queue, per_key=2, fair=fair)
        await fill(store, 1, "a", queue=queue)
        await taken(store, queue=queue)
        for priority in (0, 5, 9):
            await fill(store, 1, "a", queue=queue, priority=priority)
        (job,) = await taken(store, queue=queue)
        assert job.priority == 9


# again


@case
async def a_claim_that_is_made_again_gives_the_same_jobs(store: Store) -> None:
    for limits in BY_KIND:
        queue = kit.new_queue()
        await limit(store, queue, **limits)
        await fill(store, 9, "a", queue=queue)
        token = kit.new_token()
        first = await take(store, 3, queue=queue, token=token)
        again = await take(store, 3, queue=queue, token=token, again=True, now=at(1))
        assert [job.id for job in again.jobs] == [job.id for job in first.jobs]
        assert len(first.jobs) == 3
        assert again.permits == first.permits
        assert await running_now(store, queue) == 3
        (job, *_) = again.jobs
        assert job.lease.until == at(1 + LEASE)


@case
async def a_claim_that_had_not_happened_happens_when_it_is_made_again(store: Store) -> None:
    await limit(store, running=2)
    await fill(store, 5)
    assert len(await taken(store, again=True)) == 2


@case
async def an_operation_that_fails_after_its_claim_leaves_the_permits(store: Store) -> None:
    await limit(store, running=2, per_key=2)
    await fill(store, 5, "a")
    order = structs.replace(kit.order(Q, limit=5), limited=True)

    def flow() -> Operation[None]:
        claimed = yield from claim_limited(store, order, KeyTurns(), now=T0)
        assert len(claimed.jobs) == 2
        raise LookupError("on second thoughts")

    try:
        await store.run(flow)
    except LookupError:
        pass
    else:
        raise AssertionError("the error was lost")
    assert await running_now(store) == 0
    assert len(await taken(store)) == 2
