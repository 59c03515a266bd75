"""The verbs of a store for the limits of queues and for claims by key: a part of its operations.
Its promises are in `headway.ports.store`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headway.domain.job import ClaimedJob
from headway.domain.limits.queue_limits import QueueState
from headway.domain.limits.turns import KeyShare
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation


class LimitOperations(Protocol):
    """Nothing happens until a store runs the operation that a verb returns."""

    def queue_state(self, name: str, *, lock: bool = False) -> Operation[QueueState | None]:
        """The state of a queue; None: nothing is kept of it. With `lock`, held until the
        transaction ends, also if nothing was kept of it: a claimer that is frozen meanwhile loses
        its transaction soon."""
        ...

    def queue_states(self) -> Operation[list[QueueState]]:
        """All queues of which anything is kept, by name."""
        ...

    def save_queue(self, state: QueueState) -> Operation[None]:
        """Keep a queue's state, but for `paused_at`. The caller has locked it."""
        ...

    def running_keys(
        self, queue: str, *, by_key: bool = True
    ) -> Operation[Mapping[str | None, int]]:
        """Numbers of running jobs by key, or of all of them under None; jobs whose lease has
        expired are running until they are given back."""
        ...

    def priorities(self, queue: str) -> Operation[list[int]]:
        """The priorities of the queue's pending jobs, highest first."""
        ...

    def keys_in_order(
        self, order: ClaimOrder, priority: int, limit: int, *, now: datetime | None = None
    ) -> Operation[list[str | None]]:
        """The keys of the first jobs of the order's queue and this priority that `claim` would hand
        out, one for each job."""
        ...

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
        """Keys with jobs of the order's queue and this priority that `claim` would hand out, by
        Unicode code points: the first ones after `after`, none after `upto`."""
        ...

    def claim_keys(
        self,
        order: ClaimOrder,
        priority: int,
        shares: Sequence[KeyShare],
        *,
        now: datetime | None = None,
    ) -> Operation[list[ClaimedJob]]:
        """Hand out jobs of the order's queue and this priority as `claim` does, of each key the
        first ones, up to its share. Passes over jobs that another transaction has locked."""
        ...
