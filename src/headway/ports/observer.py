"""Who hears what happens."""

from __future__ import annotations

from typing import Protocol

from headway.domain.events import Event


class Observer(Protocol):
    """Hears every lifecycle event after it is committed.

    Called from the worker's loop and from its heartbeat thread, so `observe` must be safe to call
    from several threads and must not block. What it raises is swallowed and counted.
    """

    def observe(self, event: Event) -> None: ...
