"""How many transactions the handlers of a worker have open at once: as many as the store can give.
A handler that needs a further one waits here, with its lease renewed, and not at the store, where
waiting ends in an error."""

from __future__ import annotations

import asyncio
from collections import deque


class Permits:
    """The handler that asks first gets a permit first. Lives on one loop."""

    def __init__(self, count: int | None) -> None:
        """None: the store gives as many transactions as are asked for."""
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a permit. Whoever has one gives it back."""
        if self._free is None:
            return
        if self._free:
            self._free -= 1
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        try:
            await given
        except asyncio.CancelledError:
            if not given.cancelled():  # it was given at the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        if self._free is None:
            return
        while self._waiting:
            given = self._waiting.popleft()
            if not given.done():
                given.set_result(None)
                return
        self._free += 1
