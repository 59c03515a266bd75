"""Who hears what happens."""

from __future__ import annotations

from typing import Protocol

from headway.domain.events import Event


class Observer(Protocol):
    """Hears every lifecycle event after it is committed.

    Called from the worker's loop, from its heartbeat thread and from whoever uses a client, so
    `observe` must be safe to call from several threads and should not block. What it raises is
    swallowed and counted. One that takes long is put into a thread of its own; what it cannot keep
    up with there is dropped and counted.

    Three attributes are optional, and looked at when it is added. An observer whose `every_job` is
    false does not need to hear of every job that starts and completes, only of what needs
    somebody's attention. One that has `observe_all` is handed many events at once where there are
    many. One that has `tracing` (`headway.ports.tracer`) is asked for spans.
    """

    def observe(self, event: Event, /) -> None: ...
