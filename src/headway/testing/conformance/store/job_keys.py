"""Keys of jobs: kept through everything that happens to a job, and the ways to look at them."""

from __future__ import annotations

from collections.abc import Callable

from headway.domain.due_time import At
from headway.domain.limits.turns import KeyShare
from headway.domain.settlement import Fail, Settlement
from headway.errors import InvalidOption
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import ERROR, LEASE, T0, StoreCases, at
from headway.testing.conformance.store.limited_claims import Q, fill

case = StoreCases("job_keys")

KEYS = (
    "a",
    "Tenant 7",
    "ünïcödé ☃ \U0001f600",
    'with "quotes" and \\',
    "tab\tnew\nline",
    "7" * 500,
)


@case
async def keys_are_kept_as_they_are(store: Store) -> None:
    jobs = [kit.new_job(queue=Q, key=key) for key in (*KEYS, None)]
    await kit.insert(store, *jobs)
    stored = [(await kit.read(store, job.id)).key for job in jobs]
    assert stored == [*KEYS, None]
    claimed = await kit.claim(store, Q)
    assert [job.key for job in claimed] == [*KEYS, None]


@case
async def jobs_of_many_keys_are_inserted_at_once(store: Store) -> None:
    keys = [f"k{number % 7}" if number % 5 else None for number in range(500)]
    jobs = [kit.new_job(queue=Q, key=key) for key in keys]
    await kit.insert(store, *jobs)
    stored = await store.run(store.get, [job.id for job in jobs])
    assert [None if job is None else job.key for job in stored] == keys


@case
async def a_blocked_job_keeps_its_key(store: Store) -> None:
    blocker = await kit.running(store, key="own")
    (id,) = await fill(store, 1, "a", blockers=(blocker.id,))
    await kit.complete(store, blocker)
    job = await kit.claim_one(store, Q, now=at(2))
    assert (job.id, job.key) == (id, "a")


@case.each(kit.SETTLEMENTS)
async def a_job_keeps_its_key_when_it_is_settled(
    store: Store, ending: Callable[[str, str], Settlement]
) -> None:
    job = await kit.running(store, key="a")
    await kit.apply(store, ending(job.id, job.lease.token))
    assert (await kit.read(store, job.id)).key == "a"


@case
async def a_job_keeps_its_key_when_it_is_lost_cancelled_and_retried(store: Store) -> None:
    job = await kit.running(store, queue=Q, key="a", lease_for=1.0)
    await kit.reap(store, now=at(2))
    job = await kit.claim_one(store, Q, now=at(3))
    assert job.key == "a"
    await store.run(store.cancel, [job.id], now=at(4))
    await store.run(store.retry, [job.id], now=at(5))
    job = await kit.claim_one(store, Q, now=at(6))
    assert job.key == "a"
    await kit.apply(store, Fail(job.id, job.lease.token, ERROR), now=at(7))
    await store.run(store.retry, [job.id], input="[1]", now=at(8))
    (job,) = await kit.claim(store, Q, now=at(9))
    assert (job.key, job.input) == ("a", "[1]")


@case
async def a_continuation_has_its_own_key(store: Store) -> None:
    for key in ("b", None):
        job = await kit.running(store, key="a")
        following = kit.successor_of(job, queue=kit.new_queue(), key=key)
        await kit.complete(store, job, successor=following)
        assert (await kit.read(store, following.id)).key == key
        assert (await kit.claim_one(store, following.queue, now=at(2))).key == key


@case
async def a_job_that_a_schedule_started_has_its_key(store: Store) -> None:
    job = await kit.running_scheduled(store, "nightly", T0, key="a")
    assert job.key == "a"
    assert (await kit.read(store, job.id)).key == "a"


@case
async def the_key_of_a_schedule_is_kept(store: Store) -> None:
    definition = kit.definition()
    await kit.put(store, kit.schedule("plain", definition=definition))
    assert (await kit.schedule_of(store, "plain")).definition == definition
    keyed = kit.definition(key="a")
    await kit.put(store, kit.schedule("keyed", definition=keyed))
    stored = (await kit.schedule_of(store, "keyed")).definition
    assert (stored, stored.job.key) == (keyed, "a")


# keys_in_order and keys_in_turn


async def _mixed(store: Store) -> None:
    """Due jobs of three keys and of none, and jobs that no claim gives."""
    for key in ("b", None, "a", "b", "c"):
        await fill(store, 1, key)
    await fill(store, 1, "later", schedule=At(at(60)))
    await fill(store, 1, "other-type", type="other")
    await fill(store, 1, "other-priority", priority=1)
    await fill(store, 1, "other-queue", queue="other")
    await kit.running(store, queue="running", key="runs")


@case
async def keys_in_order_are_those_that_a_claim_would_give(store: Store) -> None:
    await _mixed(store)
    keys = await store.run(store.keys_in_order, kit.order(Q), 0, 10, now=T0)
    assert keys == ["b", None, "a", "b", "c"]
    assert await store.run(store.keys_in_order, kit.order(Q), 0, 2, now=T0) == ["b", None]
    keys = await store.run(store.keys_in_order, kit.order(Q), 1, 10, now=T0)
    assert keys == ["other-priority"]
    keys = await store.run(store.keys_in_order, kit.order(Q), 0, 10, now=at(60))
    assert keys == ["b", None, "a", "b", "c", "later"]
    assert await store.run(store.keys_in_order, kit.order("running"), 0, 10, now=T0) == []


@case
async def keys_in_turn_are_those_that_a_claim_would_give(store: Store) -> None:
    await _mixed(store)
    assert await store.run(store.keys_in_turn, kit.order(Q), 0, 10, now=T0) == ["a", "b", "c"]
    keys = await store.run(store.keys_in_turn, kit.order(Q), 0, 10, now=at(60))
    assert keys == ["a", "b", "c", "later"]
    keys = await store.run(store.keys_in_turn, kit.order(Q, types=("other",)), 0, 10, now=T0)
    assert keys == ["other-type"]
    assert await store.run(store.keys_in_turn, kit.order("running"), 0, 10, now=T0) == []


@case
async def keys_in_turn_begin_and_end_where_they_are_told(store: Store) -> None:
    await _mixed(store)
    order = kit.order(Q)
    assert await store.run(store.keys_in_turn, order, 0, 2, now=T0) == ["a", "b"]
    assert await store.run(store.keys_in_turn, order, 0, 9, after="a", now=T0) == ["b", "c"]
    assert await store.run(store.keys_in_turn, order, 0, 9, after="aa", now=T0) == ["b", "c"]
    assert await store.run(store.keys_in_turn, order, 0, 9, after="c", now=T0) == []
    assert await store.run(store.keys_in_turn, order, 0, 9, upto="b", now=T0) == ["a", "b"]
    assert await store.run(store.keys_in_turn, order, 0, 9, upto="aa", now=T0) == ["a"]
    assert await store.run(store.keys_in_turn, order, 0, 1, without={"a"}, now=T0) == ["b"]
    without = {"a", "b", "x"}
    assert await store.run(store.keys_in_turn, order, 0, 9, without=without, now=T0) == ["c"]


@case
async def keys_come_by_code_points(store: Store) -> None:
    keys = ["!", "A", "Z", "a", "aa", "b", "z", "é", "ﬁ", "\ufffd", "\U0001f600"]
    for key in reversed(keys):
        await fill(store, 1, key)
    order = kit.order(Q)
    assert await store.run(store.keys_in_turn, order, 0, 99, now=T0) == keys
    for place, key in enumerate(keys):
        found = await store.run(store.keys_in_turn, order, 0, 99, after=key, now=T0)
        assert found == keys[place + 1 :]
        found = await store.run(store.keys_in_turn, order, 0, 99, upto=key, now=T0)
        assert found == keys[: place + 1]


@case
async def keys_of_jobs_that_were_lost_too_often_are_left_out(store: Store) -> None:
    await fill(store, 1, "a")
    await kit.claim(store, Q, lease_for=1.0)
    await kit.reap(store, now=at(2))
    await fill(store, 1, "b")
    order = kit.order(Q, most_losses=0)
    assert await store.run(store.keys_in_turn, order, 0, 9, now=at(3)) == ["b"]
    assert await store.run(store.keys_in_order, order, 0, 9, now=at(3)) == ["b"]
    assert await store.run(store.keys_in_turn, kit.order(Q), 0, 9, now=at(3)) == ["a", "b"]


# claim_keys


@case
async def each_key_gives_its_first_jobs_up_to_its_share(store: Store) -> None:
    of_a, of_b = await fill(store, 4, "a"), await fill(store, 4, "b")
    without = await fill(store, 4)
    await fill(store, 4, "c")
    shares = [KeyShare("b", 1), KeyShare("a", 3), KeyShare(None, 2), KeyShare("none", 5)]
    order = kit.order(Q, limit=10)
    jobs = await store.run(store.claim_keys, order, 0, shares, now=T0)
    assert {job.id for job in jobs} == {*of_a[:3], of_b[0], *without[:2]}
    (job, *_) = jobs
    assert job.lease.until == at(LEASE)
    assert {job.lease.token for job in jobs} == {order.token}
    assert (await kit.read(store, job.id)).lease == job.lease


@case
async def a_claim_of_keys_gives_no_more_than_its_limit(store: Store) -> None:
    for key in ("a", "b", None):
        await fill(store, 4, key)
    shares = [KeyShare("a", 2), KeyShare("b", 2), KeyShare(None, 2)]
    jobs = await store.run(store.claim_keys, kit.order(Q, limit=3), 0, shares, now=T0)
    assert len(jobs) == 3
    assert len(await store.run(store.claim_keys, kit.order(Q, limit=99), 0, shares, now=T0)) <= 6


@case
async def a_claim_of_keys_gives_what_a_claim_would_give(store: Store) -> None:
    await _mixed(store)
    named = ("a", "b", "c", "later", "other-type", "other-priority", "other-queue", "runs")
    shares = [KeyShare(key, 9) for key in (*named, None)]
    jobs = await store.run(store.claim_keys, kit.order(Q, limit=99), 0, shares, now=T0)
    assert [job.key for job in jobs] == ["b", None, "a", "b", "c"]
    assert await store.run(store.claim_keys, kit.order(Q, limit=99), 0, shares, now=T0) == []


@case
async def a_claim_of_keys_refuses_a_bad_lease(store: Store) -> None:
    await fill(store, 1, "a")
    with raises(InvalidOption):
        order = kit.order(Q, lease_for=0)
        await store.run(store.claim_keys, order, 0, [KeyShare("a", 1)], now=T0)


@case.only(kit.has_transactions)
async def a_claim_of_keys_passes_over_jobs_of_an_open_transaction(store: Store) -> None:
    if store.capabilities.one_writer:
        return
    first, second, without = (
        *await fill(store, 2, "a"),
        *await fill(store, 1),
    )
    shares = [KeyShare("a", 1), KeyShare(None, 1)]
    async with store.begin() as tx:
        await store.run_in(tx, store.cancel, [first, without], now=T0)
        jobs = await store.run(store.claim_keys, kit.order(Q, limit=9), 0, shares, now=T0)
    assert [job.id for job in jobs] == [second]
