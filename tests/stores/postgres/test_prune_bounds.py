"""What the PostgreSQL store remembers between prunings, and how it finds what it left behind."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headway.domain.job import JobState, NewJob
from headway.domain.orders import ClaimOrder, PruneRule, QueueShare
from headway.domain.settlement import Complete
from headway.jobs.ids import new_id, new_token
from headway.stores.postgres import PostgresStore, prune_bounds
from headway.stores.postgres.prune_bounds import EVERYTHING, LOOK_AT_ALL_EVERY, PruneBounds
from tests.stores.postgres.stopped_clock import Watch

RULE = PruneRule(state=JobState.COMPLETED, older_than=0.0)
OTHER = PruneRule(state=JobState.FAILED, older_than=0.0)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(prune_bounds, "time", watch)
    return watch


def test_the_next_look_begins_where_the_last_one_ended(watch: Watch) -> None:
    pruned = PruneBounds()
    assert pruned.bound(RULE) == EVERYTHING
    pruned.advance(RULE, NOON, 0.01)
    assert pruned.bound(RULE) == NOON
    assert pruned.bound(OTHER) == EVERYTHING
    pruned.advance(RULE, None, 0.01)
    assert pruned.bound(RULE) == NOON


def test_everything_is_looked_at_now_and_then(watch: Watch) -> None:
    pruned = PruneBounds()
    pruned.advance(RULE, NOON, 0.01)
    watch.seconds += LOOK_AT_ALL_EVERY
    assert pruned.bound(RULE) == EVERYTHING
    pruned.advance(RULE, NOON, 10.0)
    watch.seconds += 199
    assert pruned.bound(RULE) == NOON
    watch.seconds += 1
    assert pruned.bound(RULE) == EVERYTHING


async def test_what_was_left_behind_is_pruned_later(postgres_url: str, watch: Watch) -> None:
    store = PostgresStore(postgres_url)
    await store.migrate()
    await store.open()
    try:
        first, second = await _completed(store), await _completed(store)
        async with store.begin() as tx:
            await tx.execute("select from headway.job where id = %s for update", (first,))
            assert await store.run(store.prune, RULE, 10) == 1
        assert await store.run(store.prune, RULE, 10) == 0
        assert await store.run(store.get, [second]) == [None]
        watch.seconds += LOOK_AT_ALL_EVERY
        assert await store.run(store.prune, RULE, 10) == 1
        assert await store.run(store.get, [first]) == [None]
    finally:
        await store.close()


async def _completed(store: PostgresStore) -> str:
    job = NewJob(id=new_id(), type="t", input="{}")
    await store.run(store.insert, [job])
    order = ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=30.0,
        queues=(QueueShare("default", 1),),
        types=("t",),
        limit=1,
    )
    await store.run(store.claim, order)
    await store.run(store.settle, [Complete(job.id, order.token)])
    return job.id
