"""claim and expired."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import ClaimedJob, ClaimedJobs, JobRecord
from headway.domain.lease import check_lease_for
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.sql.columns import CLAIMED, JOB_COLUMNS, claim_reader
from headway.stores.sql.dialect import SqlPart, maybe_time

_ID, _QUEUE, _PRIORITY, _RUN_AT = map(CLAIMED.index, ("id", "queue", "priority", "run_at"))
_TIMES = [place for place, name in enumerate(CLAIMED) if JOB_COLUMNS[name] == "timestamptz"]
_read_claimed = claim_reader(time="times[{0}]", flag="bool({0})")


class SqliteClaim(SqlPart):
    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        check_lease_for(order.lease_for)
        present = self._dialect.now(now)
        claimed = ClaimedJobs()
        if order.again:
            rows: Sequence[Row] = yield Statement(
                self._sql["repeat_claim"], (present, order.lease_for, order.token)
            )
            for queue in order.queues:
                claimed += self._to_claimed(
                    [row for row in rows if row[_QUEUE] == queue.name], order.token
                )
            if claimed:
                return claimed
        for queue in order.queues:
            wanted = min(queue.limit, order.limit - len(claimed))
            if wanted <= 0:
                continue
            rows = yield Statement(
                self._sql["claim"],
                (
                    queue.name,
                    wanted,
                    present,
                    order.lease_for,
                    order.token,
                    order.worker,
                    list(order.types),
                    order.most_losses,
                    order.limited,
                ),
            )
            claimed += self._to_claimed(rows, order.token)
            if not rows and not order.limited:
                found = yield Statement(self._sql["limited"], (queue.name,))
                if found:
                    claimed.limited = {*claimed.limited, queue.name}
        return claimed

    @reading
    def priorities(self, queue: str) -> Operation[list[int]]:
        rows = yield Statement(self._sql["priorities"], (queue,), alone=True)
        return [row[0] for row in rows]

    def _claimed_by_key(self, rows: Sequence[Row], order: ClaimOrder) -> list[ClaimedJob]:
        return self._to_claimed(rows, order.token)

    def _to_claimed(self, rows: Sequence[Row], token: str) -> list[ClaimedJob]:
        if not rows:
            return []
        # Jobs that were started together share their times.
        stamps = {row[place] for place in _TIMES for row in rows}
        times = {stamp: maybe_time(self._dialect, stamp) for stamp in stamps}
        in_order = sorted(rows, key=lambda row: (-row[_PRIORITY], row[_RUN_AT], row[_ID]))
        return _read_claimed(in_order, token, times)

    @reading
    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        rows = yield Statement(self._sql["expired"], (self._dialect.now(now), limit), alone=True)
        return self._records(rows)

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """Nothing is remembered between claims."""
