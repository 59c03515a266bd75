"""The operations of the SQLite store: what it does not share with other SQL stores."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from headway.domain.job import ClaimedJob, NewJob
from headway.domain.lease import Lease, check_lease_for
from headway.domain.orders import ClaimOrder, PruneRule
from headway.domain.schedule import After, At
from headway.domain.settlement import Complete
from headway.ports.statement import Operation, Row, Statement
from headway.stores.sql.files import load_statements
from headway.stores.sql.transfer import Moving

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class SqliteDialect:
    """Times travel as microseconds since 1970, lists as JSON; the clock is this machine's."""

    def __init__(self, prefix: str) -> None:
        self.sql = load_statements("headway.stores.sqlite", prefix)

    def now(self, now: datetime | None) -> int:
        return time.time_ns() // 1_000 if now is None else (now - _EPOCH) // _MICROSECOND

    def stamp(self, moment: datetime | None) -> int | None:
        return None if moment is None else (moment - _EPOCH) // _MICROSECOND

    def time(self, value: int) -> datetime:
        return _EPOCH + timedelta(microseconds=value)

    def ids(self, value: str) -> tuple[str, ...]:
        return tuple(json.loads(value))


class SqliteOperations(Moving):
    _sample_size = 3_000
    """In jobs."""

    def __init__(self, prefix: str) -> None:
        self._dialect = SqliteDialect(prefix)
        self._sql = self._dialect.sql

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

    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        rows = yield Statement(
            self._sql["prunable"],
            (
                str(rule.state),
                self._dialect.now(now),
                rule.older_than,
                None if rule.types is None else list(rule.types),
                list(rule.except_types),
                None if rule.queues is None else list(rule.queues),
                list(rule.except_queues),
                limit,
            ),
        )
        return len((yield from self._delete("delete_sequences", [row[0] for row in rows])))

    def delete_jobs(self, ids: Sequence[str]) -> Operation[list[str]]:
        return (yield from self._delete("delete_jobs", ids))

    def delete_ended(self, ids: Sequence[str]) -> Operation[list[str]]:
        rows = yield Statement(self._sql["deletable"], (list(ids),))
        return (yield from self._delete("delete_sequences", [row[0] for row in rows]))

    def _delete(self, statement: str, ids: Sequence[str]) -> Operation[list[str]]:
        if not ids:
            return []
        rows = yield Statement(self._sql[statement], (list(ids),))
        gone: list[str] = [row[0] for row in rows]
        yield Statement(self._sql["delete_attempts"], (gone,))
        yield Statement(self._sql["delete_blockers"], (gone,))
        yield Statement(self._sql["delete_progress"], (gone,))
        return gone

    def _complete_continued(
        self,
        kind: tuple[Any, ...],
        completions: Sequence[tuple[Complete, NewJob]],
        present: Any,
        applied: set[str],
        *,
        alone: bool,
    ) -> Operation[None]:
        rows: Sequence[Row] = yield Statement(
            self._sql["complete_awaited"],
            (present,),
            [(done.job_id, done.token, done.output) for done, _ in completions],
        )
        awaited: dict[str, bool] = {row[0]: bool(row[2]) for row in rows}
        applied.update(awaited)
        if awaited:
            yield Statement(
                self._sql["insert_following"],
                (present, *kind),
                [
                    (*self._own_part(successor), awaited[done.job_id])
                    for done, successor in completions
                    if done.job_id in awaited
                ],
            )

    def _insert_answer(self, row: Row, present: Any, job: NewJob) -> tuple[int, datetime]:
        match job.schedule:
            case At(moment):
                due = max(self._dialect.stamp(moment) or present, present)
            case After():
                due = present + round(job.schedule.seconds * 1_000_000)
        return row[0], self._dialect.time(due)

    def expect(self, queue: str, run_at: datetime | None) -> None:
        """Nothing is remembered between claims."""
