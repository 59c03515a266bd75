"""The notifier: wakes workers and callers that wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Protocol

import msgspec

from headway.ports.notifications import EVERYTHING, Interest, Notification
from headway.ports.statement import Operation

Listener = Callable[[Notification], None]
Disposer = Callable[[], Awaitable[None]]


class Reach(IntEnum):
    """Whose commits a notifier announces; the fewer, the more often subscribers poll."""

    NOBODY = 0
    PROCESS = 1
    """Commits of this process."""
    EVERYONE = 2
    """Commits of every process, except those of callers' own transactions."""
    EVERY_COMMIT = 3
    """All commits."""


class NotifierStatus(msgspec.Struct, frozen=True):
    """Whether notifications reach a subscriber. At each report some may have been missed, so the
    subscriber looks into the store once."""

    connected: bool
    reason: str = ""
    """Why they do not."""


StatusListener = Callable[[NotifierStatus], None]


def _always() -> bool:
    return True


def _ignore(_: NotifierStatus) -> None: ...


class Notifier(Protocol):
    """Carries notifications between processes. They are hints: they may be lost, doubled or late,
    and polling still finds everything, later. So no method fails because a server is away: the
    notifier connects again in the background, for as long as it takes.

    `publish` and `subscribe` may be called from any task of any loop, `publish_soon` and `wants`
    from any thread. A listener is called on the loop that subscribed it, in the order in which one
    publisher sent its notifications; a listener that raises does not affect the others.

    **Budgets.** A JobsScheduled of N jobs goes to at most N idle subscribers; counts add up. Busy
    subscribers get it as well, without a share of the budget: they look when they have room.
    A notifier that cannot count across processes counts within each process.
    """

    @property
    def reach(self) -> Reach: ...

    async def open(self) -> None:
        """Prepare; needs no server yet. May be called again after `close`."""
        ...

    async def close(self) -> None:
        """Send what is unsent, within a short time limit, and disconnect. May be called twice.
        Afterwards `publish` and `subscribe` raise NotifierClosed."""
        ...

    async def publish(self, notifications: Sequence[Notification]) -> None:
        """Queue notifications for sending; returns before they are sent."""
        ...

    def publish_soon(self, notifications: Sequence[Notification]) -> None:
        """`publish` for code that cannot await; never raises, never blocks."""
        ...

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = _always,
        on_status: StatusListener = _ignore,
    ) -> Disposer:
        """Call `listener` with the notifications that match `interest`. When this returns, the
        subscription is active, or `on_status` was told why it is not yet. The returned function
        unsubscribes; it may be called twice.

        `idle` says whether this subscriber wants notifications of jobs; it is called from any
        thread and must not block. `on_status` is called on the subscriber's loop when the
        connection is lost, when it is back, and when notifications may have been missed.
        """
        ...

    def wants(self, kind: type[Notification]) -> bool:
        """Whether there may be a subscriber for this kind; if not, callers need not publish it."""
        ...

    def within(self, store: str) -> Callable[[Sequence[Notification]], Operation[None]] | None:
        """An operation that publishes inside a transaction: notifications are sent with its commit,
        and not at all after a rollback. None if this notifier cannot do so in this store."""
        ...
