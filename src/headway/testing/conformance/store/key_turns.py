"""Keys take turns in a fair queue."""

from __future__ import annotations

from collections import Counter

from headway.domain.due_time import At
from headway.domain.job import ClaimedJob
from headway.domain.limits.permits import Limit
from headway.limits.key_claim import KeyTurns
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import StoreCases, at
from headway.testing.conformance.store.limited_claims import fill, limit, take, taken

case = StoreCases("key_turns")


async def drain(store: Store, most: int, turns: KeyTurns | None = None) -> list[ClaimedJob]:
    """All jobs of the queue, claimed by one worker that goes on while there may be more."""
    turns = turns or KeyTurns()
    jobs: list[ClaimedJob] = []
    while True:
        answer = await take(store, most, turns=turns)
        jobs += answer.jobs
        if not answer.jobs:
            return jobs


def names(jobs: list[ClaimedJob]) -> list[str | None]:
    return [job.key for job in jobs]


@case
async def keys_take_turns_however_many_jobs_each_has(store: Store) -> None:
    for most in (1, 2, 3, 7, 100):
        await limit(store, fair=True)
        of_a = await fill(store, 30, "a")
        await fill(store, 3, "b")
        await fill(store, 5, "c")
        jobs = await drain(store, most)
        assert len(jobs) == 38
        assert [job.id for job in jobs if job.key == "a"] == of_a
        # The small ones are done after as many rounds as they have jobs, and what a claim gives at
        # once.
        assert Counter(names(jobs[: 3 * 3 + most]))["b"] == 3
        assert Counter(names(jobs[: 3 * 3 + 2 * 2 + 2 * most]))["c"] == 5
        if most == 1:
            assert names(jobs[:6]) == ["a", "b", "c", "a", "b", "c"]


@case
async def a_claim_goes_on_after_the_key_that_was_served_last(store: Store) -> None:
    await limit(store, fair=True)
    for key in "abcde":
        await fill(store, 4, key)
    turns = KeyTurns()
    served = [{job.key for job in await taken(store, 2, turns=turns)} for _ in range(5)]
    assert served == [{"a", "b"}, {"c", "d"}, {"e", "a"}, {"b", "c"}, {"d", "e"}]


@case
async def nothing_is_left_idle(store: Store) -> None:
    await limit(store, fair=True)
    await fill(store, 20, "a")
    await fill(store, 1, "b")
    turns = KeyTurns()
    jobs: list[ClaimedJob] = []
    while len(jobs) < 12:
        answer = await take(store, 12 - len(jobs), turns=turns)
        assert answer.jobs
        assert answer.more
        jobs += answer.jobs
    assert Counter(names(jobs)) == {"a": 11, "b": 1}


@case
async def a_claim_that_gave_all_it_could_says_that_there_may_be_more(store: Store) -> None:
    await limit(store, fair=True)
    await fill(store, 20, "a")
    turns = KeyTurns()
    answer = await take(store, 5, turns=turns)
    assert (len(answer.jobs), answer.more) == (5, True)


@case
async def signs_in_a_key_have_no_meaning(store: Store) -> None:
    await limit(store, fair=True)
    keys = ["$", "$$NONE", "$$ROOT", "$key", "%s", "'", "{}", "é", "🚚"]
    for key in keys:
        await fill(store, 100, key)  # more than one look finds
    assert names(await taken(store, len(keys))) == keys


@case
async def a_weight_multiplies_the_share_of_a_key(store: Store) -> None:
    for most in (1, 2, 3, 5, 10):
        queue = kit.new_queue()
        await limit(store, queue, fair=True, weights={"b": 3})
        for key in ("a", "b", "c"):
            await fill(store, 60, key, queue=queue)
        turns = KeyTurns()
        jobs: list[ClaimedJob] = []
        while len(jobs) < 50:
            jobs += await taken(store, most, queue=queue, turns=turns)
        count = Counter(names(jobs[:50]))
        assert abs(count["b"] - 30) <= 3, (most, count)
        assert abs(count["a"] - 10) <= 3, (most, count)


@case
async def jobs_without_a_key_are_one_more_key(store: Store) -> None:
    for most in (1, 2, 3, 10):
        queue = kit.new_queue()
        await limit(store, queue, fair=True)
        for key in ("a", None, "b"):
            await fill(store, 30, key, queue=queue)
        turns = KeyTurns()
        jobs: list[ClaimedJob] = []
        while len(jobs) < 30:
            jobs += await taken(store, most, queue=queue, turns=turns)
        count = Counter(names(jobs[:30]))
        assert min(count.values()) >= 8, (most, count)


@case
async def jobs_without_a_key_alone_are_claimed_as_others(store: Store) -> None:
    await limit(store, fair=True)
    ids = await fill(store, 10)
    assert [job.id for job in await drain(store, 3)] == ids


@case
async def a_job_without_a_key_is_found_however_soon_it_comes(store: Store) -> None:
    await limit(store, fair=True)
    turns = KeyTurns()
    for _ in range(3):
        assert await taken(store, 5, turns=turns) == []
        turns.hint()
        (id,) = await fill(store, 1)
        assert [job.id for job in await taken(store, 5, turns=turns)] == [id]


@case
async def keys_that_come_and_go_are_all_served(store: Store) -> None:
    await limit(store, fair=True)
    turns = KeyTurns()
    seen: Counter[str | None] = Counter()
    for number in range(12):
        await fill(store, 2, f"k{(number * 7) % 12:02}")
        seen.update(names(await taken(store, 1, turns=turns)))
    seen.update(names(await drain(store, 1, turns)))
    assert seen == {f"k{number:02}": 2 for number in range(12)}


@case
async def keys_that_have_all_they_may_are_passed_over(store: Store) -> None:
    await limit(store, fair=True, per_key=2)
    for key in ("a", "b", "c"):
        await fill(store, 5, key)
    turns = KeyTurns()
    jobs = await drain(store, 2, turns)
    assert Counter(names(jobs)) == {"a": 2, "b": 2, "c": 2}
    answer = await take(store, turns=turns)
    assert answer.wait is not None
    assert answer.wait.limit is Limit.PER_KEY
    await kit.complete(store, next(job for job in jobs if job.key == "b"))
    assert names(await taken(store, turns=turns, now=at(2))) == ["b"]


@case
async def room_that_a_full_key_leaves_is_used_by_others(store: Store) -> None:
    await limit(store, fair=True, per_key=3, running=10)
    await fill(store, 20, "a")
    for key in "bcd":
        await fill(store, 20, key)
    turns = KeyTurns()
    assert Counter(names(await drain(store, 10, turns))) == {"a": 3, "b": 3, "c": 2, "d": 2}


@case
async def higher_priorities_come_first_and_keys_take_turns_in_each(store: Store) -> None:
    await limit(store, fair=True)
    for priority in (0, 5):
        for key in ("a", "b"):
            await fill(store, 3, key, priority=priority)
    jobs = await drain(store, 2)
    assert [job.priority for job in jobs] == [5] * 6 + [0] * 6
    assert sorted(map(str, names(jobs[:2]))) == ["a", "b"]
    assert sorted(map(str, names(jobs[6:8]))) == ["a", "b"]


@case
async def keys_without_due_jobs_of_these_types_get_no_turn(store: Store) -> None:
    await limit(store, fair=True)
    await fill(store, 3, "a")
    await fill(store, 3, "b", type="other")
    await fill(store, 3, "c", schedule=At(at(60)))
    await fill(store, 3, "d")
    turns = KeyTurns()
    assert names(await taken(store, 4, turns=turns)) == ["a", "d", "a", "d"]
    assert names(await drain(store, 4, turns)) == ["a", "d"]


@case
async def two_workers_share_what_there_is(store: Store) -> None:
    await limit(store, fair=True)
    for key in "abcdefgh":
        await fill(store, 2, key)
    workers = [KeyTurns(), KeyTurns()]
    jobs: list[ClaimedJob] = []
    for _ in range(8):
        for turns in workers:
            jobs += await taken(store, 1, turns=turns)
    assert len({job.id for job in jobs}) == 16


@case
async def hundreds_of_keys_are_served_in_one_round(store: Store) -> None:
    await limit(store, fair=True)
    jobs = [kit.new_job(queue="limited", key=f"k{number % 300}") for number in range(900)]
    await kit.insert(store, *jobs)
    claimed = await drain(store, 64)
    assert len(claimed) == 900
    assert len(set(names(claimed[:300]))) >= 250


@case.only(kit.has_transactions)
async def keys_whose_jobs_others_hold_are_passed_over(store: Store) -> None:
    if store.capabilities.one_writer:
        return
    await limit(store, fair=True)
    held = [await kit.add(store, queue="limited", key=f"a{number}") for number in range(5)]
    (free,) = await fill(store, 1, "b")
    turns = KeyTurns()
    turns.locked["limited"] = False
    async with store.begin() as tx:
        await store.run_in(tx, store.cancel, held, now=at(0))
        jobs = await taken(store, 1, turns=turns)
    assert [job.id for job in jobs] == [free]
