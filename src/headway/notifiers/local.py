"""News within one process: between its threads and event loops, without a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.errors import NotifierClosed
from headway.notifiers.subscribers import Hub, Subscriber
from headway.ports.notifications import EVERYTHING, Interest, News, SequenceEnded
from headway.ports.notifier import Attendant, Disposer, Hearing, Listener, Reach
from headway.ports.statement import Operation
from headway.runtime.forks import Forkable


class LocalNotifier(Forkable):
    """Hands news to the subscribers of this process, each on its own loop.

    Safe to use from any thread, and without opening it. What other processes do is not heard:
    those who wait poll.
    """

    reach = Reach.PROCESS

    def __init__(self) -> None:
        self._closed = False
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._hub = Hub()

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._hub.clear()

    async def publish(self, news: Sequence[News]) -> None:
        self._check_open()
        self.publish_soon(news)

    def publish_soon(self, news: Sequence[News]) -> None:
        self._hub.tell(news)

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = lambda: True,
        hearing: Attendant = lambda _: None,
    ) -> Disposer:
        self._check_open()
        subscriber = Subscriber(listener, interest, idle, hearing)
        self._hub.add(subscriber)
        hearing(Hearing(flows=True))

        async def unsubscribe() -> None:
            self._hub.remove(subscriber)

        return unsubscribe

    def wants(self, kind: type[News]) -> bool:
        return kind is not SequenceEnded or self._hub.awaits_sequences

    def within(self, store: str) -> Callable[[Sequence[News]], Operation[None]] | None:
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise NotifierClosed("local notifier")
