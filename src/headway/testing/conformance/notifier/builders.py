"""What a conformance case is, and what the cases have in common."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import msgspec

from headway.ports.notifications import Interest, Notification
from headway.ports.notifier import Notifier, Reach

Make = Callable[[], Notifier]
Check = Callable[[Make], Awaitable[None]]

PATIENCE = 10.0
"""Seconds to wait for a notification."""
SILENCE = 0.3
"""Seconds after which a notification counts as not sent."""


class Case(msgspec.Struct, frozen=True):
    """One promise. `function` raises if it is broken."""

    name: str
    function: Check
    least: Reach = Reach.NOBODY
    """What a notifier must reach for the case to make sense."""
    counting: bool | None = None
    """For notifiers that keep budgets between processes, that do not, or for all."""

    def fits(self, reach: Reach, counts: bool) -> bool:
        return reach >= self.least and self.counting in (None, counts)


class Cases:
    """The cases of one file, in the order in which they are written."""

    def __init__(self, about: str, least: Reach = Reach.PROCESS) -> None:
        self.about = about
        self._least = least
        self.found: list[Case] = []

    def __call__(self, function: Check) -> Check:
        """Declare a case."""
        return self.requiring(self._least)(function)

    def requiring(self, least: Reach, *, counting: bool | None = None) -> Callable[[Check], Check]:
        """Declare a case for some notifiers only."""

        def declare(function: Check) -> Check:
            name: str = getattr(function, "__name__", repr(function))
            self.found.append(Case(f"{self.about}/{name}", function, least, counting))
            return function

        return declare


class Heard:
    """A listener that remembers, and can be waited for."""

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
            async with asyncio.timeout(PATIENCE):
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
    """Notifiers that are open, and closed afterwards."""
    async with AsyncExitStack() as stack:
        notifiers: list[Notifier] = []
        for _ in range(count):
            notifier = make()
            stack.push_async_callback(notifier.close)
            await notifier.open()
            notifiers.append(notifier)
        yield notifiers


async def silence() -> None:
    """Wait for what must not come."""
    await asyncio.sleep(SILENCE)


def interest_in(
    *, queue: str = "mail", type: str = "send", worker: str | None = None, **others: Any
) -> Interest:
    """A worker's."""
    return Interest(queues=frozenset((queue,)), types=frozenset((type,)), worker=worker, **others)


@contextmanager
def raises(kind: type[BaseException]) -> Generator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
