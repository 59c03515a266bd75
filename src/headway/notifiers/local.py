"""Notifications within one process: between its threads and event loops, without a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.errors import NotifierClosed
from headway.notifiers.subscribers import Subscriber, Subscribers
from headway.ports.notifications import EVERYTHING, Interest, Notification, SequenceEnded
from headway.ports.notifier import Disposer, Listener, NotifierStatus, Reach, StatusListener
from headway.ports.statement import Operation
from headway.runtime.forks import Forkable


class LocalNotifier(Forkable):
    """Delivers notifications to the subscribers of this process, each on its own loop.

    Thread-safe, and usable without opening it. Commits of other processes are found by polling.
    """

    reach = Reach.PROCESS

    def __init__(self) -> None:
        self._closed = False
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._subscribers = Subscribers()

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._subscribers.clear()

    async def publish(self, notifications: Sequence[Notification]) -> None:
        self._check_open()
        self.publish_soon(notifications)

    def publish_soon(self, notifications: Sequence[Notification]) -> None:
        self._subscribers.deliver(notifications)

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = lambda: True,
        on_status: StatusListener = lambda _: None,
    ) -> Disposer:
        self._check_open()
        subscriber = Subscriber(listener, interest, idle, on_status)
        self._subscribers.add(subscriber)
        on_status(NotifierStatus(connected=True))

        async def unsubscribe() -> None:
            self._subscribers.remove(subscriber)

        return unsubscribe

    def wants(self, kind: type[Notification]) -> bool:
        return kind is not SequenceEnded or self._subscribers.awaits_sequences

    def within(self, store: str) -> Callable[[Sequence[Notification]], Operation[None]] | None:
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise NotifierClosed("local notifier")
