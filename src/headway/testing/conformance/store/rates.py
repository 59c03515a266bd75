"""Claims under a rate: never more starts in a window than its limit, and when to look again."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from headway.domain.limits.permits import Limit
from headway.domain.limits.queue_limits import LimitsOverride
from headway.domain.limits.rate import Rate
from headway.limits import changes
from headway.limits.claim import LimitedClaim
from headway.limits.key_claim import KeyTurns
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases, at
from headway.testing.conformance.store.limited_claims import (
    Q,
    fill,
    limit,
    running_now,
    state_of,
    take,
    taken,
)

case = StoreCases("rates")


def again_in(answer: LimitedClaim) -> float:
    assert answer.wait is not None
    assert answer.wait.limit is Limit.RATE
    assert answer.wait.again_in is not None
    return answer.wait.again_in


async def starts(store: Store, rate: Rate, until: float, most: int = 5) -> list[datetime]:
    """The times at which jobs are claimed by a worker that looks when it is told to."""
    await limit(store, rate=rate)
    now, found = T0, list[datetime]()
    while now < at(until):
        answer = await take(store, most, now=now)
        found += [now] * len(answer.jobs)
        if answer.more:
            continue
        now += max(timedelta(seconds=again_in(answer)), MICROSECOND)
    return found


def most_in_a_window(times: list[datetime], seconds: float) -> int:
    """The largest number in any window of so many seconds, without its end."""
    window = timedelta(seconds=seconds)
    return max(
        sum(first <= time < first + window for time in times[place:])
        for place, first in enumerate(times)
    )


RATES = {
    "even": Rate(6, per=60),
    "with a burst": Rate(9, per=60, burst=4),
    "all at once": Rate(4, per=10, burst=4),
    "one": Rate(1, per=30),
    "fast": Rate(50, per=1, burst=10),
}


@case.each(RATES)
async def no_window_has_more_starts_than_the_limit(store: Store, rate: Rate) -> None:
    await fill(store, 60)
    found = await starts(store, rate, min(rate.per * 3, 60 * rate.per / rate.limit / 2))
    assert most_in_a_window(found, rate.per) <= rate.limit
    assert found[: rate.burst] == [T0] * rate.burst
    # It is used: after the burst, as many as come evenly.
    spaced = [later - earlier for earlier, later in pairwise(found[rate.burst - 1 :])]
    assert all(each.total_seconds() <= rate.interval + 2e-6 for each in spaced)


@case
async def a_start_is_counted_when_it_is_claimed_however_it_ends(store: Store) -> None:
    await limit(store, rate=Rate(2, per=60, burst=2))
    await fill(store, 5)
    for job in await taken(store):
        await kit.complete(store, job)
    answer = await take(store, now=at(2))
    assert (answer.jobs, answer.rated, answer.permits) == ([], True, False)
    assert 57.9 < again_in(answer) < 59
    assert len(await taken(store, now=at(61))) == 1


@case
async def nothing_is_claimed_ahead_under_a_rate(store: Store) -> None:
    await limit(store, rate=Rate(20, per=1, burst=20))
    await fill(store, 20)
    assert len(await taken(store, 10, at_once=2)) == 2
    assert await taken(store, 10, at_once=0) == []


@case
async def a_claim_that_finds_nothing_due_pays_nothing(store: Store) -> None:
    await limit(store, rate=Rate(1, per=60))
    assert (await take(store)).wait is None
    assert (await state_of(store)).paid_until is None
    await fill(store, 1)
    assert len(await taken(store)) == 1
    assert (await take(store)).wait is None
    await fill(store, 1)
    assert again_in(await take(store)) > 59


@case
async def a_claim_that_is_made_again_pays_once(store: Store) -> None:
    await limit(store, rate=Rate(10, per=60, burst=10))
    await fill(store, 20)
    token = kit.new_token()
    first = await take(store, 4, token=token)
    paid = (await state_of(store)).paid_until
    again = await take(store, 4, token=token, again=True)
    assert [job.id for job in again.jobs] == [job.id for job in first.jobs]
    assert again.rated
    assert (await state_of(store)).paid_until == paid
    assert len(await taken(store, 10)) == 6


@case
async def the_time_of_a_claim_under_a_rate_is_the_start(store: Store) -> None:
    await limit(store, rate=Rate(5, per=60))
    (id,) = await fill(store, 1)
    await taken(store, now=at(3))
    assert (await kit.read(store, id)).started_at == at(3)


@case
async def a_rate_and_a_cap_hold_together(store: Store) -> None:
    await limit(store, running=3, rate=Rate(5, per=60, burst=5))
    await fill(store, 9)
    answer = await take(store)
    assert len(answer.jobs) == 3
    assert answer.wait is not None
    assert answer.wait.limit is Limit.RUNNING
    for job in answer.jobs:
        await kit.complete(store, job)
    answer = await take(store, now=at(2))
    assert (len(answer.jobs), again_in(answer) > 0) == (2, True)
    assert await running_now(store) == 2


@case
async def a_permit_that_only_others_can_use_is_passed_on_while_the_rate_is_closed(
    store: Store,
) -> None:
    await limit(store, running=1, rate=Rate(1, per=60))
    await fill(store, 1)
    await fill(store, 1, type="other")
    (job,) = await taken(store, 1)
    answer = await take(store, 1, types=("other",))
    assert answer.wait is not None
    assert answer.wait.again_in is None  # it would not look again by itself
    await kit.complete(store, job)
    answer = await take(store, 1, now=at(2))
    assert (answer.jobs, answer.wait, answer.others) == ([], None, 1)
    answer = await take(store, 1, types=("other",), now=at(2))
    assert answer.wait is not None
    assert answer.wait.limit is Limit.RATE


@case
async def a_rate_holds_for_all_keys_together(store: Store) -> None:
    for limits in ({"fair": True}, {"per_key": 2}):
        queue = kit.new_queue()
        await limit(store, queue, rate=Rate(3, per=60, burst=3), **limits)
        for key in ("a", "b", "c", "d"):
            await fill(store, 2, key, queue=queue)
        turns = KeyTurns()
        assert len(await taken(store, queue=queue, turns=turns)) == 3
        assert again_in(await take(store, queue=queue, turns=turns)) > 50


# spend


@case
async def what_is_spent_is_paid_for_before_the_next_start(store: Store) -> None:
    rate = Rate(100, per=60, burst=20)
    await limit(store, rate=rate)
    await fill(store, 50)
    await taken(store, 1)
    await store.run(changes.spend, store, [(Q, 30)], now=T0)
    wait = again_in(await take(store, 1))
    assert abs(wait - (31 - 19) * rate.interval) < 1e-3
    assert await taken(store, 1, now=at(wait - 0.01)) == []
    assert len(await taken(store, 1, now=at(wait) + MICROSECOND)) == 1


@case
async def what_is_spent_elsewhere_changes_nothing(store: Store) -> None:
    await limit(store, "capped", running=3)
    before = await state_of(store, "capped")
    await store.run(changes.spend, store, [("capped", 5), ("unknown", 5)], now=T0)
    assert await state_of(store, "capped") == before
    unknown = await store.run(store.queue_state, "unknown")
    assert unknown is None or not unknown.limited


@case
async def however_much_is_spent_can_be_kept(store: Store) -> None:
    await limit(store, rate=Rate(1, per=86_400 * 365))
    await fill(store, 1)
    for _ in range(2):
        await store.run(changes.spend, store, [(Q, 1_000_000_000)], now=T0)
    assert again_in(await take(store)) > 86_400


# changes


@case
async def a_rate_that_is_raised_holds_at_once(store: Store) -> None:
    await limit(store, rate=Rate(1, per=3_600))
    await fill(store, 50)
    assert len(await taken(store, 1)) == 1
    assert again_in(await take(store, 1)) > 3_599
    faster = LimitsOverride(rate=Rate(100, per=1))
    await store.run(changes.override, store, Q, faster, now=T0)
    assert again_in(await take(store, 1)) < 0.1


@case
async def a_rate_that_is_lowered_is_not_waited_for_longer_than_its_window(store: Store) -> None:
    await limit(store, rate=Rate(1_000, per=1, burst=100))
    await fill(store, 150)
    assert len(await taken(store, 100)) == 100
    slower = LimitsOverride(rate=Rate(2, per=60))
    await store.run(changes.override, store, Q, slower, now=T0)
    assert 1 < again_in(await take(store, 1)) <= 60


@case
async def a_rate_that_comes_back_does_not_count_what_was_long_ago(store: Store) -> None:
    await limit(store, rate=Rate(1, per=86_400))
    await fill(store, 50)
    await taken(store, 1)
    await store.run(changes.override, store, Q, LimitsOverride(rate=None), now=T0)
    assert len(await taken(store, 1)) == 1
    rate = LimitsOverride(rate=Rate(1, per=2))
    await store.run(changes.override, store, Q, rate, now=T0)
    assert len(await taken(store, 1, now=at(2.1))) == 1


@case
async def the_clock_of_the_store_counts_if_no_time_is_given(store: Store) -> None:
    await limit(store, rate=Rate(2, per=3_600, burst=2))
    present = await store.run(store.time)
    await kit.insert(store, *[kit.new_job(queue=Q) for _ in range(5)], now=present)
    answer = await take(store, now=None)
    assert len(answer.jobs) == 2
    assert again_in(answer) > 3_590
    assert await taken(store, now=None) == []
