"""queue_state, save_queue and the like: what is kept of queues."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from msgspec import structs

from headway.domain.due_time import After
from headway.domain.limits.queue_limits import (
    LimitsOverride,
    QueueLimits,
    QueueState,
    StoredLimits,
)
from headway.domain.limits.rate import Rate
from headway.domain.queries import QueueRecord
from headway.limits import changes
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases, at
from headway.testing.conformance.store.limited_claims import Q, fill, limit, state_of, take
from headway.testing.conformance.store.schedules import Undo

case = StoreCases("queue_states")

FULL = QueueState(
    name=Q,
    limits=StoredLimits(
        declared=QueueLimits(
            running=40,
            per_key=2,
            rate=Rate(90, per=60, burst=10),
            fair=True,
            weights={"ténant ☃ \U0001f600": 7, "b": 1},
        ),
        replaced=("1234", "abcd"),
        override=LimitsOverride(running=None, rate=Rate(1, per=0.5)),
    ),
    paid_until=at(7) + MICROSECOND,
    held_until=at(8) + MICROSECOND,
    held_keys={"a": at(9) + MICROSECOND, 'quoted "ü"': at(10)},
    refused=True,
)


@case
async def nothing_is_kept_of_a_queue_that_nobody_touched(store: Store) -> None:
    await fill(store, 1)
    assert await store.run(store.queue_state, Q) is None
    assert await store.run(store.queue_states) == []


@case
async def a_state_is_kept_as_it_is(store: Store) -> None:
    await store.run(store.save_queue, FULL)
    assert await state_of(store) == FULL
    assert (await state_of(store)).effective == QueueLimits(
        per_key=2,
        rate=Rate(1, per=0.5),
        fair=True,
        weights={"ténant ☃ \U0001f600": 7, "b": 1},
    )
    plain = QueueState(name=Q)
    await store.run(store.save_queue, plain)
    assert await state_of(store) == plain


@case
async def states_come_by_name(store: Store) -> None:
    await store.run(store.save_queue, FULL)
    await store.run(store.pause, "z", True, now=T0)
    other = QueueState(name="a", limits=StoredLimits(declared=QueueLimits(running=1)))
    await store.run(store.save_queue, other)
    paused = QueueState(name="z", paused_at=T0)
    assert await store.run(store.queue_states) == [other, FULL, paused]
    names = [QueueRecord("a", None), QueueRecord(Q, None), QueueRecord("z", T0)]
    assert await store.run(store.managed_queues) == names
    assert await store.run(store.queues) == names


@case
async def a_pause_and_the_rest_of_a_state_are_apart(store: Store) -> None:
    await store.run(store.save_queue, FULL)
    await store.run(store.pause, Q, True, now=at(1))
    assert await state_of(store) == structs.replace(FULL, paused_at=at(1))
    await store.run(store.save_queue, structs.replace(FULL, refused=False, paused_at=None))
    assert await state_of(store) == structs.replace(FULL, refused=False, paused_at=at(1))
    await store.run(store.pause, Q, False, now=at(2))
    assert await state_of(store) == structs.replace(FULL, refused=False)


@case
async def running_keys_counts_running_jobs_only(store: Store) -> None:
    await fill(store, 3, "a")
    await fill(store, 2)
    await fill(store, 1, "other", queue="other")
    assert dict(await store.run(store.running_keys, Q)) == {}
    jobs = await kit.claim(store, Q, limit=4)
    assert dict(await store.run(store.running_keys, Q)) == {"a": 3, None: 1}
    await kit.complete(store, jobs[0])
    await kit.claim(store, "other")
    assert dict(await store.run(store.running_keys, Q)) == {"a": 2, None: 1}


@case
async def priorities_are_those_of_pending_jobs(store: Store) -> None:
    assert await store.run(store.priorities, Q) == []
    for priority in (0, 5, -3, 5):
        await fill(store, 1, priority=priority)
    await fill(store, 1, queue="other", priority=7)
    assert await store.run(store.priorities, Q) == [5, 0, -3]
    await kit.claim(store, Q, limit=2)
    assert await store.run(store.priorities, Q) == [0, -3]


# transactions


@case.only(kit.has_transactions)
async def a_rollback_leaves_no_trace_of_limits(store: Store) -> None:
    await limit(store, running=2, rate=Rate(10, per=60, burst=10))
    await fill(store, 5, "a")
    before = await state_of(store), await kit.snapshot(store)
    with raises(Undo):
        async with store.begin() as tx:
            await store.run_in(tx, changes.hold, store, "new", None, After(seconds=9), now=T0)
            await store.run_in(tx, changes.spend, store, [(Q, 3)], now=T0)
            await store.run_in(tx, changes.override, store, Q, LimitsOverride(running=9), now=T0)
            await store.run_in(tx, changes.hold, store, Q, "a", After(seconds=9), now=T0)
            raise Undo
    assert (await state_of(store), await kit.snapshot(store)) == before
    state = await store.run(store.queue_state, "new")
    assert state in (None, QueueState(name="new"))
    answer = await take(store)
    assert len(answer.jobs) == 2


@case.only(kit.has_transactions)
async def nobody_sees_limits_before_the_commit(store: Store) -> None:
    await fill(store, 2)
    async with store.begin() as tx:
        await store.run_in(tx, changes.override, store, Q, LimitsOverride(running=1), now=T0)
        seen = await store.run(store.queue_state, Q)
        assert seen is None or not seen.limited
        assert not any(each.limited for each in await store.run(store.queue_states))
        own = await store.run_in(tx, store.queue_state, Q)
        assert own is not None
        assert own.effective.running == 1
    assert (await state_of(store)).effective.running == 1


@case.only(kit.has_transactions)
async def a_change_waits_for_a_change_in_an_open_transaction(store: Store) -> None:
    async with store.begin() as tx:
        await store.run_in(tx, changes.override, store, Q, LimitsOverride(running=1), now=T0)
        other = asyncio.create_task(
            store.run(changes.override, store, Q, LimitsOverride(per_key=2), now=T0)
        )
        await asyncio.sleep(0.2)
        assert not other.done()
    before, after = await other
    assert before.effective == QueueLimits(running=1)
    assert after.effective == QueueLimits(running=1, per_key=2)
    assert await state_of(store) == after


@case.only(kit.has_transactions)
async def a_change_that_waited_for_a_rollback_is_kept(store: Store) -> None:
    await limit(store, running=5)
    changed = asyncio.Event()

    async def other() -> None:
        await changed.wait()
        await store.run(changes.override, store, Q, LimitsOverride(per_key=2), now=T0)

    waiting = asyncio.create_task(other())
    with raises(Undo):
        async with store.begin() as tx:
            await store.run_in(tx, changes.override, store, Q, LimitsOverride(running=1), now=T0)
            changed.set()
            await asyncio.sleep(0.2)
            raise Undo
    await waiting
    assert (await state_of(store)).effective == QueueLimits(running=5, per_key=2)


@case
async def of_changes_of_a_new_queue_at_once_all_are_kept(store: Store) -> None:
    for _ in range(5):
        queue = kit.new_queue()
        hold = [
            store.run(changes.hold, store, queue, f"k{number}", After(seconds=60), now=T0)
            for number in range(8)
        ]
        override = [
            store.run(changes.override, store, queue, change, now=T0)
            for change in (LimitsOverride(running=1), LimitsOverride(per_key=2))
        ]
        await asyncio.gather(*hold, *override)
        state = await state_of(store, queue)
        assert len(state.held_keys) == 8
        assert state.effective == QueueLimits(running=1, per_key=2)
        assert set(state.held_keys.values()) == {T0 + timedelta(seconds=60)}
