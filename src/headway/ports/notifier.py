"""Who wakes sleepers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from headway.ports.notifications import EVERYTHING, Interest, News
from headway.ports.statement import Operation

Listener = Callable[[News], None]
Disposer = Callable[[], Awaitable[None]]


class Reach(IntEnum):
    """Whose news a notifier carries; who hears of less looks more often."""

    NOBODY = 0
    PROCESS = 1
    """What this process commits."""
    EVERYONE = 2
    """What any process commits by itself, but not what callers commit in their own transactions."""
    EVERY_COMMIT = 3
    """What is committed, by whomever."""


class Hearing(msgspec.Struct, frozen=True):
    """What a notifier says of itself to its subscribers: whether news reaches them.

    Whenever it is said, news may have been missed: look once for yourself.
    """

    flows: bool
    reason: str = ""
    """Why it does not."""


Attendant = Callable[[Hearing], None]


def _always() -> bool:
    return True


def _ignore(_: Hearing) -> None: ...


class Notifier(Protocol):
    """Carries news between processes. Only ever a hint: news may be lost, doubled or late, and
    everything still works, later, by polling. So nothing here fails because a server is away:
    it is tried again, in the background, for as long as it takes.

    `publish` and `subscribe` may be called from any task of any loop, `publish_soon` and `wants`
    from any thread. A listener is called on the loop that subscribed it, in the order of
    publication as far as its sender and it are alone; one that raises harms no other.

    **Budgets.** Of the subscribers that are interested in jobs, at most as many are handed a
    JobsScheduled as it has jobs, and only such as say that they are idle; counts add up. A busy
    subscriber is handed it as well and takes nothing from the budget: it looks when it has room.
    A notifier that cannot count across processes does so within each.
    """

    @property
    def reach(self) -> Reach: ...

    async def open(self) -> None:
        """Get ready; needs no server to be there. Opening again after `close` is fine."""
        ...

    async def close(self) -> None:
        """Send what is left, for a moment, and let go of everything. Closing twice is fine.
        Afterwards `publish` and `subscribe` raise NotifierClosed."""
        ...

    async def publish(self, news: Sequence[News]) -> None:
        """Tell everyone; returns when handed over, not when heard, nor even sent."""
        ...

    def publish_soon(self, news: Sequence[News]) -> None:
        """As `publish`, from code that cannot await; never raises, never blocks."""
        ...

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = _always,
        hearing: Attendant = _ignore,
    ) -> Disposer:
        """Hear the news that are of interest: the subscription is active when this returns, or
        `hearing` has been told that it cannot be yet. The disposer may be called again.

        `idle` says whether this subscriber has use for news of jobs; it may be asked from any
        thread, and must only look. `hearing` is called on the subscriber's loop when news stops to
        flow, when it flows again, and when some may have been missed.
        """
        ...

    def wants(self, kind: type[News]) -> bool:
        """Whether anybody may want such news; where not, making them can be saved."""
        ...

    def within(self, store: str) -> Callable[[Sequence[News]], Operation[None]] | None:
        """An operation that publishes with the commit of the transaction it is run in, and never
        if that is rolled back; None if this notifier cannot do so in the store of this name."""
        ...
