"""Limits under concurrent claims, settlements, cancellations and losses."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

from headway.domain.due_time import After
from headway.domain.job import ClaimedJob
from headway.domain.limits.queue_limits import LimitsOverride
from headway.domain.limits.rate import Rate
from headway.domain.settlement import Complete, Release, Retry
from headway.limits import changes
from headway.limits.key_claim import KeyTurns
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, T0, StoreCases, at
from headway.testing.conformance.store.limited_claims import (
    Q,
    fill,
    limit,
    running_now,
    state_of,
    take,
    taken,
)

case = StoreCases("limit_races")

CLAIMERS = 64


@case
async def of_64_claimers_at_once_none_gets_more_than_the_cap(store: Store) -> None:
    await limit(store, running=5)
    await fill(store, 100)
    answers = await asyncio.gather(*[taken(store, 3) for _ in range(CLAIMERS)])
    assert sum(map(len, answers)) == 5
    assert await running_now(store) == 5


@case
async def of_64_claimers_at_once_none_gets_more_than_the_caps_of_keys(store: Store) -> None:
    await limit(store, running=9, per_key=2, fair=True)
    for key in "abcdefgh":
        await fill(store, 9, key)
    answers = await asyncio.gather(*[taken(store, 3) for _ in range(CLAIMERS)])
    jobs = [job for answer in answers for job in answer]
    assert len(jobs) == 9
    assert max(Counter(job.key for job in jobs).values()) <= 2


@case
async def of_64_claimers_at_once_none_gets_more_than_the_rate(store: Store) -> None:
    await limit(store, rate=Rate(20, per=60, burst=7))
    await fill(store, 100)
    answers = await asyncio.gather(*[taken(store, 3) for _ in range(CLAIMERS)])
    assert sum(map(len, answers)) == 7


@case
async def claimers_of_a_fair_queue_share_its_jobs(store: Store) -> None:
    await limit(store, fair=True)
    for key in ("a", "b", "c", "d", None):
        await fill(store, 20, key)

    async def claimer() -> list[ClaimedJob]:
        turns, jobs = KeyTurns(), list[ClaimedJob]()
        while more := await taken(store, 2, turns=turns):
            jobs += more
        return jobs

    answers = await asyncio.gather(*[claimer() for _ in range(8)])
    ids = [job.id for answer in answers for job in answer]
    assert (len(ids), len(set(ids))) == (100, 100)


@case
async def a_cap_holds_beside_all_that_happens_to_jobs(store: Store) -> None:
    """Claims beside completions that come twice or too late, retries, cancellations and losses."""
    cap, per_key, total = 4, 2, 60
    await limit(store, running=cap, per_key=per_key)
    for key in ("a", "b", "c"):
        await fill(store, total // 3, key, max_losses=99, max_attempts=99)
    random, clock, done = Random(7), [0.0], set[str]()
    stale: list[Complete] = []

    async def claimer() -> None:
        while len(done) < total:
            clock[0] += 0.5
            now = at(clock[0])
            for job in await taken(store, random.choice((1, 2, 5)), now=now, lease_for=20.0):
                end = Complete(job.id, job.lease.token)
                match random.randrange(8):
                    case 0:
                        await kit.settle(store, Retry(job.id, job.lease.token, 0.0, ERROR), now=now)
                    case 1:
                        await kit.settle(store, Release(job.id, job.lease.token), now=now)
                    case 2:
                        await store.run(store.cancel, [job.id], now=now)
                        done.add(job.id)
                    case 3:  # its worker dies
                        clock[0] += 25
                        await kit.reap(store, now=at(clock[0]))
                        stale.append(end)
                    case _:
                        settled = await kit.settle(store, end, now=now)
                        if settled.verdicts[0].ok:
                            done.add(job.id)
                        stale.append(end)
            if stale and random.randrange(2):
                await kit.settle(store, random.choice(stale), now=at(clock[0]))

    async def watcher() -> None:
        while len(done) < total:
            keys = await store.run(store.running_keys, Q)
            assert sum(keys.values()) <= cap, keys
            assert max(keys.values(), default=0) <= per_key, keys
            await asyncio.sleep(0)

    async with asyncio.timeout(60):
        await asyncio.gather(watcher(), *[claimer() for _ in range(6)])
    assert await running_now(store) == 0


@case
async def changes_at_once_lose_none_of_them(store: Store) -> None:
    """Claims, which keep the rate, beside overrides, holds and what handlers spend."""
    rate = Rate(1_000_000, per=1_000, burst=1_000)
    await limit(store, rate=rate, running=1_000)
    await fill(store, 40, "a")
    await asyncio.gather(
        *[taken(store, 1) for _ in range(30)],
        *[store.run(changes.spend, store, [(Q, 10)], now=T0) for _ in range(10)],
        *[
            store.run(changes.hold, store, Q, f"k{number}", After(seconds=60), now=T0)
            for number in range(10)
        ],
        store.run(changes.override, store, Q, LimitsOverride(per_key=500), now=T0),
    )
    state = await state_of(store)
    assert state.effective.per_key == 500
    assert len(state.held_keys) == 10
    assert await running_now(store) == 30
    assert state.paid_until is not None
    paid = (state.paid_until - T0).total_seconds() / rate.interval
    assert 129.9 < paid < 131


@case
async def claims_that_need_no_lock_undo_no_change(store: Store) -> None:
    """A queue that is only fair is claimed from without its lock, but not while a hold that is over
    or a refusal is forgotten."""
    await limit(store, fair=True)
    for number in range(1, 21):
        now = at(100 * number)
        await fill(store, 1, "a")
        await store.run(changes.hold, store, Q, None, After(seconds=1), now=now)
        claimers = [KeyTurns() for _ in range(4)]
        for turns in claimers:
            turns.locked[Q] = False
        await asyncio.gather(
            *[taken(store, 1, turns=turns, now=at(100 * number + 50)) for turns in claimers],
            store.run(changes.hold, store, Q, "b", After(seconds=1_000), now=now),
            store.run(changes.override, store, Q, LimitsOverride(per_key=number), now=now),
        )
        state = await state_of(store)
        assert (state.effective.per_key, "b" in state.held_keys) == (number, True)
        await store.run(changes.let_go, store, Q)
        await store.run(changes.override, store, Q, None, now=now)


@case
async def permits_are_used_again_by_whoever_looks_next(store: Store) -> None:
    await limit(store, running=3)
    await fill(store, 90)
    done = 0

    async def claimer() -> None:
        nonlocal done
        while done < 90:
            for job in await taken(store, 2):
                await kit.settle(store, Complete(job.id, job.lease.token))
                done += 1
            assert await running_now(store) <= 3

    async with asyncio.timeout(60):
        await asyncio.gather(*[claimer() for _ in range(8)])
    assert (await take(store)).jobs == []
