"""The sync client of an app: it opens and closes its own store and notifier."""

from __future__ import annotations

import atexit
import threading
from typing import Self

from headway.after_commit.observer_group import Observers
from headway.client.sync_client import SyncClient
from headway.client.sync_schedules import SyncSchedules
from headway.jobs.registry import Registry
from headway.ports.clock import Clock
from headway.ports.codec import Codec
from headway.ports.notifier import Notifier
from headway.ports.store import Store
from headway.runtime.forks import Forkable
from headway.runtime.loop_thread import Portal
from headway.runtime.shared_resource import SharedResource, close_both, open_both


class SyncHeadway(SyncClient, Forkable):
    """What `app.sync` gives. Safe to use from any number of threads."""

    def __init__(
        self,
        store: SharedResource[Store],
        notifier: SharedResource[Notifier],
        *,
        registry: Registry,
        observers: Observers,
        codec: Codec,
        clock: Clock,
    ) -> None:
        super().__init__(
            store.resource,
            notifier=notifier.resource,
            registry=registry,
            observers=observers,
            codec=codec,
            clock=clock,
        )
        self.schedules = SyncSchedules(
            store.resource,
            self,
            declared=registry.schedules(),
            observers=observers,
            clock=clock,
            publisher=self._publisher,
        )
        self._resources = store, notifier
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._portal: Portal | None = None
        self._lock = threading.Lock()
        atexit.unregister(self.close)

    def open(self) -> None:
        """`app.sync` does it. Opening twice is fine."""
        with self._lock:
            if self._portal is not None:
                return
            portal = Portal()
            try:
                portal.call(open_both(*self._resources))
            except BaseException:
                portal.close()
                raise
            self._portal = portal
            atexit.register(self.close)

    def close(self) -> None:
        """Closing twice is fine; `app.sync` opens again."""
        with self._lock:
            portal, self._portal = self._portal, None
            if portal is None:
                return
            atexit.unregister(self.close)
            try:
                portal.call(close_both(*self._resources))
            finally:
                portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
