"""Observers cannot break the worker, nor hold it up for long."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import traceback
import weakref
from collections.abc import Sequence

import pytest

from headway import Headway
from headway.after_commit.observer_group import Observers
from headway.after_commit.observer_thread import MOST_WAITING
from headway.domain.events import (
    AttemptFailed,
    Event,
    JobCompleted,
    JobDeadLettered,
    WorkerStopped,
    WorkerStopping,
)
from headway.errors import ConfigurationError, Failure
from headway.observers.otel import OtelObserver
from headway.ports.store import Store
from tests.support.observed_app import PATIENCE, ObservedApp

EVENT = WorkerStopping("w")


class Rude:
    def __init__(self) -> None:
        self.calls = 0

    def observe(self, event: Event) -> None:
        self.calls += 1
        raise RuntimeError("leave me alone")


class RudeInBulk(Rude):
    def observe_all(self, events: Sequence[Event]) -> None:
        self.calls += 1
        raise RuntimeError("leave me alone")


class Clock:
    """What the fan-out takes the time from; nothing but a slow observer lets time pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("headway.after_commit.observer_group.perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Slow:
    def __init__(self, clock: Clock, seconds: float) -> None:
        self.seconds = seconds
        self.heard: list[Event] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self._clock = clock

    def observe(self, event: Event) -> None:
        self.gate.wait()
        self._clock.now += self.seconds
        self.threads.add(threading.current_thread().name)
        self.heard.append(event)

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.heard) < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)


class Kept:
    """Unlike an exception it allows weak references."""


class Asking:
    """Asks for exceptions, and for the start and the end of the app."""

    every_job = False
    exceptions = True

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.opened: list[Store] = []
        self.closing = 0
        self.gate = threading.Event()
        self.gate.set()

    def observe(self, event: Event) -> None:
        self.heard.append(event)

    def app_opened(self, store: Store) -> None:
        self.opened.append(store)

    def app_closing(self, seconds: float) -> None:
        self.closing += 1
        self.gate.wait()


async def test_what_observers_raise_is_swallowed_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "headway.after_commit.observer_group.MOST_DEBT", math.inf
    )  # nobody is put aside
    rude, in_bulk = Rude(), RudeInBulk()
    observed = ObservedApp("memory://", [rude, in_bulk])
    async with observed.app as app:
        await app.start_many([observed.write.request(str(n)) for n in range(20)])
        await observed.worker().run(drain=True)
    assert len(observed.seen(JobCompleted)) == 20
    assert rude.calls == len(observed.events)
    assert app.observers.errors == rude.calls + in_bulk.calls
    said = [record for record in caplog.records if "raised" in record.message]
    assert len(said) == 1


def test_one_that_hears_of_many_events_at_once_raises_once() -> None:
    rude, in_bulk = Rude(), RudeInBulk()
    observers = Observers([rude, in_bulk])
    observers.observe_all([EVENT, EVENT, EVENT])
    assert (rude.calls, in_bulk.calls, observers.errors) == (3, 1, 4)


def test_one_that_takes_long_is_put_aside(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    slow, other = Slow(clock, 0.06), Slow(clock, 0.0)
    observers = Observers([slow, other])
    with caplog.at_level(logging.WARNING):
        while not caplog.records:
            observers.observe(EVENT)
    assert "is slow" in caplog.text
    before = len(other.heard)
    assert before == 9, "half a second in all"
    slow.gate.clear()
    for _ in range(20):
        observers.observe(WorkerStopped("w"))
    assert len(other.heard) == before + 20, "nobody waits for it any more"
    assert len(slow.heard) == before
    slow.gate.set()
    slow.wait_for(before + 20)
    assert slow.heard == other.heard, "all of it, in order"
    assert "headway-observer" in slow.threads
    assert observers.dropped == 0


def test_what_it_cannot_keep_up_with_is_dropped_and_counted(clock: Clock) -> None:
    slow = Slow(clock, 0.6)
    observers = Observers([slow])
    observers.observe(EVENT)
    slow.gate.clear()
    for _ in range(MOST_WAITING + 5):
        observers.observe(EVENT)
    assert 4 <= observers.dropped <= 5  # the thread may hold one already
    slow.gate.set()
    slow.wait_for(1 + MOST_WAITING + 5 - observers.dropped)


def test_a_slow_one_keeps_no_exceptions_that_another_one_wants(clock: Clock) -> None:
    """Thousands of events may wait for it, and the frames of exceptions hold a lot."""
    slow, asking = Slow(clock, 0.6), Asking()
    observers = Observers([slow, asking])
    observers.observe(EVENT)
    slow.gate.clear()
    kept = Kept()
    gone = weakref.ref(kept)
    failure = Failure("ValueError", "no")
    observers.observe(JobDeadLettered("1", "t", "q", "1", failure, 1, ValueError(kept)))
    observers.observe(JobDeadLettered("2", "t", "q", "2", failure, 1, ValueError(kept)))
    del kept
    assert gone() is not None
    asking.heard.clear()
    assert gone() is None
    slow.gate.set()
    slow.wait_for(3)


def test_a_pause_now_and_then_is_no_reason(clock: Clock) -> None:
    slow = Slow(clock, 0.0)
    observers = Observers([slow])
    for pause in (0.2, 0.2, 0.2, 0.2):
        slow.seconds = pause
        observers.observe(EVENT)
        slow.seconds = 0.0
        for _ in range(300):
            observers.observe(EVENT)
    assert slow.threads == {threading.current_thread().name}


def test_only_one_may_trace() -> None:
    with pytest.raises(ConfigurationError, match="two observers trace"):
        Headway("memory://", observers=[OtelObserver(), OtelObserver()])


async def test_exceptions_are_kept_only_for_those_who_ask() -> None:
    quiet = ObservedApp("memory://")
    async with quiet.app as app:
        await app.start(quiet.fail.request())
        await quiet.worker().run(drain=True)
    assert {event.exception for event in quiet.seen(AttemptFailed | JobDeadLettered)} == {None}
    asking = Asking()
    observed = ObservedApp("memory://", [asking])
    async with observed.app as app:
        await app.start(observed.fail.request())
        await observed.worker().run(drain=True)
    first, last = (event for event in asking.heard if isinstance(event, AttemptFailed))
    (dead,) = (event for event in asking.heard if isinstance(event, JobDeadLettered))
    assert dead.exception is last.exception is not first.exception
    assert (dead.attempt, last.attempt, first.attempt) == (2, 2, 1)
    assert isinstance(dead.exception, ValueError)
    (frame,) = traceback.extract_tb(dead.exception.__traceback__)
    assert frame.name == "fail", "it begins in the user's code"
    kept = Kept()
    dead.exception.args = (kept,)
    gone = weakref.ref(kept)
    del first, last, dead, kept
    asking.heard.clear()
    observed.events.clear()
    assert gone() is None, "nobody keeps the exception and what its frames hold"


async def test_observers_are_told_of_the_apps_first_start_and_last_end() -> None:
    asking, late = Asking(), Asking()
    app = Headway("memory://", observers=[asking])
    async with app:
        async with app:
            app.observers.add(late)
        assert (asking.closing, late.closing) == (0, 0), "it is still open"
    await app.close()
    assert asking.opened == [app.store] * 2
    assert late.opened == [app.store]
    assert (asking.closing, late.closing) == (1, 1)


async def test_the_end_does_not_wait_for_an_observer_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headway.after_commit.observer_group.LAST_WAIT", 0.1)
    asking, stuck = Asking(), Asking()
    stuck.gate.clear()
    async with Headway("memory://", observers=[stuck, asking]):
        pass
    assert asking.closing == 1
    assert "not waiting any longer for" in caplog.text
    stuck.gate.set()


async def test_an_end_at_the_last_moment_is_no_reason_to_warn(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headway.after_commit.observer_group.LAST_WAIT", 0.1)
    asking = Asking()
    asking.gate.clear()
    app = Headway("memory://", observers=[asking])
    await app.open()

    def block() -> None:
        """The loop sees the end and the end of the time together."""
        asking.gate.set()
        time.sleep(0.2)

    asyncio.get_running_loop().call_later(0.01, block)
    await app.close()
    assert caplog.text == ""


async def test_a_slow_observer_gets_its_events_before_the_end(clock: Clock) -> None:
    slow = Slow(clock, 0.6)
    app = Headway("memory://", observers=[slow])
    async with app:
        app.observers.observe(EVENT)
        slow.gate.clear()
        for _ in range(20):
            app.observers.observe(EVENT)
        slow.gate.set()
    assert len(slow.heard) == 21
