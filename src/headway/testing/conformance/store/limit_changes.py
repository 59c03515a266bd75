"""Limits that workers declare, and that operators set over them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from headway.domain.due_time import After
from headway.domain.limits.queue_limits import LimitsOverride, QueueLimits
from headway.domain.limits.rate import Rate
from headway.domain.queries import ALIVE_FOR
from headway.limits import changes
from headway.limits.changes import declare, is_declared
from headway.limits.key_claim import KeyTurns
from headway.ports.store import Store
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases
from headway.testing.conformance.store.limited_claims import Q, fill, state_of, take, taken
from headway.testing.conformance.store.workers import worker

case = StoreCases("limit_changes")

OLD = QueueLimits(running=1)
NEW = QueueLimits(running=2, rate=Rate(9, per=60, burst=9))
NEWER = QueueLimits(fair=True, weights={"a": 2})


async def deploy(
    store: Store,
    id: str,
    declared: Mapping[str, QueueLimits] | QueueLimits,
    now: datetime = T0,
) -> list[str]:
    """A worker with this code starts, or looks again; the queues that changed."""
    if isinstance(declared, QueueLimits):
        declared = {Q: declared}
    fingerprints = {name: each.fingerprint for name, each in declared.items()}
    record = worker(id=id, limits=fingerprints)
    return await store.run(declare, store, record, declared, now=now)


async def override(store: Store, change: LimitsOverride | None) -> None:
    await store.run(changes.override, store, Q, change, now=T0)


async def effective(store: Store) -> QueueLimits:
    return (await state_of(store)).effective


# declare


@case
async def declared_limits_are_stored(store: Store) -> None:
    declared = {Q: NEW, "other": NEWER}
    assert not await store.run(is_declared, store, declared)
    assert await deploy(store, "w", declared) == sorted(declared)
    assert await store.run(is_declared, store, declared)
    state = await state_of(store)
    assert state.limits is not None
    assert (state.limits.declared, state.limits.replaced) == (NEW, ())
    assert state.limited
    (seen,) = await store.run(store.workers)
    assert seen.limits == {Q: NEW.fingerprint, "other": NEWER.fingerprint}
    assert not await store.run(is_declared, store, {Q: OLD})


@case
async def limits_that_are_stored_are_not_written_again(store: Store) -> None:
    await deploy(store, "w", OLD)
    before = await state_of(store)
    assert await deploy(store, "w2", OLD, kit.at(9)) == []
    assert await state_of(store) == before


@case
async def no_limits_for_a_queue_of_which_nothing_is_kept_need_no_declaration(store: Store) -> None:
    assert await store.run(is_declared, store, {Q: QueueLimits()})
    assert not await store.run(is_declared, store, {Q: OLD})


@case
async def a_changed_declaration_replaces_the_stored_one(store: Store) -> None:
    await deploy(store, "old", OLD)
    assert await deploy(store, "new", NEW, kit.at(1)) == [Q]
    assert await deploy(store, "newer", NEWER, kit.at(2)) == [Q]
    state = await state_of(store)
    assert state.limits is not None
    assert state.limits.declared == NEWER
    assert state.limits.replaced == (NEW.fingerprint, OLD.fingerprint)


@case
async def a_rolling_deploy_does_not_flip(store: Store) -> None:
    await deploy(store, "old", OLD)
    for seconds in range(1, 60, 20):
        assert await deploy(store, "new", NEW, kit.at(seconds)) == ([Q] if seconds == 1 else [])
        assert await deploy(store, "old", OLD, kit.at(seconds + 1)) == []
        assert await effective(store) == NEW


@case
async def a_deploy_that_was_rolled_back_brings_the_old_limits_back(store: Store) -> None:
    await deploy(store, "old", OLD)
    await deploy(store, "new", NEW, kit.at(1))
    dead = kit.at(1) + ALIVE_FOR
    await deploy(store, "old", OLD, dead - MICROSECOND)
    assert await effective(store) == NEW
    assert await deploy(store, "old", OLD, dead) == [Q]
    assert await effective(store) == OLD
    state = await state_of(store)
    assert state.limits is not None
    assert state.limits.replaced == ()


@case
async def limits_are_taken_away_by_a_declaration_without_any(store: Store) -> None:
    await deploy(store, "old", OLD)
    await fill(store, 3)
    assert await deploy(store, "new", QueueLimits(), kit.at(1)) == [Q]
    assert not (await state_of(store)).limited
    assert len(await kit.claim(store, Q)) == 3


@case
async def a_declaration_keeps_the_pause_the_holds_and_the_override(store: Store) -> None:
    await deploy(store, "old", OLD)
    await override(store, LimitsOverride(per_key=7))
    await store.run(store.pause, Q, True, now=T0)
    await store.run(changes.hold, store, Q, "a", After(seconds=9), now=T0)
    await deploy(store, "new", NEW, kit.at(1))
    state = await state_of(store)
    assert (state.paused_at, dict(state.held_keys)) == (T0, {"a": kit.at(9)})
    assert state.effective == QueueLimits(running=2, per_key=7, rate=NEW.rate)


@case
async def of_8_workers_that_start_at_once_all_declare_the_same(store: Store) -> None:
    declared = {f"q{number}": NEW for number in range(5)}
    answers = await asyncio.gather(*[deploy(store, f"w{n}", declared) for n in range(8)])
    assert sorted(name for answer in answers for name in answer) == sorted(declared)
    states = await store.run(store.queue_states)
    assert [state.name for state in states] == sorted(declared)
    kept = [state.limits for state in states if state.limits is not None]
    assert [(each.declared, each.replaced) for each in kept] == [(NEW, ())] * 5


# override


@case
async def an_override_wins_field_by_field(store: Store) -> None:
    await deploy(store, "w", NEW)
    await override(store, LimitsOverride(running=10))
    assert await effective(store) == QueueLimits(running=10, rate=NEW.rate)
    await override(store, LimitsOverride(per_key=3))
    assert await effective(store) == QueueLimits(running=10, per_key=3, rate=NEW.rate)
    await override(store, LimitsOverride(rate=None, running=4))
    assert await effective(store) == QueueLimits(running=4, per_key=3)
    state = await state_of(store)
    assert state.limits is not None
    assert state.limits.declared == NEW
    assert state.limits.override == LimitsOverride(running=4, per_key=3, rate=None)


@case
async def an_override_that_is_taken_back_leaves_the_declared_limits(store: Store) -> None:
    await deploy(store, "w", NEW)
    await override(store, LimitsOverride(running=10, rate=None))
    await override(store, None)
    assert await effective(store) == NEW
    state = await state_of(store)
    assert state.limits is not None
    assert state.limits.override is None


@case
async def an_override_of_a_queue_without_limits_sets_some(store: Store) -> None:
    await fill(store, 3)
    await override(store, LimitsOverride(running=1))
    assert len(await taken(store)) == 1
    await override(store, None)
    assert len(await kit.claim(store, Q)) == 2


@case
async def an_override_holds_for_the_next_claim(store: Store) -> None:
    await deploy(store, "w", QueueLimits(running=5, fair=True))
    await fill(store, 20, "a")
    turns = KeyTurns()
    assert len(await taken(store, turns=turns)) == 5
    await override(store, LimitsOverride(running=7))
    assert len(await taken(store, turns=turns)) == 2
    await override(store, LimitsOverride(running=None))
    answer = await take(store, 4, turns=turns)
    assert (len(answer.jobs), answer.permits, answer.limited) == (4, False, True)
    await override(store, LimitsOverride(running=12))
    assert len(await taken(store, turns=turns)) == 1
