"""No notifier: workers and callers that wait find everything by polling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.errors import NotifierClosed
from headway.ports.notifications import EVERYTHING, Interest, Notification
from headway.ports.notifier import Disposer, Listener, Reach, StatusListener
from headway.ports.statement import Operation


class NoNotifier:
    """Publishes nothing and has no subscribers."""

    reach = Reach.NOBODY

    def __init__(self) -> None:
        self._closed = False

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True

    async def publish(self, notifications: Sequence[Notification]) -> None:
        self._check_open()

    def publish_soon(self, notifications: Sequence[Notification]) -> None: ...

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = lambda: True,
        on_status: StatusListener = lambda _: None,
    ) -> Disposer:
        self._check_open()
        return _nothing

    def wants(self, kind: type[Notification]) -> bool:
        return False

    def within(self, store: str) -> Callable[[Sequence[Notification]], Operation[None]] | None:
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise NotifierClosed("notifier")


async def _nothing() -> None: ...
