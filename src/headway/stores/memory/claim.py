"""Claims: due jobs are handed out with a lease."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice

from headway.domain.job import ClaimedJob, ClaimedJobs, JobState
from headway.domain.lease import Held, Verdict, check_lease_for
from headway.domain.orders import ClaimOrder
from headway.ports.statement import Operation
from headway.stores.memory.row import JobRow, to_claimed
from headway.stores.memory.table import JobTable, moment


class MemoryClaim(JobTable):
    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        yield from ()
        check_lease_for(order.lease_for)
        now = moment(now)
        until = now + timedelta(seconds=order.lease_for)
        if self._tx is not None:  # other claimers have passed over the rows of this transaction
            for row in self._tx.journal.images:
                if not row.deleted:
                    self._index(row)
        claimed = ClaimedJobs()
        if order.again and (taken := self._taken_before(order, now, until)):
            claimed += taken
            return claimed
        for queue in order.queues:
            if self._paused.get(queue.name) is not None:
                continue
            limits = self._limits_of(queue.name)
            if limits is not None and limits.limited and not order.limited:
                claimed.limited = {*claimed.limited, queue.name}
                continue
            rows: Iterable[JobRow] = self._pending.take(queue.name, order.types, now)
            left: list[JobRow] = []
            if order.most_losses is not None:
                rows = _lost_at_most(order.most_losses, rows, left)
            wanted = min(queue.limit, order.limit - len(claimed))
            if wanted > 0:
                free = rows if self._journal is None else filter(self._lock_unowned, rows)
                claimed += [self._take(row, order, now, until) for row in islice(free, wanted)]
            for row in left:
                self._pending.push(row, now)
        return claimed

    def _taken_before(self, order: ClaimOrder, now: datetime, until: datetime) -> list[ClaimedJob]:
        """The jobs that an earlier claim with this token took, whose answer was lost."""
        taken = [
            row
            for row in self._running.values()
            if row.token == order.token
            and self._extend_one(Held(row.id, order.token), until, now) is Verdict.APPLIED
        ]
        place = {queue.name: place for place, queue in enumerate(order.queues)}
        taken.sort(key=lambda row: (place[row.spec.queue], -row.spec.priority, row.run_at, row.id))
        return [to_claimed(row, order.token, until) for row in taken]

    def _lock_unowned(self, row: JobRow) -> bool:
        """Lock a row unless another open transaction owns it; the end of that transaction makes
        the row pending again."""
        if row.owner is not None and row.owner is not self._tx:
            return False
        return self._lock(row.id) is not None

    def _take(self, row: JobRow, order: ClaimOrder, now: datetime, until: datetime) -> ClaimedJob:
        row.state = JobState.RUNNING
        row.token = order.token
        row.until = until
        row.version += 1
        row.worker = order.worker
        row.started_at = now
        self._running[row.id] = row
        return to_claimed(row, order.token, until)


def _lost_at_most(losses: int, rows: Iterable[JobRow], left: list[JobRow]) -> Iterator[JobRow]:
    """The rows that were lost no more often; the others go into `left`."""
    for row in rows:
        if row.losses <= losses:
            yield row
        else:
            left.append(row)
