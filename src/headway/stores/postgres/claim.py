"""claim and expired, with the bounds of what this process has looked at before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from headway.domain.job import ClaimedJob, ClaimedJobs, JobRecord
from headway.domain.lease import check_lease_for
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.postgres import reap_bounds
from headway.stores.postgres.claim_bounds import ClaimBounds
from headway.stores.postgres.reap_bounds import ReapBounds
from headway.stores.sql.columns import claim_reader, with_text_ids
from headway.stores.sql.dialect import SqlPart

_read_claimed = claim_reader()


class PostgresClaim(SqlPart):
    _claim_bounds: dict[tuple[str, ...], ClaimBounds]
    """By the job types of the claim."""
    _reap_bounds: ReapBounds

    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        check_lease_for(order.lease_for)
        if order.again:
            rows: Sequence[Row] = yield Statement(
                self._sql["repeat_claim"], (now, order.lease_for, order.token), alone=True
            )
            if rows:
                return ClaimedJobs(_in_order(_to_claimed(rows, order.token), order))
        if order.limit <= 0:
            return ClaimedJobs()
        bounds = self._claim_bounds.setdefault(order.types, ClaimBounds())
        # A given `now` may lie before what was claimed already: trust no bound.
        look_around = now is not None or bounds.should_look_around(order.queues)
        if not look_around:
            claimed = yield from self._claim_from(bounds, order, now)
            if claimed or not bounds.was_hinted(order.queues):
                return claimed
        started = time.monotonic()
        names = [queue.name for queue in order.queues]
        found = yield Statement(self._sql["priorities"], (names,), alone=True)
        bounds.learn(order.queues, found)
        claimed = yield from self._claim_from(bounds, order, now)
        bounds.looked_around(order.queues, time.monotonic() - started)
        return claimed

    def _claim_from(
        self, bounds: ClaimBounds, order: ClaimOrder, now: datetime | None
    ) -> Operation[ClaimedJobs]:
        claimed: list[ClaimedJob] = []
        groups = bounds.groups(order.queues, order.limit)
        for group, most in groups:
            wanted = min(most, order.limit - len(claimed))
            if wanted <= 0:
                break
            rows: Sequence[Row] = yield Statement(
                self._sql["claim"],
                (
                    now,
                    order.lease_for,
                    order.token,
                    order.worker,
                    list(order.types),
                    wanted,
                    order.most_losses,
                    order.limited,
                ),
                group,
                alone=len(groups) == 1,
            )
            claimed += _to_claimed(rows, order.token)
        claimed = _in_order(claimed, order)
        if order.most_losses is None:  # else jobs that were left may lie below
            bounds.advance(claimed)
        answer = ClaimedJobs(claimed)
        if bounds.limited and not order.limited:
            answer.limited = {each.name for each in order.queues} & bounds.limited
        return answer

    @reading
    def priorities(self, queue: str) -> Operation[list[int]]:
        rows = yield Statement(self._sql["priorities"], ([queue],), alone=True)
        return sorted((row[1] for row in rows if row[1] is not None), reverse=True)

    def _claimed_by_key(self, rows: Sequence[Row], order: ClaimOrder) -> list[ClaimedJob]:
        return _in_order(_to_claimed(rows, order.token), order)

    def expect(self, queue: str, run_at: datetime | None) -> None:
        for bounds in self._claim_bounds.values():
            bounds.expect(queue, run_at)

    @reading
    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        # A given `now` may lie anywhere: trust no bound.
        window = self._reap_bounds.window() if now is None else reap_bounds.EVERYTHING
        began = time.monotonic()
        rows = yield Statement(self._sql["expired"], (now, limit, window), alone=True)
        if now is None:
            self._reap_bounds.looked(window, began, found_all=len(rows) < limit)
        return self._records(rows)


def _in_order(claimed: list[ClaimedJob], order: ClaimOrder) -> list[ClaimedJob]:
    """As they should be run: RETURNING gives them in physical order."""
    if len(claimed) > 1:
        place = {queue.name: place for place, queue in enumerate(order.queues)}
        claimed.sort(key=lambda job: (place[job.queue], -job.priority, job.run_at, job.id))
    return claimed


def _to_claimed(rows: Sequence[Row], token: str) -> list[ClaimedJob]:
    if rows and type(rows[0][0]) is not str:  # on a connection of the caller's
        rows = with_text_ids(rows)
    return _read_claimed(rows, token, {})
