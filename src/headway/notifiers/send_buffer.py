"""Unsent notifications: those that arrive during one send go into the next, together."""

from __future__ import annotations

from collections.abc import Iterable

from headway.ports.notifications import (
    JobsScheduled,
    Notification,
    OwnershipLost,
    SchedulesChanged,
    SequenceEnded,
)

MOST = 10_000
"""Notifications per topic kept while nothing can be sent; polling finds what exceeds them."""


class SendBuffer:
    """Merges notifications: one per queue and type, one per sequence, one for all schedules. Used
    on one loop only."""

    def __init__(self) -> None:
        self._scheduled: dict[tuple[str, str], JobsScheduled] = {}
        self._ended: dict[str, SequenceEnded] = {}
        self._lost: dict[str, OwnershipLost] = {}
        self._changed: list[SchedulesChanged] = []

    def __len__(self) -> int:
        return len(self._scheduled) + len(self._ended) + len(self._lost) + len(self._changed)

    def put(self, notifications: Iterable[Notification]) -> None:
        for item in notifications:
            match item:
                case JobsScheduled():
                    key = (item.queue, item.type)
                    known = self._scheduled.get(key)
                    if known is not None:
                        self._scheduled[key] = known.joined(item)
                    elif len(self._scheduled) < MOST:
                        self._scheduled[key] = item
                case SequenceEnded() if len(self._ended) < MOST:
                    self._ended[item.sequence_id] = item
                case OwnershipLost() if len(self._lost) < MOST:
                    self._lost[item.job_id] = item
                case SchedulesChanged():
                    self._changed = [item]
                case _:
                    pass

    def take(self) -> list[Notification]:
        """Remove and return all notifications."""
        taken: list[Notification] = [
            *self._scheduled.values(),
            *self._ended.values(),
            *self._lost.values(),
            *self._changed,
        ]
        self._scheduled.clear()
        self._ended.clear()
        self._lost.clear()
        self._changed.clear()
        return taken
