"""Prometheus in this process: what is counted, what the store is asked, and at what price."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from headway import After, Every, Headway, Job, Rate
from headway.domain import events
from headway.domain.limits.queue_limits import LimitsOverride, QueueState
from headway.limits.changes import hold, override
from headway.observers import store_gauges
from headway.observers.counters import COUNTERS
from headway.observers.prometheus import (
    ObserverCollector,
    PrometheusObserver,
    QueueCollector,
    exposition,
)
from headway.observers.store_gauges import StoreGaugeReader
from tests.support.observed_app import ObservedApp

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = DOCS / "grafana" / "headway.json"
GUIDE = DOCS / "guides" / "monitoring.md"
TICK = datetime(2030, 1, 1, tzinfo=UTC)


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def test_what_runs_is_shown_and_gone_when_it_ended() -> None:
    observer = PrometheusObserver(prefix="shop")
    observed = ObservedApp("memory://", [observer])
    registry = CollectorRegistry()
    registry.register(observer)
    async with observed.app as app:
        job = await app.start(observed.hold.request(30.0))
        async with observed.working(concurrency=3, grace=0.0):
            await observed.until(events.AttemptStarted)
            found = samples(generate_latest(registry))
            assert found["shop_worker_running", "hold"] == 1
            assert found["shop_worker_idle", "hold"] == 2
        found = samples(generate_latest(registry))
        assert found["shop_worker_running", "hold"] == found["shop_worker_idle", "hold"] == 0
        assert found["shop_jobs_released_total", "default", "hold"] == 1
        assert (await app.get(job)).state == "pending"


async def test_ticks_are_counted_by_the_job_type_and_not_by_the_schedule() -> None:
    observer = PrometheusObserver()
    observed = ObservedApp("memory://", [observer])
    timetable = Every(hours=1, anchor=datetime.now(UTC) + timedelta(seconds=0.2))
    async with observed.app as app:
        for name in ("a", "b"):
            await app.schedules.put(name, timetable, observed.write.request(name))
        async with observed.working():
            await observed.until(events.ScheduleFired, 2)
    for reason, replaced in (("overlap", False), ("missed", True), ("missed", False)):
        observer.observe(
            events.ScheduleSkipped("a", "write", "letters", TICK, reason, 3, replaced=replaced)
        )
    found = samples(exposition(observer)()[1])
    write = ("letters", "write")
    assert found["headway_ticks_fired_total", *write] == 2
    assert found["headway_tick_late_seconds_count", *write] == 2
    assert 0 < found["headway_tick_late_seconds_sum", *write] < 2
    for reason in ("overlap", "missed", "replaced"):
        assert found["headway_ticks_skipped_total", "letters", reason, "write"] == 3


async def test_limits_are_counted_by_queue_and_never_by_key() -> None:
    observer = PrometheusObserver()
    observer.observe_all(
        [
            events.ClaimRefused("w", "letters", "running", None),
            events.ClaimRefused("w", "letters", "rate", 0.5),
            events.ClaimRefused("w", "letters", "rate", 0.5),
            events.PermitsGranted("w", "letters", (0.5, 0.25)),
            events.QueueHeld("letters", "tenant-7", TICK, "1", "write"),
            events.QueueHeld("letters", None, TICK, "1", "write"),
        ]
    )
    _, text = exposition(observer)()
    found = samples(text)
    assert found["headway_claims_refused_total", "running", "letters"] == 1
    assert found["headway_claims_refused_total", "rate", "letters"] == 2
    assert found["headway_permit_wait_seconds_count", "letters"] == 2
    assert found["headway_permit_wait_seconds_sum", "letters"] == 0.75
    assert found["headway_queue_holds_total", "letters", "write"] == 2
    assert "tenant-7" not in text.decode()


async def test_permits_are_asked_of_the_store(observed: ObservedApp) -> None:
    app = observed.app
    store = app.store
    app.queue("default", running=3)
    await store.run(override, store, "letters", LimitsOverride(rate=Rate(1, per=60)))
    await store.run(hold, store, "letters", None, After(seconds=60))
    over = QueueState(name="over", held_until=datetime(2020, 1, 1, tzinfo=UTC))
    await store.run(store.save_queue, over)
    await app.start_many([observed.hold.request(30.0)] * 2)
    async with observed.working(grace=0.0):
        await observed.until(events.AttemptStarted, 2, type="hold")
        page = exposition(QueueCollector(store))
        found = samples((await asyncio.to_thread(page))[1])
    assert found["headway_permits_used", "default"] == 2
    assert found["headway_permits_free", "default"] == 1
    assert ("headway_permits_used", "letters") not in found, "a rate has no permits"
    assert found["headway_queue_held", "letters"] == 1
    assert ("headway_queue_held", "over") not in found


async def test_queues_are_asked_of_the_store(observed: ObservedApp) -> None:
    """Also what the store alone knows: jobs of types that nobody runs, and other queues."""
    app = observed.app
    for _ in range(3):
        await app.start(observed.write.request("dear"))
    await app.start(observed.send.request().using(blockers=(observed.write.request("sir"),)))
    page = exposition(QueueCollector(app.store), ObserverCollector(app.observers))
    kind, text = await asyncio.to_thread(page)
    assert kind.startswith("text/plain")
    found = samples(text)
    assert found["headway_store_up",] == 1
    assert found["headway_jobs", "letters", "pending", "write"] == 4
    assert found["headway_jobs", "default", "blocked", "send"] == 1
    assert 0 <= found["headway_oldest_waiting_seconds", "letters", "write"] < 60
    assert ("headway_oldest_waiting_seconds", "default", "send") not in found
    assert found["headway_workers",] == 0


async def test_the_store_is_not_asked_more_often_than_need_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Headway("memory://")
    asked: list[int] = []
    look = store_gauges.read_gauges

    def counted(store: Any) -> Any:
        asked.append(1)
        return (yield from look(store))

    monkeypatch.setattr(store_gauges, "read_gauges", counted)
    async with app:
        reader = StoreGaugeReader(app.store)
        found = [await asyncio.to_thread(reader.read) for _ in range(20)]
    assert len(asked) == 1
    assert len({id(each) for each in found}) == 1


async def test_a_store_that_does_not_answer_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_gauges, "TIMEOUT", 0.1)
    answered = threading.Event()
    app = Headway("memory://")
    async with app:
        run_sync = app.store.run_sync

        def late(*arguments: Any) -> Any:
            answered.wait(20)
            return run_sync(*arguments)

        monkeypatch.setattr(app.store, "run_sync", late)
        page = exposition(QueueCollector(app.store))
        assert samples((await asyncio.to_thread(page))[1])["headway_store_up",] == 0
        asking = [each for each in threading.enumerate() if each.name == "headway-store-gauges"]
        assert samples((await asyncio.to_thread(page))[1])["headway_store_up",] == 0
        again = [each for each in threading.enumerate() if each.name == "headway-store-gauges"]
        assert asking == again, "one question is enough"
        answered.set()
        asking[0].join(20)
        assert samples((await asyncio.to_thread(page))[1])["headway_store_up",] == 1


async def test_a_store_that_is_closed_is_down() -> None:
    async with Headway("memory://") as app:
        pass
    page = exposition(QueueCollector(app.store))
    assert samples((await asyncio.to_thread(page))[1])["headway_store_up",] == 0


async def test_the_dashboard_asks_only_for_what_there_is() -> None:
    """Every metric that the Grafana dashboard queries is on the page of a worker that has seen
    everything, with the labels it asks for."""
    observer = PrometheusObserver()
    observed = ObservedApp("memory://", [observer])

    @observed.app.job(max_attempts=1)
    async def lose(job: Job) -> None:
        await observed.app.cancel(job.id)
        await asyncio.sleep(30)

    async with observed.app as app:
        await app.start(observed.draft.request("dear"))
        await app.start(observed.fail.request())
        await app.start(lose.request())
        await app.start(observed.send.request().using(blockers=(observed.write.request("sir"),)))
        async with observed.working(lease_for=1.5):
            await observed.until(events.LeaseLost)
            await observed.until(events.SequenceFailed)
            await observed.until(events.SequenceCompleted, 3)
        for event in (
            events.JobReaped("1", "write", "letters", "1", "w", 1, dead=False),
            events.WorkerTroubled("w", "fetcher", "OSError"),
            events.StoreFailed("w", "fetcher", "OSError"),
            events.LoopBlocked("w", 1.0, "shop.py:1 in f", "1", "write"),
            events.LoopResumed("w", 1.0, "shop.py:1 in f", "write"),
            events.JobRescheduled("1", "write", "letters", "1", "w"),
            events.ScheduleFired("s", "write", "letters", "1", TICK, 0.5),
            events.ScheduleFailed("s", "write", "letters", "no time zone"),
            events.ClaimRefused("w", "letters", "running", None),
            events.PermitsGranted("w", "letters", (0.5,)),
            events.QueueHeld("letters", None, TICK, "1", "write"),
            events.ScheduleSkipped("s", "write", "letters", TICK, "missed", 1, replaced=False),
            events.LeaseLost("1", "write", "letters", "1", "w", 1, "lease_expired"),
            events.TakenByAnotherWorker("1", "write", "letters", "1", "w", 1, "taken"),
        ):
            observer.observe(event)
        await app.pause("letters")
        await app.store.run(override, app.store, "letters", LimitsOverride(running=1))
        await app.store.run(hold, app.store, "letters", None, After(seconds=60))
        await app.start(observed.write.request("again"))
        page = exposition(observer, QueueCollector(app.store), ObserverCollector(app.observers))
        _, text = await asyncio.to_thread(page)
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    assert len(queries) >= 12
    asked = {name for query in queries for name in re.findall(r"headway_\w+", query)}
    assert asked <= labels.keys(), asked - labels.keys()
    promised = set(re.findall(r"\bheadway_[a-z_]+\b", GUIDE.read_text()))
    assert len(promised) > 15
    assert {n for n in promised if n not in labels and f"{n}_bucket" not in labels} == set()
    for query in queries:
        (name, *_) = re.findall(r"headway_\w+", query)
        for grouped in re.findall(r"by \(([^)]*)\)", query):
            for label in (each.strip() for each in grouped.split(",")):
                assert label in labels[name] | {"le", "instance"}, query
        for matched in re.findall(r"\{([^}]*)\}", query):
            for label in re.findall(r"(\w+)=", matched):
                assert label in labels[name] | {"instance"}, query
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            for name in re.findall(r"headway_\w+", variable["query"]["query"]):
                assert name in labels
    assert len({counter.plural for counter in COUNTERS}) == len(COUNTERS)
