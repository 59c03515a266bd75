"""No notifier: nobody is woken, everybody looks for themselves."""

from __future__ import annotations

from collections.abc import Sequence

from headway.domain.news import News
from headway.ports.notifier import Disposer, Listener


class NoNotifier:
    """Everything works, later, by polling."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def publish(self, news: Sequence[News]) -> None: ...

    def publish_soon(self, news: Sequence[News]) -> None: ...

    async def subscribe(self, listener: Listener) -> Disposer:
        return _nothing


async def _nothing() -> None: ...
