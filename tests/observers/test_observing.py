"""Observers cannot break the worker, nor hold it up for long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

import pytest

from headway import ConfigurationError, Headway
from headway.domain.events import Event, JobCompleted, WorkerStopped, WorkerStopping
from headway.engine.aside import MOST_WAITING
from headway.engine.observing import Observers
from headway.observers.otel import OtelObserver
from tests.observers.office import Office

EVENT = WorkerStopping("w")


class Rude:
    def observe(self, event: Event) -> None:
        raise RuntimeError("leave me alone")


class RudeInBulk(Rude):
    def observe_all(self, events: Sequence[Event]) -> None:
        raise RuntimeError("leave me alone")


class Slow:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.heard: list[Event] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()

    def observe(self, event: Event) -> None:
        self.gate.wait()
        if self.seconds:
            time.sleep(self.seconds)
        self.threads.add(threading.current_thread().name)
        self.heard.append(event)


async def test_what_observers_raise_is_swallowed_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    office = Office("memory://", [Rude(), RudeInBulk()])
    async with office.app as app:
        await app.start_many([office.write.request(str(n)) for n in range(20)])
        await office.worker().run(drain=True)
    assert len(office.seen(JobCompleted)) == 20
    # The second one hears of many events at once, so it raises less often.
    assert len(office.events) < app.observers.errors < 2 * len(office.events)
    said = [record for record in caplog.records if "raised" in record.message]
    assert len(said) == 1


def test_one_that_takes_long_is_put_aside(caplog: pytest.LogCaptureFixture) -> None:
    slow, other = Slow(0.06), Slow(0.0)
    observers = Observers([slow, other])
    with caplog.at_level(logging.WARNING):
        while not caplog.records:
            observers.observe(EVENT)
    assert "takes long" in caplog.text
    before = len(other.heard)
    assert 2 <= before <= 12, "half a second in all"
    began = time.monotonic()
    for _ in range(20):
        observers.observe(WorkerStopped("w"))
    assert time.monotonic() - began < 1.0, "nobody waits for it any more"
    deadline = time.monotonic() + 20
    while len(slow.heard) < before + 20:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert slow.heard == other.heard, "all of it, in order"
    assert "headway-observer" in slow.threads
    assert observers.dropped == 0


def test_what_it_cannot_keep_up_with_is_dropped_and_counted() -> None:
    slow = Slow(0.6)
    observers = Observers([slow])
    observers.observe(EVENT)
    slow.seconds = 0.0
    slow.gate.clear()
    for _ in range(MOST_WAITING + 5):
        observers.observe(EVENT)
    assert 4 <= observers.dropped <= 5  # the thread may hold one already
    slow.gate.set()
    deadline = time.monotonic() + 20
    while len(slow.heard) < 1 + MOST_WAITING + 5 - observers.dropped:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pause_now_and_then_is_no_reason() -> None:
    slow = Slow(0.0)
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
