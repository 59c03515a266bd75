"""Cancellations that a driver has dropped.

`asyncio.wait_for` of Python 3.11 returns, as if nothing had happened, when its task is cancelled at
the moment at which the answer is there; psycopg's pool, pymongo and nats wait with it. Whoever had
asked for the cancellation would wait for an end that does not come. But the task still counts it.
"""

from __future__ import annotations

import asyncio
from typing import Self


class Cancels:
    """`with Cancels():` around what waits for a driver: a cancellation that came meanwhile is
    raised when the block is left, whatever else it returned or raised."""

    __slots__ = ("_before", "_task")

    def __enter__(self) -> Self:
        self.forget()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Exception):
            self.check()

    def forget(self) -> None:
        """Those that have come so far are somebody else's to notice."""
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()

    def check(self) -> None:
        """Raise one that has come, before the block is left."""
        if self._task is not None and self._task.cancelling() > self._before:
            raise asyncio.CancelledError
