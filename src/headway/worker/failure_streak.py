"""Repeated tries of a worker's parts: the pauses grow while failures go on."""

from __future__ import annotations

import asyncio
from random import random

from headway.after_commit.observer_group import Observers
from headway.domain.events import NotifierFailed, StoreFailed, WorkerRecovered, WorkerTroubled
from headway.runtime.store_errors import in_short

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
NOTIFIER = "notifier"
"""The only part of a worker whose failures are not the store's."""


class FailureStreak:
    """Failures in a row of one part of a worker. Used by one task, or one thread, at a time."""

    __slots__ = ("_observers", "_worker", "failures", "part")

    def __init__(self, worker: str, part: str, observers: Observers) -> None:
        self._worker = worker
        self._observers = observers
        self.part = part
        self.failures = 0

    def failed(self, error: BaseException | str) -> float:
        """Count a failure; the seconds to wait before the next try."""
        text = error if isinstance(error, str) else in_short(error)
        self.failures += 1
        observe = self._observers.observe
        if self.failures == 1:
            observe(WorkerTroubled(self._worker, self.part, text))
        if self.part == NOTIFIER:
            observe(NotifierFailed(self._worker, text))
        else:
            observe(StoreFailed(self._worker, self.part, text))
        ceiling = min(FIRST_PAUSE * 2.0 ** min(self.failures - 1, 30), LONGEST_PAUSE)
        return ceiling * (0.5 + random() / 2)

    def ended(self) -> None:
        """A try succeeded."""
        if self.failures:
            self.failures = 0
            self._observers.observe(WorkerRecovered(self._worker, self.part))


async def sleep_unless(stopped: asyncio.Event, seconds: float | None) -> bool:
    """Sleep for so many seconds (None: without end), or until `stopped` is set; whether it is."""
    try:
        async with asyncio.timeout(seconds):
            await stopped.wait()
    except TimeoutError:
        pass
    return stopped.is_set()
