"""What to do when the store does not answer: try again, ever more slowly, and say so once."""

from __future__ import annotations

import asyncio
from random import random

from headway.after_commit.observers import Observers
from headway.domain.events import NotifierFailed, StoreFailed, WorkerRecovered, WorkerTroubled
from headway.errors import DataRefused, InvalidRequest, StoreUnreachable

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
NOTIFIER = "notifier"
"""The one part whose trouble is not the store's."""


def is_transient(error: BaseException) -> bool:
    """Whether the store is away: then nothing at all can be stored."""
    return isinstance(error, (StoreUnreachable, OSError))


def is_refusal(error: BaseException) -> bool:
    """Whether the data itself is at fault. Whatever else goes wrong is no fault of a job's."""
    return isinstance(error, (DataRefused, InvalidRequest))


def in_short(error: BaseException) -> str:
    """The error's first line: databases quote rows, and with them payloads, in the others."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


class Trouble:
    """The trouble of one part of a worker: reported when it begins and when it is over.

    Used by one task, or one thread, at a time.
    """

    __slots__ = ("_failures", "_observers", "_part", "_worker")

    def __init__(self, worker: str, part: str, observers: Observers) -> None:
        self._worker = worker
        self._part = part
        self._observers = observers
        self._failures = 0

    @property
    def part(self) -> str:
        return self._part

    @property
    def failures(self) -> int:
        """How many times in a row it has gone wrong."""
        return self._failures

    def began(self, error: BaseException) -> float:
        """Note an error; the seconds to wait before the next try."""
        return self.began_with(in_short(error))

    def began_with(self, described: str) -> float:
        """The same, with the error in words."""
        self._failures += 1
        observe = self._observers.observe
        if self._failures == 1:
            observe(WorkerTroubled(self._worker, self._part, described))
        if self._part == NOTIFIER:
            observe(NotifierFailed(self._worker, described))
        else:
            observe(StoreFailed(self._worker, self._part, described))
        ceiling = min(FIRST_PAUSE * 2.0 ** min(self._failures - 1, 30), LONGEST_PAUSE)
        return ceiling * (0.5 + random() / 2)

    def over(self) -> None:
        """It worked."""
        if self._failures:
            self._failures = 0
            self._observers.observe(WorkerRecovered(self._worker, self._part))


async def sleep_unless(stopped: asyncio.Event, seconds: float) -> bool:
    """Wait, but no longer than until `stopped`; whether it is."""
    try:
        async with asyncio.timeout(seconds):
            await stopped.wait()
    except TimeoutError:
        pass
    return stopped.is_set()
