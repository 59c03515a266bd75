"""hold and let_go: no job of a queue or of a key is started until then."""

from __future__ import annotations

from headway.domain.due_time import After, At
from headway.domain.job import ClaimedJob
from headway.domain.limits.permits import Limit
from headway.domain.settlement import Release
from headway.limits import changes
from headway.limits.key_claim import KeyTurns
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases, at
from headway.testing.conformance.store.limited_claims import (
    Q,
    fill,
    limit,
    state_of,
    take,
    taken,
)

case = StoreCases("holds")


async def hold(store: Store, seconds: float, key: str | None = None, queue: str = Q) -> None:
    until = await store.run(changes.hold, store, queue, key, After(seconds=seconds), now=T0)
    assert until >= at(seconds)


@case
async def a_held_queue_gives_nothing_until_the_end_of_the_hold(store: Store) -> None:
    for limits in ({}, {"running": 5}, {"fair": True}):
        queue = kit.new_queue()
        await limit(store, queue, **limits)
        await fill(store, 3, "a", queue=queue)
        await hold(store, 20, queue=queue)
        turns = KeyTurns()
        claimed = await store.run(store.claim, kit.order(queue, limit=9), now=T0)
        assert (list(claimed), set(claimed.limited)) == ([], {queue})
        answer = await take(store, queue=queue, turns=turns)
        assert answer.jobs == []
        assert answer.wait is not None
        assert (answer.wait.limit, answer.wait.again_in) == (Limit.HELD, 20.0)
        assert await taken(store, queue=queue, turns=turns, now=at(20) - MICROSECOND) == []
        assert len(await taken(store, queue=queue, turns=turns, now=at(20))) == 3
        assert (await state_of(store, queue)).held_until is None


@case
async def a_queue_without_limits_is_as_before_after_a_hold(store: Store) -> None:
    await fill(store, 3)
    await hold(store, 20)
    answer = await take(store, 1, now=at(20))
    assert len(answer.jobs) == 1
    assert not (await state_of(store)).limited
    assert len(await kit.claim(store, Q, now=at(20))) == 2


@case
async def a_held_key_gives_nothing_and_the_others_do(store: Store) -> None:
    for limits in ({}, {"running": 50}, {"fair": True}, {"per_key": 50}):
        queue = kit.new_queue()
        await limit(store, queue, **limits)
        for key in ("a", "b", None):
            await fill(store, 3, key, queue=queue)
        await hold(store, 20, "a", queue)
        turns = KeyTurns()
        jobs: list[ClaimedJob] = []
        while more := await taken(store, queue=queue, turns=turns):
            jobs += more
        assert sorted(str(job.key) for job in jobs) == ["None"] * 3 + ["b"] * 3
        answer = await take(store, queue=queue, turns=turns)
        assert answer.wait is not None
        assert (answer.wait.limit, answer.wait.again_in) == (Limit.HELD, 20.0)
        assert len(await taken(store, queue=queue, turns=turns, now=at(20))) == 3
        assert (await state_of(store, queue)).held_keys == {}


@case
async def a_longer_hold_stays(store: Store) -> None:
    await hold(store, 60)
    await hold(store, 20)
    assert (await state_of(store)).held_until == at(60)
    await hold(store, 90)
    assert (await state_of(store)).held_until == at(90)
    await hold(store, 60, "a")
    await hold(store, 20, "a")
    await hold(store, 30, "b")
    assert (await state_of(store)).held_keys == {"a": at(60), "b": at(30)}
    await store.run(changes.hold, store, Q, "a", At(at(70)), now=T0)
    assert (await state_of(store)).held_keys["a"] == at(70)


@case
async def holds_that_are_over_are_forgotten(store: Store) -> None:
    await hold(store, 10, "a")
    await store.run(changes.hold, store, Q, "b", After(seconds=10), now=at(10))
    assert (await state_of(store)).held_keys == {"b": at(20)}


@case
async def a_hold_ends_early_when_it_is_let_go(store: Store) -> None:
    await fill(store, 3, "a")
    await hold(store, 20)
    await hold(store, 20, "a")
    before = await store.run(changes.let_go, store, Q)
    assert before.held_until == at(20)
    state = await state_of(store)
    assert (state.held_until, state.held_keys) == (None, {})
    assert len(await kit.claim(store, Q)) == 3


@case
async def a_job_that_holds_its_queue_is_given_back_at_its_place(store: Store) -> None:
    await limit(store, running=5)
    ids = await fill(store, 3)
    (job,) = await taken(store, 1)
    await kit.apply(store, Release(job.id, job.lease.token))
    await hold(store, 20)
    assert [job.id for job in await taken(store, now=at(20))] == ids
    assert (await kit.read(store, ids[0])).attempts == 0


@case
async def the_wait_of_held_keys_is_that_for_the_first_to_be_let_go(store: Store) -> None:
    await limit(store, per_key=5)
    for key, seconds in (("a", 30), ("b", 10), ("c", 20)):
        await fill(store, 1, key)
        await hold(store, seconds, key)
    answer = await take(store)
    assert answer.wait is not None
    assert answer.wait.again_in == 10
    (job,) = await taken(store, now=at(10))
    assert job.key == "b"


@case
async def a_full_key_beside_a_held_one_is_waited_for_too(store: Store) -> None:
    await limit(store, per_key=1)
    await fill(store, 2, "full")
    await fill(store, 1, "held")
    await hold(store, 20, "held")
    (job,) = await taken(store)
    answer = await take(store)
    assert answer.wait is not None
    assert (answer.wait.limit, answer.wait.again_in) == (Limit.PER_KEY, 20.0)
    assert (await state_of(store)).refused
    await kit.complete(store, job)
    assert [job.key for job in await taken(store, now=at(2))] == ["full"]


@case
async def a_fair_queue_can_be_held_again(store: Store) -> None:
    await limit(store, fair=True)
    await fill(store, 5, "a")
    turns = KeyTurns()
    await taken(store, 1, turns=turns)
    await hold(store, 20)
    assert await taken(store, 1, turns=turns) == []
    assert len(await taken(store, 1, turns=turns, now=at(20))) == 1
    await store.run(changes.hold, store, Q, None, After(seconds=20), now=at(20))
    assert await taken(store, 1, turns=turns, now=at(21)) == []
    assert (await state_of(store)).held_until == at(40)


@case
async def a_hold_of_no_time_lasts_a_tenth_of_a_second(store: Store) -> None:
    await fill(store, 1)
    for over in (After(), At(at(-60))):
        assert await store.run(changes.hold, store, Q, None, over, now=T0) == at(0.1)
    assert await taken(store, now=at(0.1) - MICROSECOND) == []
    assert len(await taken(store, now=at(0.1))) == 1
