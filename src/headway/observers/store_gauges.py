"""Gauges read from the store at each collection, at bounded cost: waiting and running jobs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import datetime

import msgspec

from headway.domain.job import JobState
from headway.domain.queries import LATELY, Tally, completed_per_second, is_alive
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations, Store
from headway.runtime.forks import Forkable

FRESH_FOR = 5.0
"""Seconds for which an answer is reused."""
TIMEOUT = 3.0
"""Seconds to wait for the store's answer."""


class PermitGauge(msgspec.Struct, frozen=True):
    """The permits of a queue that limits how many jobs run at once."""

    used: int
    most: int

    @property
    def free(self) -> int:
        return max(self.most - self.used, 0)


class StoreGauges(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    """The time of the store's clock."""
    tallies: list[Tally]
    per_second: dict[str, float]
    """Completed jobs per second in the last minute, by queue."""
    paused: frozenset[str]
    held: frozenset[str] = frozenset()
    """Queues of which nothing is started until a time."""
    permits: dict[str, PermitGauge] = {}
    """By queue."""
    workers: int
    attended: frozenset[str]
    """The job types that living workers run."""

    def oldest_waiting(self) -> dict[tuple[str, str], float]:
        """Seconds that the oldest due job has waited, by type and queue."""
        return {
            (each.type, each.queue): max((self.at - each.oldest).total_seconds(), 0.0)
            for each in self.tallies
            if each.state is JobState.PENDING and each.due and each.oldest is not None
        }


class StoreGaugeReader(Forkable):
    """Reads the gauges of a store, from any thread; waits at most `TIMEOUT` for the store."""

    def __init__(self, store: Store, fresh_for: float = FRESH_FOR) -> None:
        self._store = store
        self._fresh_for = fresh_for
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._found: StoreGauges | None = None
        self._found_at = float("-inf")

    def read(self) -> StoreGauges | None:
        """The gauges; None if the store does not answer."""
        with self._lock:
            if time.monotonic() - self._found_at < self._fresh_for:
                return self._found
            asking = self._asking
            if asking is None or not asking.is_alive():
                asking = self._asking = threading.Thread(
                    target=self._ask, name="headway-store-gauges", daemon=True
                )
                asking.start()
        asking.join(TIMEOUT)
        return None if asking.is_alive() else self._found

    def _ask(self) -> None:
        try:
            found = self._store.run_sync(read_gauges, self._store)
        except Exception:
            found = None
        self._found = found
        if found is not None:
            self._found_at = time.monotonic()


@reading
def read_gauges(store: Operations) -> Operation[StoreGauges]:
    now = yield from store.time()
    tallies = yield from store.tally(now=now)
    ended = yield from store.throughput(*LATELY, now=now)
    queues = yield from store.queue_states()
    workers = yield from store.workers()
    alive = [worker for worker in workers if is_alive(worker, now)]
    running: Counter[str] = Counter()
    for each in tallies:
        if each.state is JobState.RUNNING:
            running[each.queue] += each.count
    return StoreGauges(
        at=now,
        tallies=tallies,
        per_second=completed_per_second(ended),
        paused=frozenset(queue.name for queue in queues if queue.paused_at is not None),
        held=frozenset(
            queue.name
            for queue in queues
            if queue.held_until is not None and queue.held_until > now
        ),
        permits={
            queue.name: PermitGauge(running[queue.name], most)
            for queue in queues
            if (most := queue.effective.running) is not None
        },
        workers=len(alive),
        attended=frozenset(type_ for worker in alive for type_ in worker.types),
    )
