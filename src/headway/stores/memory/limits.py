"""The states of queues, and claims by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import structs

from headway.domain.job import ClaimedJob, JobState
from headway.domain.lease import check_lease_for
from headway.domain.limits.queue_limits import QueueState
from headway.domain.limits.turns import KeyShare
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation
from headway.stores.memory.claim import MemoryClaim
from headway.stores.memory.row import JobRow
from headway.stores.memory.table import moment
from headway.stores.memory.transaction import MemoryTransaction, Record


class MemoryLimits(MemoryClaim):
    _transactions: set[MemoryTransaction]

    def queue_state(self, name: str, *, lock: bool = False) -> Operation[QueueState | None]:
        yield from ()
        if lock:
            self._lock_limits(name)
        return self._queue(name)

    def _lock_limits(self, name: str) -> Record[QueueState | None]:
        return self._lock_record(self._limits.setdefault(name, Record[QueueState | None](None)))

    def _queue(self, name: str) -> QueueState | None:
        state = self._limits_of(name)
        if state is None and name not in self._paused:
            return None
        return structs.replace(state or QueueState(name=name), paused_at=self._paused.get(name))

    def queue_states(self) -> Operation[list[QueueState]]:
        yield from ()
        states = map(self._queue, self._managed())
        return [state for state in states if state is not None]

    def save_queue(self, state: QueueState) -> Operation[None]:
        yield from ()
        self._lock_limits(state.name).content = state

    def running_keys(
        self, queue: str, *, by_key: bool = True
    ) -> Operation[Mapping[str | None, int]]:
        yield from ()
        running = {row: self._seen(row) for row in self._running.values()}
        for transaction in self._transactions:  # what ends in them has not ended yet
            running |= {row: self._seen(row) for row in transaction.journal.images}
        return Counter(
            row.spec.key if by_key else None
            for row, seen in running.items()
            if seen is not None and seen.state is JobState.RUNNING and row.spec.queue == queue
        )

    def priorities(self, queue: str) -> Operation[list[int]]:
        yield from ()
        return self._pending.priorities(queue)

    def keys_in_order(
        self, order: ClaimOrder, priority: int, limit: int, *, now: datetime | None = None
    ) -> Operation[list[str | None]]:
        yield from ()
        return [row.spec.key for row in self._due(order, priority, moment(now))[:limit]]

    def keys_in_turn(
        self,
        order: ClaimOrder,
        priority: int,
        limit: int,
        *,
        after: str = "",
        upto: str | None = None,
        without: Collection[str] = (),
        now: datetime | None = None,
    ) -> Operation[list[str]]:
        yield from ()
        due = {row.spec.key for row in self._due(order, priority, moment(now))}
        return sorted(
            key
            for key in due
            if key is not None
            and key > after
            and (upto is None or key <= upto)
            and key not in without
        )[:limit]

    def claim_keys(
        self,
        order: ClaimOrder,
        priority: int,
        shares: Sequence[KeyShare],
        *,
        now: datetime | None = None,
    ) -> Operation[list[ClaimedJob]]:
        yield from ()
        check_lease_for(order.lease_for)
        now = moment(now)
        until = now + timedelta(seconds=order.lease_for)
        left: Counter[str | None] = Counter()
        for share in shares:
            left[share.key] += share.limit
        claimed: list[ClaimedJob] = []
        for row in self._due(order, priority, now):
            if len(claimed) >= order.limit:
                break
            if left[row.spec.key] > 0 and self._lock_unowned(row):
                left[row.spec.key] -= 1
                row.entry = None
                claimed.append(self._take(row, order, now, until))
        return claimed

    def _due(self, order: ClaimOrder, priority: int, now: datetime) -> list[JobRow]:
        """The jobs that `claim` would hand out, in its order."""
        rows = (
            row
            for row in self._pending.of_queue(order.queues[0].name, order.types)
            if row.spec.priority == priority
            and row.run_at <= now
            and (order.most_losses is None or row.losses <= order.most_losses)
            and (row.owner is None or row.owner is self._tx)
        )
        return sorted(rows, key=lambda row: (row.run_at, row.id))
