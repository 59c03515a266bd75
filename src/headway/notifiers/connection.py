"""One connection of a notifier to its server, and the callbacks that it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.notifiers.packets import Message
from headway.ports.notifications import Topic


@dataclass(frozen=True, slots=True)
class ConnectionCallbacks:
    """Called by a connection, on the loop."""

    received: Callable[[bytes | str], None]
    """A packet arrived."""
    lost: Callable[[Exception], None]
    """The connection is lost. May be called more than once."""
    changed: Callable[[], None]
    """There was a commit without a notification."""


class NotifierConnection(Protocol):
    """One connection. Any error ends it."""

    counts: bool = False
    """Whether it keeps budgets, so that `take` is of use."""

    async def listen(self, topics: frozenset[Topic]) -> None:
        """Receive these topics, too; active when this returns."""
        ...

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        """Store the budgets, by name, then send the packets."""
        ...

    async def take(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        """Take up to so many shares of each named budget; returns how many were granted. An
        unknown budget grants all: without a budget every worker may look."""
        return [count for _, count in wanted]

    async def watch(self) -> None:
        """Raise if the connection is dead, even without an error so far."""
        ...

    async def close(self) -> None: ...
