"""claim and expired."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import ClaimedJob, JobRecord
from headway.domain.lease import Lease, check_lease_for
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.sql.dialect import SqlPart


class SqliteClaim(SqlPart):
    def claim(
        self, order: ClaimOrder, *, now: datetime | None = None
    ) -> Operation[list[ClaimedJob]]:
        check_lease_for(order.lease_for)
        present = self._dialect.now(now)
        claimed: list[ClaimedJob] = []
        if order.again:
            rows: Sequence[Row] = yield Statement(
                self._sql["reclaim"], (present, order.lease_for, order.token)
            )
            for queue in order.queues:
                claimed += self._to_claimed(
                    [row for row in rows if row[2] == queue.name], order.token
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
                ),
            )
            claimed += self._to_claimed(rows, order.token)
        return claimed

    def _to_claimed(self, rows: Sequence[Row], token: str) -> list[ClaimedJob]:
        if not rows:
            return []
        # Jobs that were started together share their times.
        stamps = {row[5] for row in rows}.union(row[6] for row in rows)
        times = {stamp: self._dialect.time(stamp) for stamp in stamps}
        until = self._dialect.time(rows[0][13])
        in_order = sorted(rows, key=lambda row: (-row[3], row[5], row[0]))
        return [
            ClaimedJob(
                id=row[0],
                type=row[1],
                queue=row[2],
                priority=row[3],
                input=row[4],
                run_at=times[row[5]],
                created_at=times[row[6]],
                attempts=row[7],
                losses=row[8],
                max_attempts=row[9],
                max_losses=row[10],
                timeout=row[11],
                lease=Lease(token, row[12], until),
                sequence_id=row[14],
                sequence_type=row[15],
                root_id=row[16],
                origin_id=row[17],
                position=row[18],
                has_blockers=bool(row[19]),
                trace=row[20],
            )
            for row in in_order
        ]

    @reading
    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        rows = yield Statement(self._sql["expired"], (self._dialect.now(now), limit), alone=True)
        return self._records(rows)

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """Nothing is remembered between claims."""
