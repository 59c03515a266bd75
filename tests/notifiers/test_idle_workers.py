"""How often an idle worker looks, with and without notifications."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway import Headway, WorkerSettings
from headway.domain.events import WorkerRecovered, WorkerTroubled
from headway.notifiers.local import LocalNotifier
from headway.notifiers.none import NoNotifier
from headway.notifiers.postgres import PostgresNotifier
from headway.notifiers.redis import RedisNotifier
from headway.notifiers.sqlite import SqliteNotifier
from headway.ports.notifications import EVERYTHING, Interest
from headway.ports.notifier import Disposer, Listener, NotifierStatus, StatusListener
from headway.runtime.poll_interval import polling_saved
from headway.stores.memory import MemoryStore
from headway.stores.sqlite import SqliteStore
from tests.notifiers.test_wakeups import Counting
from tests.support.worker_harness import PATIENCE, WorkerHarness


class Moody(LocalNotifier):
    """Says what a test has it say."""

    say: StatusListener

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        on_status: StatusListener = lambda _: None,
        **others: Any,
    ) -> Disposer:
        self.say = on_status
        return await super().subscribe(listener, interest, on_status=on_status, **others)


@pytest.mark.parametrize(
    ("store", "notifier", "saved"),
    [
        (MemoryStore(), None, 1.0),
        (MemoryStore(), NoNotifier(), 1.0),
        (MemoryStore(), LocalNotifier(), 3.0),
        (SqliteStore("shop.db"), LocalNotifier(), 1.0),
        (SqliteStore("shop.db"), SqliteNotifier("shop.db"), 3.0),
        (SqliteStore("shop.db"), RedisNotifier("redis://cache"), 1.5),
        (SqliteStore("shop.db"), PostgresNotifier("postgresql://db/shop"), 3.0),
    ],
)
def test_the_more_is_heard_the_less_is_looked(store: Any, notifier: Any, saved: float) -> None:
    assert polling_saved(store, notifier) == saved


def test_polling_slows_within_bounds() -> None:
    assert WorkerSettings().polling_when_told(3.0) == 3.0
    assert WorkerSettings(poll_every=60).polling_when_told(3.0) == 65.0
    assert WorkerSettings(poll_when_told=3600).polling_when_told(1.0) == 3600


async def test_a_worker_looks_more_often_while_its_notifier_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headway.worker.claims.claim_timing.SHORTEST_POLL", 3600.0)
    store, notifier = Counting(), Moody()
    harness = WorkerHarness(store)
    harness.notifier = notifier
    await store.open()

    @harness.job
    async def work() -> None: ...

    async def rests() -> int:
        """Wait until it looks no more; how often it has looked until then."""
        before = -1
        async with asyncio.timeout(PATIENCE):
            while store.claims != before:
                before = store.claims
                await asyncio.sleep(0.3)
        return before

    async with harness.working(poll_every=0.05, poll_when_told=3600.0):
        looks = await rests()
        for _ in range(2):
            notifier.say(NotifierStatus(connected=False, reason="the server is gone"))
        async with asyncio.timeout(PATIENCE):
            while store.claims < looks + 5:
                await asyncio.sleep(0.01)
        notifier.say(NotifierStatus(connected=True))
        await rests()
    troubles = harness.seen(WorkerTroubled, part="notifier")
    assert [trouble.error for trouble in troubles] == ["the server is gone"]
    assert len(harness.seen(WorkerRecovered, part="notifier")) == 1
    await store.close()


async def test_who_waits_looks_at_once_when_the_notifier_goes_away() -> None:
    store, notifier = MemoryStore(), Moody()
    app, other = Headway(store, notifier=notifier), Headway(store, notifier="none")

    @app.job
    async def work() -> None: ...

    async with app, other:
        sequence = await app.start(work.request())
        waiting = asyncio.create_task(sequence.result(timeout=30))
        await asyncio.sleep(0.05)
        await other.cancel(sequence.id)
        notifier.say(NotifierStatus(connected=False))
        _, unfinished = await asyncio.wait({waiting}, timeout=5)
        assert not unfinished
        assert "was cancelled" in str(waiting.exception())
