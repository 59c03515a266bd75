"""The subscribers of one process, found by what they are interested in: a thousand who wait for a
sequence each cost the news of another one nothing."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from headway.ports.notifications import Interest, JobsScheduled, News, OwnershipLost, SequenceEnded
from headway.ports.notifier import Attendant, Hearing, Listener

_log = logging.getLogger("headway")
_Loop = asyncio.AbstractEventLoop


class Subscriber:
    """Compared by identity. `told`: news of jobs is on its way to it, so it counts as busy."""

    __slots__ = ("gone", "hearing", "idle", "interest", "listener", "loop", "told")

    def __init__(
        self, listener: Listener, interest: Interest, idle: Callable[[], bool], hearing: Attendant
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.listener = listener
        self.interest = interest
        self.idle = idle
        self.hearing = hearing
        self.told = False
        self.gone = False

    def is_idle(self) -> bool:
        try:
            return not self.told and self.idle()
        except Exception:
            _log.exception("a subscriber raised when asked whether it is idle")
            return True


_Group = dict[Subscriber, None]
"""A set that keeps its order."""


class Hub:
    """Safe to use from any thread; calls each subscriber on its own loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._everyone: _Group = {}
        self._onlookers: _Group = {}
        self._by_queue: dict[str, _Group] = {}
        self._by_sequence: dict[str, _Group] = {}
        self._by_worker: dict[str, _Group] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._everyone)

    @property
    def awaits_sequences(self) -> bool:
        return bool(self._by_sequence or self._onlookers)

    def add(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._everyone[subscriber] = None
            for index, key in self._places(subscriber):
                index.setdefault(key, {})[subscriber] = None
            if subscriber.interest.everything:
                self._onlookers[subscriber] = None

    def remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._remove(subscriber)

    def clear(self) -> None:
        with self._lock:
            for subscriber in list(self._everyone):
                self._remove(subscriber)

    def tell(self, news: Sequence[News]) -> list[News]:
        """Hand news to those who want it; what is left of it for other processes. Jobs that have
        found a worker here are no news elsewhere."""
        if not self._everyone:
            return list(news)
        left: list[News] = []
        batches: dict[_Loop, list[tuple[Subscriber, News]]] = {}
        with self._lock:
            for item in news:
                remainder: News | None = item
                if isinstance(item, JobsScheduled):
                    listeners, taken = self._share_out(item, item.count or None)
                    if item.count and taken:
                        remainder = _less(item, taken)
                else:
                    listeners = self._interested(item)
                if remainder is not None:
                    left.append(remainder)
                for subscriber in (*listeners, *self._onlookers):
                    batches.setdefault(subscriber.loop, []).append((subscriber, item))
        for loop, batch in batches.items():
            self._on(loop, _deliver, batch)
        return left

    def idle(self, news: JobsScheduled) -> int:
        """How many have use for such jobs at this moment."""
        with self._lock:
            return sum(subscriber.is_idle() for subscriber in self._workers(news))

    def hand_out(self, news: JobsScheduled, shares: int | None) -> None:
        """Hand news of jobs to so many of the idle (None: all), and to the busy."""
        with self._lock:
            listeners, _ = self._share_out(news, shares)
            batches: dict[_Loop, list[tuple[Subscriber, News]]] = {}
            for subscriber in (*listeners, *self._onlookers):
                batches.setdefault(subscriber.loop, []).append((subscriber, news))
        for loop, batch in batches.items():
            self._on(loop, _deliver, batch)

    def say(self, hearing: Hearing) -> None:
        """Tell all subscribers whether news flows."""
        with self._lock:
            everyone = list(self._everyone)
        for subscriber in everyone:
            self._on(subscriber.loop, _say, subscriber, hearing)

    def nudge(self) -> None:
        """Something was committed that nobody announced: let one idle worker look."""
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
        self._on(chosen.loop, _say, chosen, Hearing(flows=True))

    def _share_out(
        self, news: JobsScheduled, shares: int | None
    ) -> tuple[Iterable[Subscriber], int]:
        """Who is to hear of jobs, and how many shares of the budget that takes."""
        idle: list[Subscriber] = []
        busy: list[Subscriber] = []
        for subscriber in self._workers(news):
            (idle if subscriber.is_idle() else busy).append(subscriber)
        if shares is not None and shares < len(idle):  # in turns, so that work is spread
            first = self._turn % len(idle)
            idle = [*idle[first:], *idle[:first]][:shares]
        self._turn += len(idle)
        for subscriber in idle:
            subscriber.told = True
        return (*idle, *busy), len(idle)

    def _workers(self, news: JobsScheduled) -> Iterable[Subscriber]:
        for subscriber in self._by_queue.get(news.queue, ()):
            if news.type in subscriber.interest.types:
                yield subscriber

    def _interested(self, news: SequenceEnded | OwnershipLost) -> Iterable[Subscriber]:
        if isinstance(news, SequenceEnded):
            return tuple(self._by_sequence.get(news.sequence_id, ()))
        if news.worker is not None:
            return tuple(self._by_worker.get(news.worker, ()))
        return [subscriber for group in self._by_worker.values() for subscriber in group]

    def _places(self, subscriber: Subscriber) -> Iterable[tuple[dict[str, _Group], str]]:
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
        self._onlookers.pop(subscriber, None)
        if subscriber not in self._everyone:
            return
        del self._everyone[subscriber]
        for index, key in self._places(subscriber):
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


def _less(news: JobsScheduled, taken: int) -> JobsScheduled | None:
    if taken >= news.count:
        return None
    return JobsScheduled(news.queue, news.type, news.count - taken, news.run_at)


def _deliver(batch: Iterable[tuple[Subscriber, News]]) -> None:
    for subscriber, news in batch:
        subscriber.told = False
        if subscriber.gone:
            continue
        try:
            subscriber.listener(news)
        except Exception:
            _log.exception("a listener raised on hearing news")


def _say(subscriber: Subscriber, hearing: Hearing) -> None:
    subscriber.told = False
    if not subscriber.gone:
        try:
            subscriber.hearing(hearing)
        except Exception:
            _log.exception("a subscriber raised on hearing of its notifier")
