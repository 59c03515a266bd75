"""Cancellations that a driver has dropped.

`asyncio.wait_for` of Python 3.11 returns, as if nothing had happened, when its task is cancelled at
the moment at which the answer is there; psycopg's pool, pymongo and nats wait with it. The task
would then never end for the code that cancelled it. But the task still counts the cancellation.
"""

from __future__ import annotations

import asyncio
from typing import Self


class Cancels:
    """`with Cancels():` around code that waits for a driver: a cancellation during the block is
    raised at its end, instead of its result or error."""

    __slots__ = ("_before", "_task")

    def __enter__(self) -> Self:
        self.forget()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Exception):
            self.check()

    def forget(self) -> None:
        """Ignore the cancellations before this call."""
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()

    def check(self) -> None:
        """Raise a cancellation before the end of the block."""
        if self._task is not None and self._task.cancelling() > self._before:
            raise asyncio.CancelledError
