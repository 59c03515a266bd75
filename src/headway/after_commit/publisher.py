"""Publishes the effects of a commit: wakes workers and waiters, gives events to the observers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from headway.after_commit.effects import Effects
from headway.after_commit.observer_group import Observers
from headway.domain.events import NotifierFailed
from headway.ports.notifications import JobsScheduled, Notification, SequenceEnded
from headway.ports.notifier import Notifier
from headway.ports.store import Store
from headway.runtime.store_errors import in_short

_log = logging.getLogger("headway")


class Publisher:
    """Gives committed changes to the notifier and the observers. It never raises: without a
    notification, workers find the jobs by polling."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier | None,
        observers: Observers,
        own_worker: Callable[[JobsScheduled, float], bool] | None = None,
    ) -> None:
        """`own_worker` is told of the jobs that its worker can claim, and in how many seconds. It
        returns whether that wakes the worker: then one worker less has to be woken."""
        self._store = store
        self._notifier = notifier
        self._observers = observers
        self._own_worker = own_worker
        self._publish_within = None if notifier is None else notifier.within(store.name)
        self._failed = False

    @property
    def watched(self) -> bool:
        """Whether an observer wants to hear of every job."""
        return self._observers.active

    async def publish(self, effects: Effects) -> None:
        notifications = self._publish_here(effects)
        if not notifications or self._notifier is None:
            return
        try:
            await self._notifier.publish(notifications)
        except Exception as error:
            self._observers.observe(NotifierFailed(None, in_short(error)))
            if not self._failed:
                _log.exception(
                    "notifications cannot be published; workers find jobs by polling meanwhile"
                )
            self._failed = True
        else:
            self._failed = False

    def publish_soon(self, effects: Effects) -> None:
        """From code that cannot await."""
        notifications = self._publish_here(effects)
        if notifications and self._notifier is not None:
            self._notifier.publish_soon(notifications)

    def wake_others(self, notification: JobsScheduled) -> None:
        """Wake other workers: the own one cannot use this."""
        if self._notifier is not None:
            self._notifier.publish_soon([notification])

    async def publish_with(self, tx: Any, effects: Effects) -> None:
        """When the caller's transaction commits, and not if it is rolled back: the store calls us
        after the commit, or the transaction itself sends the notifications. Where neither is
        possible, workers find the jobs by polling."""
        if self._sees_commit(tx, effects):
            return
        if self._publish_within is not None and (notifications := effects.notifications):
            await self._store.run_in(tx, self._publish_within, notifications)

    def publish_with_sync(self, tx: Any, effects: Effects) -> None:
        """The same on a sync connection."""
        if self._sees_commit(tx, effects):
            return
        if self._publish_within is not None and (notifications := effects.notifications):
            self._store.run_in_sync(tx, self._publish_within, notifications)

    def _sees_commit(self, tx: Any, effects: Effects) -> bool:
        return self._store.after_commit(tx, partial(self.publish_soon, effects))

    def _publish_here(self, effects: Effects) -> list[Notification]:
        """Tell the store, the observers and the own worker; the notifications for the others.
        Observers hear first: no job may run before they know that it was created."""
        for scheduled in effects.scheduled.values():
            self._store.expect(scheduled.queue, scheduled.run_at)
        if effects.events:
            self._observers.observe_all(effects.events)
        notifications: list[Notification]
        if self._own_worker is None:
            notifications = [*effects.scheduled.values()]
        else:
            notifications = self._for_others(effects, self._own_worker)
        notifications += effects.lost
        notifications += effects.changes
        if effects.ended and self._may_be_awaited():
            notifications += map(SequenceEnded, effects.ended)
        return notifications

    def _may_be_awaited(self) -> bool:
        """Whether anybody may wait for the end of a sequence. A worker's notifier knows; that of a
        client may not listen."""
        if self._notifier is None:
            return False
        return self._own_worker is None or self._notifier.wants(SequenceEnded)

    def _for_others(
        self, effects: Effects, own_worker: Callable[[JobsScheduled, float], bool]
    ) -> list[Notification]:
        for scheduled, seconds in effects.later:
            own_worker(scheduled, seconds)
        notifications: list[Notification] = []
        for scheduled in effects.scheduled.values():
            if not own_worker(scheduled, 0.0):
                notifications.append(scheduled)
            elif scheduled.count > 1:
                notifications.append(structs.replace(scheduled, count=scheduled.count - 1))
        return notifications
