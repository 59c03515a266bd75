"""Observers: called with every lifecycle event."""

from __future__ import annotations

from typing import Protocol

from headway.domain.events import Event


class Observer(Protocol):
    """Called with every lifecycle event after its commit.

    The worker's loop, its heartbeat thread and users of a client call `observe`, so it must be
    thread-safe and should not block. Its errors are swallowed and counted. A slow observer is moved
    to a thread of its own; events that it cannot keep up with are dropped and counted.

    Four attributes are optional, and read when the observer is added. With `every_job` false it
    need not get the start and completion of every job, only what needs attention. With
    `observe_all` it gets many events in one call. With `tracer` (`headway.ports.tracer`) it is
    asked for spans. With `exceptions` true, events of failures hold the exception itself: its
    frames hold the arguments of the job, so drop the event soon.

    Two methods are optional. `app_opened(store)` is called when the app is opened, perhaps again.
    `app_closing(seconds)` is called before the app is closed, in a thread of its own, so that the
    observer can send what it holds; after so many seconds the app does not wait any more.
    """

    def observe(self, event: Event, /) -> None: ...
