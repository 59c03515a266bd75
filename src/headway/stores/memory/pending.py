"""Which pending job comes next: one lane per queue and job type, merged by what a claim wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count

from headway.stores.memory.row import Row

Entry = tuple[int, datetime, str, int, Row]
"""(-priority, run_at, id, tick, row): the order of claims. Void unless it is `row.entry`, so that
nothing has to be searched for when a job leaves its lane."""


class Lane:
    """Pending jobs of one queue and type: those that were due when last looked at, and others."""

    __slots__ = ("due", "later")

    def __init__(self) -> None:
        self.due: list[Entry] = []
        self.later: list[tuple[datetime, int, Entry]] = []

    def promote(self, now: datetime) -> bool:
        """Move what has become due; whether anything may be."""
        later = self.later
        while later and later[0][0] <= now:
            entry = heappop(later)[2]
            if entry[4].entry is entry:
                heappush(self.due, entry)
        return bool(self.due)


class Lanes:
    __slots__ = ("_lanes", "_ticks")

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._ticks = count()

    def push(self, row: Row, now: datetime | None = None) -> None:
        """Give a pending job its place; without `now` the next claim finds out if it is due."""
        spec = row.spec
        lane = self._lanes.get((spec.queue, spec.type))
        if lane is None:
            lane = self._lanes[spec.queue, spec.type] = Lane()
        tick = next(self._ticks)
        run_at = row.run_at
        row.entry = entry = (-spec.priority, run_at, row.id, tick, row)
        if now is not None and run_at <= now:
            heappush(lane.due, entry)
        else:
            heappush(lane.later, (run_at, tick, entry))

    def take(self, queue: str, types: Sequence[str], now: datetime) -> Iterator[Row]:
        """Take jobs of a queue that are due, in the order of claims, for as long as asked."""
        lanes = [
            lane
            for name in dict.fromkeys(types)
            if (lane := self._lanes.get((queue, name))) is not None and lane.promote(now)
        ]
        heads = [(lane.due[0], lane) for lane in lanes]
        heapify(heads)
        while heads:
            entry, lane = heads[0]
            heappop(lane.due)
            if lane.due:
                heapreplace(heads, (lane.due[0], lane))
            else:
                heappop(heads)
            row = entry[4]
            if row.entry is not entry:
                continue
            if entry[1] > now:  # the clock has been set back since it was promoted
                heappush(lane.later, (entry[1], entry[3], entry))
                continue
            row.entry = None
            yield row
