"""The states of queues, and claims by key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.domain.job import ClaimedJob
from headway.domain.lease import check_lease_for
from headway.domain.limits.queue_limits import (
    QueueState,
    decode_held_keys,
    decode_limits,
    encode_held_keys,
    encode_limits,
)
from headway.domain.limits.turns import KeyShare
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.sql.dialect import SqlPart, maybe_time

NO_KEY = [("", 0, None)]
"""The items of a claim from no key: a statement needs at least one."""


class SqlLimits(SqlPart):
    @reading
    def queue_state(self, name: str, *, lock: bool = False) -> Operation[QueueState | None]:
        statement = self._sql["queue_state_locked" if lock else "queue_state"]
        rows = yield Statement(statement, (name,), alone=not lock)
        if lock and not rows:
            yield Statement(self._sql["add_queue"], (name,))
            rows = yield Statement(statement, (name,))
        return self._state(rows[0]) if rows else None

    @reading
    def queue_states(self) -> Operation[list[QueueState]]:
        rows = yield Statement(self._sql["queue_states"], alone=True)
        return [self._state(row) for row in rows]

    def save_queue(self, state: QueueState) -> Operation[None]:
        yield Statement(
            self._sql["save_queue"],
            (
                state.name,
                encode_limits(state.limits),
                state.limited,
                self._dialect.stamp(state.paid_until),
                self._dialect.stamp(state.held_until),
                encode_held_keys(state.held_keys),
                state.refused,
            ),
            alone=True,
        )

    @reading
    def running_keys(
        self, queue: str, *, by_key: bool = True
    ) -> Operation[Mapping[str | None, int]]:
        rows = yield Statement(self._sql["running_keys"], (queue, by_key), alone=True)
        return dict(rows)

    @reading
    def keys_in_order(
        self, order: ClaimOrder, priority: int, limit: int, *, now: datetime | None = None
    ) -> Operation[list[str | None]]:
        rows = yield Statement(
            self._sql["keys_in_order"],
            (*self._due(order, priority, now), limit),
            alone=True,
        )
        return [row[0] for row in rows]

    @reading
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
        rows = yield Statement(
            self._sql["keys_in_turn"],
            (*self._due(order, priority, now), limit, after, upto, list(without)),
            alone=True,
        )
        return [row[0] for row in rows]

    def claim_keys(
        self,
        order: ClaimOrder,
        priority: int,
        shares: Sequence[KeyShare],
        *,
        now: datetime | None = None,
    ) -> Operation[list[ClaimedJob]]:
        check_lease_for(order.lease_for)
        rows: Sequence[Row] = yield Statement(
            self._sql["claim_keys"],
            (
                *self._due(order, priority, now),
                order.limit,
                sum(share.limit for share in shares if share.key is None),
                order.lease_for,
                order.token,
                order.worker,
            ),
            [
                (share.key, share.limit, self._dialect.stamp(share.since))
                for share in shares
                if share.key is not None
            ]
            or NO_KEY,
            alone=True,
        )
        return self._claimed_by_key(rows, order)

    def _claimed_by_key(self, rows: Sequence[Row], order: ClaimOrder) -> list[ClaimedJob]:
        """The claimed jobs in the order in which they should be run."""
        raise NotImplementedError

    def _due(self, order: ClaimOrder, priority: int, now: datetime | None) -> tuple[Any, ...]:
        """The parameters that select due jobs of the order's queue."""
        return (
            order.queues[0].name,
            priority,
            self._dialect.now(now),
            list(order.types),
            order.most_losses,
        )

    def _state(self, row: Row) -> QueueState:
        name, paused_at, limits, paid_until, held_until, held_keys, refused = row
        return QueueState(
            name=name,
            paused_at=maybe_time(self._dialect, paused_at),
            limits=decode_limits(limits),
            paid_until=maybe_time(self._dialect, paid_until),
            held_until=maybe_time(self._dialect, held_until),
            held_keys=decode_held_keys(held_keys),
            refused=bool(refused),
        )
