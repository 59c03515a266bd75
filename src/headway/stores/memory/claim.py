"""Handing out jobs and keeping the leases on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from headway.domain.job import ClaimedJob, JobRecord, JobState
from headway.domain.lease import Held, Lease, Verdict, check_lease_for
from headway.domain.lifecycle import judge_lease
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation
from headway.stores.memory.row import Row, record, root_id
from headway.stores.memory.table import Table, moment


class Claiming(Table):
    def __init__(self) -> None:
        super().__init__()
        self._paused: dict[str, datetime | None] = {}
        """When queues were paused; None for those resumed since."""

    def claim(
        self, order: ClaimOrder, *, now: datetime | None = None
    ) -> Operation[list[ClaimedJob]]:
        yield from ()
        check_lease_for(order.lease_for)
        now = moment(now)
        until = now + timedelta(seconds=order.lease_for)
        if self._tx is not None:  # what other claimers passed over is ours to see
            for row in self._tx.journal.images:
                if not row.dead:
                    self._place(row)
        claimed: list[ClaimedJob] = []
        if order.again and (claimed := self._taken_before(order, now, until)):
            return claimed
        for queue in order.queues:
            if self._paused.get(queue.name) is not None:
                continue
            rows: Iterable[Row] = self._lanes.take(queue.name, order.types, now)
            left: list[Row] = []
            if order.most_losses is not None:
                rows = _lost_at_most(order.most_losses, rows, left)
            wanted = min(queue.limit, order.limit - len(claimed))
            if wanted > 0:
                free = rows if self._journal is None else filter(self._pass, rows)
                claimed += [self._hand_out(row, order, now, until) for row in islice(free, wanted)]
            for row in left:
                self._lanes.push(row, now)
        return claimed

    def _taken_before(self, order: ClaimOrder, now: datetime, until: datetime) -> list[ClaimedJob]:
        """What an earlier claim with this token took, whose answer was lost."""
        taken = [
            row
            for row in self._running.values()
            if row.token == order.token
            and self._extend_one(Held(row.id, order.token), until, now) is Verdict.APPLIED
        ]
        place = {queue.name: place for place, queue in enumerate(order.queues)}
        taken.sort(key=lambda row: (place[row.spec.queue], -row.spec.priority, row.run_at, row.id))
        return [self._handed_out(row, order.token, until) for row in taken]

    def _pass(self, row: Row) -> bool:
        """Whether a row may be claimed. One that an open transaction owns is passed over; it gets
        its place back when that transaction ends."""
        if row.owner is not None and row.owner is not self._tx:
            return False
        return self._grasp(row.id) is not None

    def _hand_out(self, row: Row, order: ClaimOrder, now: datetime, until: datetime) -> ClaimedJob:
        row.state = JobState.RUNNING
        row.token = order.token
        row.until = until
        row.version += 1
        row.worker = order.worker
        row.started_at = now
        self._running[row.id] = row
        return self._handed_out(row, order.token, until)

    def _handed_out(self, row: Row, token: str, until: datetime) -> ClaimedJob:
        spec = row.spec
        first = row.first or row
        return ClaimedJob(
            id=row.id,
            type=spec.type,
            queue=spec.queue,
            priority=spec.priority,
            input=row.input,
            run_at=row.run_at,
            created_at=row.created_at,
            attempts=row.attempts,
            losses=row.losses,
            max_attempts=spec.max_attempts,
            max_losses=spec.max_losses,
            timeout=spec.timeout,
            lease=Lease(token, row.version, until),
            sequence_id=first.id,
            sequence_type=first.spec.sequence_type or first.spec.type,
            root_id=root_id(row),
            origin_id=spec.origin_id,
            position=spec.position,
            has_blockers=bool(row.blockers),
            trace=spec.trace,
        )

    def extend(
        self,
        held: Sequence[Held],
        lease_for: float,
        *,
        late: bool = False,
        now: datetime | None = None,
    ) -> Operation[list[Verdict]]:
        yield from ()
        check_lease_for(lease_for)
        now = moment(now)
        until = now + timedelta(seconds=lease_for)
        return [self._extend_one(lease, until, now, late=late) for lease in held]

    def _extend_one(
        self, lease: Held, until: datetime, now: datetime, *, late: bool = False
    ) -> Verdict:
        row = self._rows.get(lease.job_id)
        seen = None if row is None else self._seen(row)
        if row is None or seen is None:
            return Verdict.NOT_FOUND
        verdict = judge_lease(lease.token, seen.state, seen.token, seen.until, now)
        if late and verdict is Verdict.EXPIRED and seen.token == lease.token:
            verdict = Verdict.APPLIED
        if verdict is not Verdict.APPLIED:
            return verdict
        # A transaction that owns the row must not keep its holder from renewing the lease, or
        # from renewing others in the same breath; it goes on with the longer lease, too.
        for place in (seen, row) if seen is not row else (self._grasp(row.id) or row,):
            if place.token == lease.token:
                place.until = until
        return verdict

    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        yield from ()
        now = moment(now)
        late = [
            (row.until, row.id, row)
            for row in self._running.values()
            if row.until is not None
            and row.until <= now
            and (row.owner is None or row.owner is self._tx)
            and not row.dead
        ]
        late.sort()
        return [record(row) for _, _, row in late[: max(limit, 0)]]


def _lost_at_most(losses: int, rows: Iterable[Row], left: list[Row]) -> Iterator[Row]:
    """Those that were lost no more often; the others come to `left`, to be put back."""
    for row in rows:
        if row.losses <= losses:
            yield row
        else:
            left.append(row)
