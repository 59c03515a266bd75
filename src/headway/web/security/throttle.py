"""Compares secrets one after another, with a pause after a wrong one, so that guessing is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.web.problems import Refused

WRONG_COSTS = 0.3
"""Seconds between a wrong secret and the next comparison."""
MAX_WAITING = 16
"""Guesses that wait for their turn; further ones are refused."""
MAX_KNOWN = 256
"""Addresses that are remembered because the right secret came from them."""


class Throttle:
    """Compares the secrets that requests carry.

    An address that sent the right secret before has a line of its own; all other addresses share
    one. So guessing does not block programs that are known.
    """

    def __init__(self) -> None:
        self._strangers = _Line()
        self._known: dict[str, _Line] = {}

    async def compare(self, address: str, compare: Callable[[], str | None]) -> str | None:
        """The answer of `compare`, when its turn has come; None for a wrong secret."""
        actor = await self._known.get(address, self._strangers).compare(compare)
        if actor is not None:
            self._known[address] = self._known.pop(address, _Line())
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        return actor


class _Line:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._free_at = 0.0

    async def compare(self, compare: Callable[[], str | None]) -> str | None:
        if self._waiting >= MAX_WAITING:
            raise Refused(
                429,
                "too_many_guesses",
                "Too many wrong tokens or passwords; try again in a few seconds.",
                retry_after=round(MAX_WAITING * WRONG_COSTS) + 1,
            )
        self._waiting += 1
        try:
            async with self._turn:
                loop = asyncio.get_running_loop()
                await asyncio.sleep(self._free_at - loop.time())
                actor = compare()
                if actor is None:  # before the answer: hanging up does not avoid the pause
                    self._free_at = loop.time() + WRONG_COSTS
                return actor
        finally:
            self._waiting -= 1
