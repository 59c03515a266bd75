"""News that waits to be sent: what comes in during one send goes into the next, together."""

from __future__ import annotations

from collections.abc import Iterable

from headway.ports.notifications import JobsScheduled, News, OwnershipLost, SequenceEnded

MOST = 10_000
"""Pieces of news of a kind that are kept while nothing can be sent; who misses more looks."""


class Outbox:
    """Merges what it is given: one piece of news per queue and type, one per sequence. Used on
    one loop."""

    def __init__(self) -> None:
        self._scheduled: dict[tuple[str, str], JobsScheduled] = {}
        self._ended: dict[str, SequenceEnded] = {}
        self._lost: dict[str, OwnershipLost] = {}

    def __len__(self) -> int:
        return len(self._scheduled) + len(self._ended) + len(self._lost)

    def put(self, news: Iterable[News]) -> None:
        for item in news:
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
                case _:
                    pass

    def take(self) -> list[News]:
        """All of it; the outbox is empty afterwards."""
        taken: list[News] = [
            *self._scheduled.values(),
            *self._ended.values(),
            *self._lost.values(),
        ]
        self._scheduled.clear()
        self._ended.clear()
        self._lost.clear()
        return taken
