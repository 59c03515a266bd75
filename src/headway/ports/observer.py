"""Who hears what happens."""

from __future__ import annotations

from typing import Protocol

from headway.domain.events import Event


class Observer(Protocol):
    """Hears every lifecycle event after it is committed.

    Called from the worker's loop and from its heartbeat thread, so `observe` must be safe to call
    from several threads and must not block. What it raises is swallowed and counted.

    An observer that has an attribute `every_job` that is false when it is added does not need to
    hear of every job that starts and completes, only of what needs somebody's attention.
    """

    def observe(self, event: Event) -> None: ...
