"""How far back the PostgreSQL store looks for expired leases, and that nothing is missed."""

from __future__ import annotations

import psycopg
import pytest

from headway.domain.job import NewJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.jobs.ids import new_id, new_token
from headway.stores.postgres import PostgresStore, reap_bounds
from headway.stores.postgres.reap_bounds import EVERYTHING, SLACK, SLOW, ReapBounds
from tests.stores.postgres.stopped_clock import Watch


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(reap_bounds, "time", watch)
    return watch


def look(reaped: ReapBounds, watch: Watch, seconds: float, *, found_all: bool = True) -> float:
    window, began = reaped.window(), watch.seconds
    watch.seconds += seconds
    reaped.looked(window, began, found_all=found_all)
    return window


def test_as_long_as_it_is_quick_everything_is_looked_at(watch: Watch) -> None:
    reaped = ReapBounds()
    for _ in range(3):
        assert look(reaped, watch, SLOW) == EVERYTHING


def test_after_a_slow_look_the_next_ones_begin_where_it_did(watch: Watch) -> None:
    reaped = ReapBounds()
    look(reaped, watch, 1.0)
    assert look(reaped, watch, 0.25) == 1.0 + SLACK
    watch.seconds += 0.5
    assert look(reaped, watch, 0.25) == 0.75 + SLACK


def test_what_a_full_look_left_over_stays_in_sight(watch: Watch) -> None:
    reaped = ReapBounds()
    look(reaped, watch, 1.0)
    look(reaped, watch, 0.25, found_all=False)
    assert look(reaped, watch, 0.25) == 1.25 + SLACK


def test_slow_looks_take_a_twentieth_of_the_time(watch: Watch) -> None:
    reaped = ReapBounds()
    began = watch.seconds
    look(reaped, watch, 1.0)
    watch.seconds = began + 19.9
    assert look(reaped, watch, 0.0) < EVERYTHING
    watch.seconds = began + 20.0
    assert look(reaped, watch, 0.01) == EVERYTHING
    assert look(reaped, watch, 0.01) == EVERYTHING, "it is quick again"


async def test_a_bounded_look_finds_what_has_just_expired_and_a_full_one_the_rest(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(postgres_url)
    await store.migrate()
    await store.open()
    try:
        jobs = [NewJob(id=new_id(), type="t", queue="q", input="{}") for _ in range(2)]
        await store.run(store.insert, jobs)
        order = ClaimOrder(
            worker="w",
            token=new_token(),
            lease_for=30,
            queues=(QueueShare("q", 2),),
            types=("t",),
            limit=2,
        )
        assert len(await store.run(store.claim, order)) == 2
        with psycopg.connect(postgres_url) as connection:
            for job, ago in zip(jobs, (1, 60), strict=True):
                connection.execute(
                    "update headway.job set lease_until = now() - make_interval(secs => %s)"
                    " where id = %s",
                    (ago, job.id),
                )
        monkeypatch.setattr(ReapBounds, "window", lambda _: SLACK)
        found = await store.run(store.expired, 10)
        assert [job.id for job in found] == [jobs[0].id]
        monkeypatch.undo()
        found = await store.run(store.expired, 10)
        assert [job.id for job in found] == [jobs[1].id, jobs[0].id]
    finally:
        await store.close()
