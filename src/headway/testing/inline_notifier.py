"""A notifier that runs jobs when they are started."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from headway.notifiers.local import LocalNotifier
from headway.ports.notifications import JobsScheduled, Notification


class InlineNotifier(LocalNotifier):
    """A LocalNotifier that, while `inline` is set, also runs the jobs that were scheduled:
    `publish` waits for `run`, `publish_soon` calls `run_soon`."""

    def __init__(self, run: Callable[[], Awaitable[None]], run_soon: Callable[[], None]) -> None:
        super().__init__()
        self.inline = False
        self._run = run
        self._run_soon = run_soon

    async def publish(self, notifications: Sequence[Notification]) -> None:
        super().publish_soon(notifications)
        if self.inline and _has_jobs(notifications):
            await self._run()

    def publish_soon(self, notifications: Sequence[Notification]) -> None:
        super().publish_soon(notifications)
        if self.inline and _has_jobs(notifications):
            self._run_soon()


def _has_jobs(notifications: Sequence[Notification]) -> bool:
    return any(isinstance(item, JobsScheduled) for item in notifications)
