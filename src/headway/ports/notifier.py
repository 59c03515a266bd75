"""Who wakes sleepers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from headway.domain.news import News

Listener = Callable[[News], None]
Disposer = Callable[[], Awaitable[None]]


class Notifier(Protocol):
    """Carries news between processes. Only ever a hint: news may be lost, doubled or late, and
    everything still works, later, by polling.

    `publish` may be called from any task of any loop and, as `publish_soon`, from any thread.
    A listener is called on the loop that subscribed it; one that raises harms no other.
    """

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Closing twice is fine."""
        ...

    async def publish(self, news: Sequence[News]) -> None:
        """Tell everyone; returns when handed over, not when heard."""
        ...

    def publish_soon(self, news: Sequence[News]) -> None:
        """As `publish`, from code that cannot await; never raises, never blocks."""
        ...

    async def subscribe(self, listener: Listener) -> Disposer:
        """Hear all news from now on: the subscription is active when this returns."""
        ...
