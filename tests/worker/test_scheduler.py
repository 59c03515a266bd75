"""How workers fire schedules: when they look, and when they do not."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest
from msgspec import structs

from headway import CatchUp, Cron, Every, Headway, Job
from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.domain.events import (
    JobCompleted,
    ScheduleFailed,
    ScheduleFired,
    ScheduleSkipped,
    SchedulesRefused,
    SequenceCompleted,
    WorkerRecovered,
    WorkerStarted,
    WorkerTroubled,
)
from headway.domain.job import JobState, NewJob
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule import ScheduleDefinition
from headway.errors import ScheduleNotFound, StoreUnreachable
from headway.jobs.schedule_definition import define_schedule
from headway.schedules import changes
from headway.schedules.firing import fire
from headway.stores.memory import MemoryStore
from headway.testing.clock import ManualClock
from headway.worker.background.scheduler import CHECK_DECLARATIONS_EVERY, Scheduler
from headway.worker.environment import WorkerEnvironment
from headway.worker.settings import WorkerSettings
from tests.support.faulty_store import FaultyStore
from tests.support.observed_app import ObservedApp
from tests.support.stores import store_urls
from tests.support.worker_harness import WorkerHarness, eventually

LOOKS = {"fire", "next_schedule", "is_declared", "declare"}
"""The operations of a worker that exist for schedules alone."""


locking_url = store_urls("memory", "postgres", "mongodb")
"""Stores with more than one writer."""


def once_in(seconds: float) -> Every:
    """A timetable with a tick in so many seconds, and the next one an hour later."""
    return Every(hours=1, anchor=datetime.now(UTC) + timedelta(seconds=seconds))


def counted(app: Headway) -> Counter[str]:
    """Counts the operations that run on the app's store from now on, by name."""
    counts: Counter[str] = Counter()
    store: Any = app.store
    run, run_sync = store.run, store.run_sync

    async def counted_run(operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        counts[operation.__name__] += 1
        return await run(operation, *args, **kwargs)

    def counted_run_sync(operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        counts[operation.__name__] += 1
        return run_sync(operation, *args, **kwargs)

    store.run, store.run_sync = counted_run, counted_run_sync
    return counts


async def test_declared_schedules_are_stored_when_a_worker_starts_and_fired_in_time(
    observed: ObservedApp,
) -> None:
    app, ticks = observed.app, list[tuple[str | None, datetime | None]]()

    @app.job(schedule=Every(seconds=1))
    async def beat(job: Job) -> None:
        ticks.append((job.schedule, job.scheduled_for))

    async with observed.working():
        await observed.until(SequenceCompleted, 2, type="beat")
    assert [event.schedules for event in observed.seen(WorkerStarted)] == [("beat",)]
    first, second = observed.seen(ScheduleFired)[:2]
    assert second.tick - first.tick == timedelta(seconds=1)
    assert 0 <= first.seconds < 1
    assert 0 <= second.seconds < 1
    assert ticks[:2] == [("beat", first.tick), ("beat", second.tick)]
    stored = await app.schedules.get("beat")
    assert stored.declared
    assert stored.last_sequence_id == observed.seen(ScheduleFired)[-1].job_id


async def test_a_worker_has_the_schedules_that_were_declared_before_it_runs(
    observed: ObservedApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is declared later is left to workers that start later, as a job type is. Else it
    would be fired here, and shown as orphaned."""
    monkeypatch.setattr("headway.worker.background.scheduler.CHECK_DECLARATIONS_EVERY", 0.1)
    app = observed.app
    worker = app.worker()
    app.schedule("before", Every(hours=1), observed.write.request("a"))
    running = asyncio.create_task(worker.run())
    await eventually(lambda: _is_stored(app, "before"))
    counts = counted(app)
    app.schedule("after", Every(hours=1), observed.write.request("b"))
    await eventually(lambda: _is_counted(counts, "is_declared", 3))
    await worker.stop()
    await running
    assert [each.name for each in await app.schedules.list()] == ["before"]


async def _is_stored(app: Headway, name: str) -> bool:
    return name in [each.name for each in await app.schedules.list()]


async def _is_counted(counts: Counter[str], operation: str, times: int) -> bool:
    return counts[operation] >= times


async def test_a_notification_of_a_new_schedule_wakes_an_idle_worker(observed: ObservedApp) -> None:
    async with observed.working():  # the next heartbeat comes in 5 seconds
        await eventually(lambda: _has_worker(observed.app))
        put = await observed.app.schedules.put("soon", once_in(0.3), observed.write.request("a"))
        async with asyncio.timeout(3):
            await observed.until(ScheduleFired)
    (fired,) = observed.seen(ScheduleFired)
    assert fired.tick == put.next_at


async def test_without_a_notifier_the_next_heartbeat_finds_a_new_schedule(store_url: str) -> None:
    observed = ObservedApp(store_url)
    app = Headway(store_url, notifier="none", observers=[observed], migrate=True)

    @app.job
    async def work() -> None: ...

    async with app:
        worker = app.worker(heartbeat_every=0.5)
        await worker.start()
        await eventually(lambda: _has_worker(app))
        await app.schedules.put("soon", once_in(0.1), work.request())
        async with asyncio.timeout(3):
            await observed.until(ScheduleFired)
        await worker.stop()


async def _has_worker(app: Headway) -> bool:
    return bool(await app.workers())


async def test_a_worker_without_schedules_stores_none_and_fires_none(observed: ObservedApp) -> None:
    app = observed.app

    @app.job(schedule=Every(seconds=1))
    async def beat() -> None: ...

    await app.schedules.put("other", once_in(0.2), observed.write.request("a"))
    counts = counted(app)
    async with observed.working(schedules=False, heartbeat_every=0.2):
        await eventually(lambda: _beats(counts, 6))
    assert not LOOKS & counts.keys()
    assert [event.schedules for event in observed.seen(WorkerStarted)] == [()]
    assert not observed.seen(ScheduleFired)
    with pytest.raises(ScheduleNotFound):
        await app.schedules.get("beat")
    assert (await app.schedules.get("other")).fired == 0


async def test_where_no_schedule_exists_no_statement_is_sent(observed: ObservedApp) -> None:
    counts = counted(observed.app)
    sent: list[set[str]] = []
    for schedules in (False, True):
        counts.clear()
        async with observed.working(schedules=schedules, heartbeat_every=0.1):
            await eventually(lambda: _beats(counts, 8))
        sent.append(set(counts))
    assert sent[0] == sent[1]
    assert not LOOKS & sent[1]


async def _beats(counts: Counter[str], number: int) -> bool:
    return counts["save_worker"] >= number


async def test_a_worker_does_not_look_for_schedules_that_only_others_declare(
    observed: ObservedApp, store_url: str
) -> None:
    timetable = once_in(0.5)
    other = Headway(observed.app.store if store_url == "memory://" else store_url)

    @other.job(schedule=timetable)
    async def theirs() -> None: ...

    async with other:
        await other.worker().run(drain=True)
        stored = await observed.app.schedules.get("theirs")
        counts = counted(observed.app)
        async with observed.working(heartbeat_every=0.1):
            await eventually(lambda: _has_passed(stored.next_at))
            counts.clear()
            await eventually(lambda: _beats(counts, 10))
        assert counts["fire"] == 0
        assert counts["next_schedule"] == 0
        assert (await observed.app.schedules.get("theirs")).next_at == stored.next_at
        await other.worker().run(drain=True)
        assert (await observed.app.schedules.get("theirs")).fired == 1


async def _has_passed(moment: datetime) -> bool:
    return datetime.now(UTC) > moment


async def test_a_tick_that_waited_starts_when_the_last_sequence_ends(observed: ObservedApp) -> None:
    app, release = observed.app, asyncio.Event()

    @app.job
    async def linger() -> None:
        await release.wait()

    await app.schedules.put("one", once_in(0.5), linger.request(), overlap="queue_one")
    first = await app.schedules.trigger("one")
    async with observed.working():
        await eventually(lambda: _waits(app, "one"))
        released = monotonic()
        release.set()
        await observed.until(ScheduleFired)
        assert monotonic() - released < 2.5  # the next look of others comes after 5 seconds
        await observed.until(SequenceCompleted, 2, type="linger")
    (fired,) = observed.seen(ScheduleFired)
    assert (await app.get(first)).state is JobState.COMPLETED
    assert (await app.get(fired.job_id)).scheduled_for == fired.tick


async def _waits(app: Headway, name: str) -> bool:
    return (await app.schedules.get(name)).waiting_tick is not None


async def test_running_handlers_do_not_hold_up_ticks(observed: ObservedApp) -> None:
    app, release = observed.app, asyncio.Event()

    @app.job(schedule=Every(seconds=1))
    async def linger() -> None:
        await release.wait()

    await app.schedules.put("free", Every(seconds=1), linger.request(), overlap="allow")
    async with observed.working(concurrency=1):
        await observed.until(ScheduleFired, 3, schedule="free")
        await observed.until(ScheduleSkipped, schedule="linger", reason="overlap")
        release.set()
    assert all(fired.seconds < 1 for fired in observed.seen(ScheduleFired, schedule="free"))


async def test_a_locked_schedule_is_fired_soon_after_the_lock_is_gone(
    observed: ObservedApp,
) -> None:
    app = observed.app
    put = await app.schedules.put("locked", once_in(0.7), observed.write.request("a"))
    async with observed.working():
        await eventually(lambda: _has_worker(app))
        with pytest.raises(KeyError):
            await _hold_past_the_tick(app, put.next_at)
        released = monotonic()
        await observed.until(ScheduleFired)
        assert monotonic() - released < 2
    (fired,) = observed.seen(ScheduleFired)
    assert fired.tick == put.next_at


async def _hold_past_the_tick(app: Headway, tick: datetime) -> None:
    async with app.store.begin() as tx:
        await app.schedules.pause("locked", tx=tx)
        await asyncio.sleep((tick - datetime.now(UTC)).total_seconds() + 0.5)
        raise KeyError("rolled back, and so nobody is told")


async def test_a_run_that_its_own_transaction_holds_keeps_no_other_schedule_from_firing(
    locking_url: str,
) -> None:
    observed = ObservedApp(locking_url)
    app, began, release = observed.app, asyncio.Event(), asyncio.Event()

    @app.job(atomic=True)
    async def long() -> None:
        began.set()
        await release.wait()

    async with app:
        timetable = once_in(1.5)
        await app.schedules.put("cancels", timetable, long.request(), overlap="cancel")
        await app.schedules.put("other", timetable, observed.write.request("a"))
        await app.schedules.trigger("cancels")
        async with observed.working():
            await began.wait()
            async with asyncio.timeout(5):
                await observed.until(ScheduleFired, schedule="other")
            assert not observed.seen(ScheduleFired, schedule="cancels")
            release.set()
            await observed.until(ScheduleFired, schedule="cancels")


async def test_a_held_schedule_that_is_declared_already_does_not_hold_up_a_new_worker(
    locking_url: str,
) -> None:
    observed = ObservedApp(locking_url)
    app = observed.app
    app.schedule("held", Every(hours=1), observed.write.request("a"))
    async with app:
        await observed.worker().run(drain=True)
        app.schedule("new", Every(seconds=1), observed.write.request("b"))
        async with app.store.begin() as tx:
            await app.schedules.pause("held", tx=tx)
            async with observed.working(), asyncio.timeout(5):
                await observed.until(ScheduleFired, schedule="new")


async def test_a_drain_fires_the_ticks_that_have_come(observed: ObservedApp) -> None:
    app = observed.app
    put = await app.schedules.put("soon", once_in(0.1), observed.write.request("a"))
    await observed.worker().run(drain=True)
    await eventually(lambda: _has_passed(put.next_at))
    counts = counted(app)
    await observed.worker().run(drain=True)
    assert [each.tick for each in observed.seen(ScheduleFired)] == [put.next_at]
    assert len(observed.seen(JobCompleted)) == 1
    counts.clear()
    await observed.worker().run(drain=True)
    assert (counts["next_schedule"], counts["fire"]) == (1, 0)


async def test_a_look_that_fails_is_tried_again_and_no_tick_is_lost() -> None:
    failures = 3

    async def fail() -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnreachable("the test's store", "it is away")

    store = FaultyStore(before={"fire": fail, "is_declared": fail})
    harness = WorkerHarness(store)
    app = Headway(store, observers=[harness])

    # The declared one is stored after the failures, which take half a second, and must be in time.
    @app.job(schedule=once_in(3.0))
    async def work() -> None: ...

    async with app:
        await app.schedules.put("put", once_in(3.0), work.request())
        worker = app.worker()
        await worker.start()
        await harness.until(lambda: len(harness.seen(ScheduleFired)) == 2)
        await harness.event(WorkerRecovered, part="scheduler")
        await worker.stop()
    assert failures == 0
    assert harness.seen(WorkerTroubled, part="scheduler")


async def test_a_worker_that_looks_when_it_is_stopped_does_not_wait_for_the_next_tick() -> None:
    looks, goes_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        looks.set()
        await goes_on.wait()

    store = FaultyStore(before={"fire": wait})
    app = Headway(store)

    @app.job
    async def work() -> None: ...

    async with app:
        await app.schedules.put("put", once_in(0.1), work.request())
        worker = app.worker(grace=60)
        await worker.start()
        await looks.wait()
        worker.request_stop()
        await asyncio.sleep(0)
        goes_on.set()
        async with asyncio.timeout(10):
            await worker.stop()


class Firing:
    """Schedulers of several workers on one memory store, with a clock that stands still."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = ManualClock(datetime(2030, 1, 1, 0, 0, 30, tzinfo=UTC))
        self.harness = WorkerHarness(self.store)
        self.app = Headway(self.store)
        self.counts = counted(self.app)

        @self.app.job
        async def work() -> None: ...

        self.minutely = define_schedule(
            "minutely", Every(minutes=1), work.request(), {"overlap": "allow"}
        )

    def scheduler(
        self, worker: str, declared: dict[str, ScheduleDefinition] | None = None
    ) -> Scheduler:
        observers = Observers([self.harness])
        environment = WorkerEnvironment(
            WorkerSettings(worker_id=worker), self.store, self.clock, observers
        )
        now = self.clock.now()

        def describe() -> WorkerRecord:
            return WorkerRecord(
                id=worker,
                host="here",
                pid=1,
                queues=("default",),
                types=("work",),
                concurrency=1,
                running=0,
                started_at=now,
                seen_at=now,
                schedules=scheduler.declarations,
            )

        publisher = Publisher(self.store, None, observers)
        scheduler = Scheduler(environment, publisher, declared or {}, describe)
        return scheduler

    async def put(self, name: str) -> None:
        await self.store.run(changes.put, self.store, name, self.minutely, self.clock.now())

    async def look(self, scheduler: Scheduler) -> Counter[str]:
        """Let it do what is due; the operations that took."""
        self.counts.clear()
        stopped = asyncio.Event()
        task = asyncio.create_task(scheduler.run(stopped))
        before = -1
        while before != (before := self.counts.total()):  # the memory store answers at once
            for _ in range(20):
                await asyncio.sleep(0)
        stopped.set()
        await task
        return Counter(self.counts)


@pytest.fixture
async def firing() -> AsyncIterator[Firing]:
    firing = Firing()
    await firing.store.open()
    yield firing
    await firing.store.close()


async def test_a_late_answer_to_a_heartbeat_does_not_put_off_a_look(firing: Firing) -> None:
    scheduler = firing.scheduler("a")
    await firing.put("minutely")
    firing.clock.advance(31)
    scheduler.look_in(0.0)  # a notification says that a schedule has changed
    scheduler.expect(3600.0)  # the answer to a question that was asked before
    await firing.look(scheduler)
    assert len(firing.harness.seen(ScheduleFired)) == 1


async def test_the_worker_that_fired_the_last_tick_goes_first(firing: Firing) -> None:
    first, second = firing.scheduler("a"), firing.scheduler("b")
    await firing.put("minutely")
    for scheduler in (first, second):
        scheduler.expect(30.0)
    firing.clock.advance(30)
    assert await firing.look(first) == {"fire": 1}
    assert await firing.look(second) == {"fire": 1}  # nobody knows yet who goes first
    firing.clock.advance(0.1)
    for _ in range(3):
        firing.clock.advance(59.9)
        assert await firing.look(second) == {}
        assert await firing.look(first) == {"fire": 1}
        firing.clock.advance(0.1)
        assert await firing.look(second) == {"next_schedule": 1}
    assert len(firing.harness.seen(ScheduleFired)) == 4


async def test_if_the_first_worker_is_gone_the_next_one_fires(firing: Firing) -> None:
    first, second = firing.scheduler("a"), firing.scheduler("b")
    await firing.put("minutely")
    for scheduler in (first, second):
        scheduler.expect(30.0)
    firing.clock.advance(30)
    await firing.look(first)
    await firing.look(second)
    firing.clock.advance(60.05)
    assert await firing.look(second) == {"next_schedule": 1, "fire": 1}
    firing.clock.advance(59.95)
    assert await firing.look(second) == {"fire": 1}  # from now on it goes first
    assert [event.seconds for event in firing.harness.seen(ScheduleFired)] == [0.0, 0.05, 0.0]


async def test_only_schedules_that_queue_are_looked_at_when_their_sequence_ends(
    firing: Firing,
) -> None:
    scheduler = firing.scheduler("a", {"minutely": firing.minutely})
    await firing.look(scheduler)
    scheduler.sequence_ended("minutely")  # declared with overlap="allow"
    firing.clock.advance(1)
    assert await firing.look(scheduler) == {}
    for _ in range(10):
        scheduler.sequence_ended("put by somebody")
    firing.clock.advance(1)
    assert await firing.look(scheduler) == {"fire": 1}


async def test_a_look_for_an_ended_sequence_that_fails_is_not_forgotten(
    firing: Firing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreUnreachable("the test's store", "it is away")

    scheduler = firing.scheduler("a")
    scheduler.sequence_ended("put by somebody")
    firing.clock.advance(1)
    with monkeypatch.context() as failing:
        failing.setattr(firing.store, "due_schedules", fail)
        assert await firing.look(scheduler) == {"fire": 1}
    assert await firing.look(scheduler) == {"fire": 1}  # it does not ask first if a tick has come


async def test_declared_schedules_whose_names_are_taken_are_pointed_out_once(
    firing: Firing,
) -> None:
    await firing.put("minutely")
    scheduler = firing.scheduler("a", {"minutely": firing.minutely})
    for _ in range(3):
        await firing.look(scheduler)
        firing.clock.advance(CHECK_DECLARATIONS_EVERY)
    assert [event.names for event in firing.harness.seen(SchedulesRefused)] == [("minutely",)]
    store = firing.store
    await store.run(changes.delete, store, "minutely", firing.clock.now())
    await firing.look(scheduler)
    (stored,) = await store.run(store.schedules, ["minutely"])
    assert stored is not None
    assert stored.declared
    assert len(firing.harness.seen(SchedulesRefused)) == 1


async def test_a_schedule_that_this_worker_cannot_read_holds_up_no_other(
    firing: Firing, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now = firing.store, firing.clock.now()
    cron = structs.replace(firing.minutely, timetable=Cron("* * * * *"))
    await store.run(changes.put, store, "cron", cron, now)
    await firing.put("minutely")
    scheduler = firing.scheduler("a")
    firing.clock.advance(30)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "cronsim", None)
        scheduler.look_in(0.0)
        await firing.look(scheduler)
    (failed,) = firing.harness.seen(ScheduleFailed)
    assert (failed.schedule, failed.type, failed.queue) == ("cron", "work", "default")
    assert [event.schedule for event in firing.harness.seen(ScheduleFired)] == ["minutely"]


async def test_a_worker_that_cannot_read_a_schedule_leaves_it_to_others(
    firing: Firing, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now = firing.store, firing.clock.now()
    cron = structs.replace(firing.minutely, timetable=Cron("* * * * *"), catch_up=CatchUp.none())
    await store.run(changes.put, store, "cron", cron, now)
    unable, able = firing.scheduler("a"), firing.scheduler("b")

    async def look_without_cronsim() -> None:
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "cronsim", None)
            await firing.look(unable)

    for scheduler in (unable, able):
        scheduler.expect(30.0)
    firing.clock.advance(30)
    await look_without_cronsim()
    await firing.look(able)
    assert not firing.harness.seen(ScheduleFired)
    for _ in range(2_000):  # both look when they want to, the unable one first
        firing.clock.advance(0.05)
        await look_without_cronsim()
        await firing.look(able)
        if len(firing.harness.seen(ScheduleFired)) == 2:
            break
    fired = firing.harness.seen(ScheduleFired)
    assert [each.tick - now for each in fired] == [timedelta(seconds=30), timedelta(seconds=90)]
    assert not firing.harness.seen(ScheduleSkipped)
    assert len(firing.harness.seen(ScheduleFailed)) == 1


@pytest.mark.parametrize(("limit", "value"), [("MOST_COMPUTING", 0.0), ("MOST_STARTED", 1)])
async def test_many_ticks_are_left_to_further_transactions(
    firing: Firing, monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    monkeypatch.setattr(f"headway.schedules.firing.{limit}", value)
    for number in range(3):
        await firing.put(f"s{number}")
    scheduler = firing.scheduler("a")
    firing.clock.advance(30)
    scheduler.look_in(0.0)
    assert (await firing.look(scheduler))["fire"] == 3
    fired = [event.schedule for event in firing.harness.seen(ScheduleFired)]
    assert sorted(fired) == ["s0", "s1", "s2"]


async def test_jobs_with_many_arguments_are_stored_with_several_statements(
    firing: Firing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.schedules.firing.MOST_CHARACTERS", 5)
    store, insert, parts = firing.store, firing.store.insert_scheduled, list[int]()

    def counting(jobs: Sequence[NewJob], **options: Any) -> Any:
        parts.append(len(jobs))
        return insert(jobs, **options)

    monkeypatch.setattr(store, "insert_scheduled", counting)
    definition = structs.replace(firing.minutely, catch_up=CatchUp.all(hours=1))  # input: {}
    now = firing.clock.now()
    await store.run(changes.put, store, "minutely", definition, now)
    await store.run(fire, store, (), now=now + timedelta(minutes=5))
    assert parts == [2, 2, 1]
    (stored,) = await store.run(store.schedules, ["minutely"])
    assert stored is not None
    assert stored.fired == 5


@asynccontextmanager
async def _running(scheduler: Scheduler) -> AsyncIterator[None]:
    stopped = asyncio.Event()
    task = asyncio.create_task(scheduler.run(stopped))
    yield
    stopped.set()
    await task


async def test_more_schedules_than_one_transaction_fires(firing: Firing) -> None:
    for number in range(1_201):
        await firing.put(f"s{number}")
    scheduler = firing.scheduler("a")
    firing.clock.advance(30)
    scheduler.look_in(0.0)
    async with _running(scheduler):
        await firing.harness.until(lambda: len(firing.harness.seen(ScheduleFired)) == 1_201)
