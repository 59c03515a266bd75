"""The subscribers of one process, indexed by interest: a notification reads only those concerned,
even if a thousand callers wait for a sequence each."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headway.ports.notifications import (
    ANY_TYPE,
    Interest,
    JobsScheduled,
    Notification,
    OwnershipLost,
    SchedulesChanged,
    SequenceEnded,
)
from headway.ports.notifier import Listener, NotifierStatus, StatusListener

_log = logging.getLogger("headway")
_Loop = asyncio.AbstractEventLoop


@dataclass(slots=True, eq=False)
class Subscriber:
    """Compared by identity. `told`: a notification of jobs is on its way to it, so it is busy."""

    listener: Listener
    interest: Interest
    idle: Callable[[], bool]
    on_status: StatusListener
    loop: _Loop = field(default_factory=asyncio.get_running_loop)
    told: bool = False
    gone: bool = False

    def is_idle(self) -> bool:
        try:
            return not self.told and self.idle()
        except Exception:
            _log.exception("a subscriber's `idle` raised")
            return True


_Group = dict[Subscriber, None]
"""An ordered set."""


class Subscribers:
    """Thread-safe; calls each subscriber on its own loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._everyone: _Group = {}
        self._of_everything: _Group = {}
        self._by_queue: dict[str, _Group] = {}
        self._by_sequence: dict[str, _Group] = {}
        self._by_worker: dict[str, _Group] = {}
        self._of_schedules: _Group = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._everyone)

    @property
    def awaits_sequences(self) -> bool:
        return bool(self._by_sequence or self._of_everything)

    def add(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._everyone[subscriber] = None
            for index, key in self._indexes(subscriber):
                index.setdefault(key, {})[subscriber] = None
            if subscriber.interest.everything:
                self._of_everything[subscriber] = None
            elif subscriber.interest.schedules:
                self._of_schedules[subscriber] = None

    def remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._remove(subscriber)

    def clear(self) -> None:
        with self._lock:
            for subscriber in list(self._everyone):
                self._remove(subscriber)

    def deliver(self, notifications: Sequence[Notification]) -> list[Notification]:
        """Deliver notifications to the subscribers concerned; returns those for other processes:
        jobs for which a worker was woken here are subtracted."""
        if not self._everyone:
            return list(notifications)
        left: list[Notification] = []
        batches: dict[_Loop, list[tuple[Subscriber, Notification]]] = {}
        with self._lock:
            for item in notifications:
                remainder: Notification | None = item
                if isinstance(item, JobsScheduled):
                    listeners, taken = self._choose(item, item.count or None)
                    if item.count and taken:
                        remainder = _without(item, taken)
                else:
                    listeners = self._interested(item)
                if remainder is not None:
                    left.append(remainder)
                for subscriber in (*listeners, *self._of_everything):
                    batches.setdefault(subscriber.loop, []).append((subscriber, item))
        for loop, batch in batches.items():
            self._on(loop, _deliver, batch)
        return left

    def idle(self, notification: JobsScheduled) -> int:
        """Number of idle subscribers for these jobs."""
        with self._lock:
            return sum(subscriber.is_idle() for subscriber in self._workers(notification))

    def deliver_jobs(self, notification: JobsScheduled, shares: int | None) -> None:
        """Deliver to so many idle subscribers (None: all), and to the busy ones."""
        with self._lock:
            listeners, _ = self._choose(notification, shares)
            batches: dict[_Loop, list[tuple[Subscriber, Notification]]] = {}
            for subscriber in (*listeners, *self._of_everything):
                batches.setdefault(subscriber.loop, []).append((subscriber, notification))
        for loop, batch in batches.items():
            self._on(loop, _deliver, batch)

    def report(self, status: NotifierStatus) -> None:
        """Report the notifier's status to all subscribers."""
        with self._lock:
            everyone = list(self._everyone)
        for subscriber in everyone:
            self._on(subscriber.loop, _report, subscriber, status)

    def wake_one(self) -> None:
        """After a commit without a notification: let one idle worker look."""
        with self._lock:
            idle = [
                subscriber
                for subscriber in self._everyone
                if subscriber.interest.queues and subscriber.is_idle()
            ]
            if not idle:
                return
            self._turn += 1
            chosen = idle[self._turn % len(idle)]
            chosen.told = True
        self._on(chosen.loop, _report, chosen, NotifierStatus(connected=True))

    def _choose(
        self, notification: JobsScheduled, shares: int | None
    ) -> tuple[Iterable[Subscriber], int]:
        """The subscribers to wake, and how many shares of the budget they take."""
        idle: list[Subscriber] = []
        busy: list[Subscriber] = []
        for subscriber in self._workers(notification):
            (idle if subscriber.is_idle() else busy).append(subscriber)
        if shares is not None and shares < len(idle):  # in turns, so that work is spread
            first = self._turn % len(idle)
            idle = [*idle[first:], *idle[:first]][:shares]
        self._turn += len(idle)
        for subscriber in idle:
            subscriber.told = True
        return (*idle, *busy), len(idle)

    def _workers(self, notification: JobsScheduled) -> Iterable[Subscriber]:
        for subscriber in self._by_queue.get(notification.queue, ()):
            if notification.type == ANY_TYPE or notification.type in subscriber.interest.types:
                yield subscriber

    def _interested(
        self, notification: SequenceEnded | OwnershipLost | SchedulesChanged
    ) -> Iterable[Subscriber]:
        if isinstance(notification, SchedulesChanged):
            return tuple(self._of_schedules)
        if isinstance(notification, SequenceEnded):
            return tuple(self._by_sequence.get(notification.sequence_id, ()))
        if notification.worker is not None:
            return tuple(self._by_worker.get(notification.worker, ()))
        return [subscriber for group in self._by_worker.values() for subscriber in group]

    def _indexes(self, subscriber: Subscriber) -> Iterable[tuple[dict[str, _Group], str]]:
        interest = subscriber.interest
        if interest.everything:
            return
        for queue in interest.queues:
            yield self._by_queue, queue
        for sequence_id in interest.sequences:
            yield self._by_sequence, sequence_id
        if interest.worker is not None:
            yield self._by_worker, interest.worker

    def _remove(self, subscriber: Subscriber) -> None:
        subscriber.gone = True
        self._of_everything.pop(subscriber, None)
        self._of_schedules.pop(subscriber, None)
        if subscriber not in self._everyone:
            return
        del self._everyone[subscriber]
        for index, key in self._indexes(subscriber):
            group = index[key]
            del group[subscriber]
            if not group:
                del index[key]

    def _on(self, loop: _Loop, callback: Callable[..., None], *args: object) -> None:
        try:
            if _running_loop() is loop:
                loop.call_soon(callback, *args)
            else:
                loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop was closed without unsubscribing
            with self._lock:
                for subscriber in [each for each in self._everyone if each.loop is loop]:
                    self._remove(subscriber)


def _running_loop() -> _Loop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _without(notification: JobsScheduled, taken: int) -> JobsScheduled | None:
    if taken >= notification.count:
        return None
    return JobsScheduled(
        notification.queue, notification.type, notification.count - taken, notification.run_at
    )


def _deliver(batch: Iterable[tuple[Subscriber, Notification]]) -> None:
    for subscriber, notification in batch:
        subscriber.told = False
        if subscriber.gone:
            continue
        try:
            subscriber.listener(notification)
        except Exception:
            _log.exception("a listener of notifications raised")


def _report(subscriber: Subscriber, status: NotifierStatus) -> None:
    subscriber.told = False
    if not subscriber.gone:
        try:
            subscriber.on_status(status)
        except Exception:
            _log.exception("a subscriber's `on_status` raised")
