"""A link: one connection to whatever carries news, from the moment it is up until it is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.notifiers.packets import Message
from headway.ports.notifications import Topic


@dataclass(frozen=True, slots=True)
class Ears:
    """What a link calls, on the loop."""

    heard: Callable[[bytes | str], None]
    lost: Callable[[Exception], None]
    """The link is gone. May be called again."""
    nudge: Callable[[], None]
    """Something was committed that nobody announced."""


class Link(Protocol):
    """One connection. What it raises ends it."""

    counts: bool
    """Whether it keeps budgets, so that `take` can be asked."""

    async def listen(self, topics: frozenset[Topic]) -> None:
        """Hear these topics, too; active when this returns."""
        ...

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        """Send packets; before them the budgets, by the names of their hints."""
        ...

    async def take(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        """Take up to so many shares of each hint; how many there were. All of them if the hint is
        not known: no budget means that everyone may look."""
        ...

    async def watch(self) -> None:
        """Raise if the link is dead, even if nobody has said so."""
        ...

    async def close(self) -> None: ...
