"""Listeners, and other helpers that the cases share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from headway.ports.notifications import Interest, Notification
from headway.ports.notifier import Notifier, Reach
from headway.testing.conformance.case import Cases

Make = Callable[[], Notifier]

TIMEOUT = 10.0
"""Seconds to wait for a notification."""
SILENCE = 0.3
"""Seconds after which a notification counts as not sent."""


NotifierCases = Cases[Make, [Reach, bool]]


def reaching(least: Reach, *, counting: bool | None = None) -> Callable[[Reach, bool], bool]:
    """Fits notifiers that reach at least so far, and that keep budgets between processes, that do
    not, or both."""
    return lambda reach, counts: reach >= least and counting in (None, counts)


class RecordingListener:
    """Records its notifications, and can be waited for."""

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self._changed = asyncio.Event()

    def __call__(self, notification: Notification) -> None:
        self.notifications.append(notification)
        self._changed.set()

    async def until(self, *expected: Notification) -> None:
        """Wait until all of these were heard, in whatever order."""
        await self.until_count(len(expected))
        missing = [notification for notification in expected if notification not in self.plain()]
        assert not missing, f"{missing} is missing from {self.notifications}"

    async def until_count(self, count: int) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                while len(self.notifications) < count:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(
                f"only {self.notifications} was heard, {count} were expected"
            ) from None

    def plain(self) -> list[Notification]:
        """What was heard, without what notifiers add for themselves."""
        return [
            msgspec.structs.replace(notification, budget=None)
            if hasattr(notification, "budget")
            else notification
            for notification in self.notifications
        ]


@asynccontextmanager
async def opened(make: Make, count: int = 2) -> AsyncGenerator[list[Notifier]]:
    """Open notifiers, closed at the end."""
    async with AsyncExitStack() as stack:
        notifiers: list[Notifier] = []
        for _ in range(count):
            notifier = make()
            stack.push_async_callback(notifier.close)
            await notifier.open()
            notifiers.append(notifier)
        yield notifiers


async def silence() -> None:
    """Wait for a notification that must not come."""
    await asyncio.sleep(SILENCE)


def interest_in(
    *, queue: str = "mail", type: str = "send", worker: str | None = None, **others: Any
) -> Interest:
    """The interest of a worker."""
    return Interest(queues=frozenset((queue,)), types=frozenset((type,)), worker=worker, **others)
