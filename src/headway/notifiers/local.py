"""News within one process: between its threads and event loops, without a server."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence

from headway.domain.news import News
from headway.ports.notifier import Disposer, Listener

_log = logging.getLogger("headway")


class LocalNotifier:
    """Hands news to every subscriber of this process, each on its own loop.

    Safe to use from any thread. What other processes do is not heard: those who wait poll.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: dict[int, tuple[asyncio.AbstractEventLoop, Listener]] = {}
        self._next = 0

    async def open(self) -> None: ...

    async def close(self) -> None:
        with self._lock:
            self._subscribers.clear()

    async def publish(self, news: Sequence[News]) -> None:
        self.publish_soon(news)

    def publish_soon(self, news: Sequence[News]) -> None:
        with self._lock:
            subscribers = list(self._subscribers.items())
        for key, (loop, listener) in subscribers:
            try:
                loop.call_soon_threadsafe(self._deliver, key, listener, tuple(news))
            except RuntimeError:  # its loop was closed without unsubscribing
                with self._lock:
                    self._subscribers.pop(key, None)

    async def subscribe(self, listener: Listener) -> Disposer:
        with self._lock:
            key = self._next
            self._next += 1
            self._subscribers[key] = asyncio.get_running_loop(), listener

        async def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(key, None)

        return unsubscribe

    def _deliver(self, key: int, listener: Listener, news: Sequence[News]) -> None:
        for item in news:
            if key not in self._subscribers:
                return
            try:
                listener(item)
            except Exception:
                _log.exception("a listener raised on hearing news")
