"""The pending jobs in the order of claims: a heap per queue and job type, merged by each claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count

from headway.stores.memory.row import JobRow

Entry = tuple[int, datetime, str, int, JobRow]
"""(-priority, run_at, id, tick, row): sorts in the order of claims. An entry is valid while it is
`row.entry`; a job that is no longer pending leaves its entry behind, and `take` skips it."""


class PendingHeap:
    """Pending jobs of one queue and type: those that were due at the last claim, and later ones."""

    __slots__ = ("due", "later")

    def __init__(self) -> None:
        self.due: list[Entry] = []
        self.later: list[tuple[datetime, int, Entry]] = []

    def promote(self, now: datetime) -> bool:
        """Move entries that have become due; whether there may be due jobs."""
        later = self.later
        while later and later[0][0] <= now:
            entry = heappop(later)[2]
            if entry[4].entry is entry:
                heappush(self.due, entry)
        return bool(self.due)


class PendingJobs:
    __slots__ = ("_heaps", "_ticks")

    def __init__(self) -> None:
        self._heaps: dict[tuple[str, str], PendingHeap] = {}
        self._ticks = count()

    def push(self, row: JobRow, now: datetime | None = None) -> None:
        """Add a pending job; without `now` the next claim finds out whether it is due."""
        spec = row.spec
        heap = self._heaps.get((spec.queue, spec.type))
        if heap is None:
            heap = self._heaps[spec.queue, spec.type] = PendingHeap()
        tick = next(self._ticks)
        run_at = row.run_at
        row.entry = entry = (-spec.priority, run_at, row.id, tick, row)
        if now is not None and run_at <= now:
            heappush(heap.due, entry)
        else:
            heappush(heap.later, (run_at, tick, entry))

    def priorities(self, queue: str) -> list[int]:
        """Of the pending jobs of a queue, highest first."""
        types = [type for name, type in self._heaps if name == queue]
        return sorted({row.spec.priority for row in self.of_queue(queue, types)}, reverse=True)

    def of_queue(self, queue: str, types: Iterable[str]) -> Iterator[JobRow]:
        """The pending jobs of a queue, in no order."""
        for type in dict.fromkeys(types):
            heap = self._heaps.get((queue, type))
            if heap is not None:
                entries = (*heap.due, *(entry for _, _, entry in heap.later))
                yield from (entry[4] for entry in entries if entry[4].entry is entry)

    def take(self, queue: str, types: Sequence[str], now: datetime) -> Iterator[JobRow]:
        """Remove due jobs of a queue one by one, in the order of claims."""
        heaps = [
            heap
            for name in dict.fromkeys(types)
            if (heap := self._heaps.get((queue, name))) is not None and heap.promote(now)
        ]
        heads = [(heap.due[0], heap) for heap in heaps]
        heapify(heads)
        while heads:
            entry, heap = heads[0]
            heappop(heap.due)
            if heap.due:
                heapreplace(heads, (heap.due[0], heap))
            else:
                heappop(heads)
            row = entry[4]
            if row.entry is not entry:
                continue
            if entry[1] > now:  # the clock has been set back since it was promoted
                heappush(heap.later, (entry[1], entry[3], entry))
                continue
            row.entry = None
            yield row
