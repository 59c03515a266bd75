"""No notifier: nobody is woken, everybody looks for themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.errors import NotifierClosed
from headway.ports.notifications import EVERYTHING, Interest, News
from headway.ports.notifier import Attendant, Disposer, Listener, Reach
from headway.ports.statement import Operation


class NoNotifier:
    """Everything works, later, by polling."""

    reach = Reach.NOBODY

    def __init__(self) -> None:
        self._closed = False

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True

    async def publish(self, news: Sequence[News]) -> None:
        self._check_open()

    def publish_soon(self, news: Sequence[News]) -> None: ...

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = lambda: True,
        hearing: Attendant = lambda _: None,
    ) -> Disposer:
        self._check_open()
        return _nothing

    def wants(self, kind: type[News]) -> bool:
        return False

    def within(self, store: str) -> Callable[[Sequence[News]], Operation[None]] | None:
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise NotifierClosed("notifier")


async def _nothing() -> None: ...
