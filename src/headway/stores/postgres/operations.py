"""The operations of the PostgreSQL store: what it does not share with other SQL stores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headway.domain.job import ClaimedJob, JobRecord, NewJob
from headway.domain.lease import Lease, check_lease_for
from headway.domain.orders import ClaimOrder, PruneRule
from headway.domain.settlement import Complete
from headway.ports.statement import Operation, Row, Statement, reading
from headway.stores.postgres import reap_bounds
from headway.stores.postgres.claim_bounds import Lanes
from headway.stores.postgres.copy_rows import COPY_FROM, Copy
from headway.stores.postgres.prune_bounds import EVERYTHING, Pruned
from headway.stores.postgres.reap_bounds import Reaped
from headway.stores.sql.dialect import maybe_id
from headway.stores.sql.files import load_statements
from headway.stores.sql.transfer import Moving


class PostgresDialect:
    """Times travel as datetimes, lists as arrays; None as `now` is the server's clock."""

    def __init__(self, schema: str) -> None:
        self.sql = load_statements("headway.stores.postgres", f'"{schema}".')

    def now(self, now: datetime | None) -> datetime | None:
        return now

    def stamp(self, moment: datetime | None) -> datetime | None:
        return moment

    def time(self, value: datetime) -> datetime:
        return value.astimezone(UTC)

    def ids(self, value: list[str]) -> tuple[str, ...]:
        return tuple(value)


class PostgresOperations(Moving):
    _sample_size = 400
    """In pages."""

    def __init__(self, schema: str) -> None:
        self._dialect = PostgresDialect(schema)
        self._sql = self._dialect.sql
        self._lanes: dict[tuple[str, ...], Lanes] = {}
        self._pruned = Pruned()
        self._reaped = Reaped()

    def claim(
        self, order: ClaimOrder, *, now: datetime | None = None
    ) -> Operation[list[ClaimedJob]]:
        check_lease_for(order.lease_for)
        if order.again:
            rows: Sequence[Row] = yield Statement(
                self._sql["reclaim"], (now, order.lease_for, order.token), alone=True
            )
            if rows:
                return _in_order(_to_claimed(rows, order.token), order)
        lanes = self._lanes.setdefault(order.types, Lanes())
        # A given `now` may lie before what was claimed already: trust no bound.
        look_around = now is not None or lanes.should_look_around(order.queues)
        if not look_around:
            claimed = yield from self._claim_from(lanes, order, now)
            if claimed or not lanes.was_hinted():
                return claimed
        started = time.monotonic()
        names = [queue.name for queue in order.queues]
        found = yield Statement(self._sql["lanes"], (names,), alone=True)
        lanes.learn(order.queues, found)
        claimed = yield from self._claim_from(lanes, order, now)
        lanes.looked_around(time.monotonic() - started)
        return claimed

    @reading
    def expired(self, limit: int, *, now: datetime | None = None) -> Operation[list[JobRecord]]:
        # A given `now` may lie anywhere: trust no bound.
        window = self._reaped.window() if now is None else reap_bounds.EVERYTHING
        began = time.monotonic()
        rows = yield Statement(self._sql["expired"], (now, limit, window), alone=True)
        if now is None:
            self._reaped.looked(window, began, found_all=len(rows) < limit)
        return self._records(rows)

    def _claim_from(
        self, lanes: Lanes, order: ClaimOrder, now: datetime | None
    ) -> Operation[list[ClaimedJob]]:
        claimed: list[ClaimedJob] = []
        groups = lanes.groups(order.queues, order.limit)
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
                ),
                group,
                alone=len(groups) == 1,
            )
            claimed += _to_claimed(rows, order.token)
        claimed = _in_order(claimed, order)
        if order.most_losses is None:  # else jobs that were left may lie below
            lanes.advance(claimed)
        return claimed

    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        started = time.monotonic()
        ended = yield Statement(
            self._sql["prunable"],
            (
                str(rule.state),
                now,
                rule.older_than,
                None if rule.types is None else list(rule.types),
                list(rule.except_types),
                None if rule.queues is None else list(rule.queues),
                list(rule.except_queues),
                limit,
                # A given `now` may lie before what was pruned already: trust no bound.
                self._pruned.bound(rule) if now is None else EVERYTHING,
            ),
            varied=True,
        )
        gone = yield from self._delete_sequences([(row[0], row[1]) for row in ended])
        self._pruned.advance(rule, ended[-1][2] if ended else None, time.monotonic() - started)
        if gone:
            yield Statement(self._sql["delete_keys"])
        return len(gone)

    def delete_jobs(self, ids: Sequence[str]) -> Operation[list[str]]:
        rows = yield Statement(self._sql["delete_jobs"], (list(ids),), alone=True)
        return [str(row[0]) for row in rows]

    def delete_ended(self, ids: Sequence[str]) -> Operation[list[str]]:
        ended = yield Statement(self._sql["deletable"], (list(ids),))
        return (yield from self._delete_sequences(ended))

    def _delete_sequences(self, ended: Sequence[tuple[Any, Any]]) -> Operation[list[str]]:
        """Delete sequences whose last jobs are locked, by the ids of both, unless somebody waits
        for them."""
        if not ended:
            return []
        rows = yield Statement(self._sql["delete_sequences"], rows=ended)
        return [str(row[0]) for row in rows]

    def _lock_jobs(self, ids: Sequence[str]) -> Operation[None]:
        yield Statement(self._sql["lock_jobs"], (list(ids),))

    def _lock_keys(self, keys: Sequence[tuple[str, str]], now: datetime | None) -> Operation[None]:
        yield Statement(self._sql["lock_keys"], (now,), keys)

    def _complete_continued(
        self,
        kind: tuple[Any, ...],
        completions: Sequence[tuple[Complete, NewJob]],
        present: Any,
        applied: set[str],
        *,
        alone: bool,
    ) -> Operation[None]:
        rows = yield Statement(
            self._sql["complete_continued"],
            (present, *kind),
            [
                (done.job_id, done.token, done.output, *self._own_part(successor))
                for done, successor in sorted(completions, key=lambda pair: pair[0].job_id)
            ],
            alone=alone,
        )
        applied.update(str(row[0]) for row in rows)

    def _insertion(
        self, template: tuple[Any, ...], jobs: Sequence[NewJob], present: Any, *, alone: bool
    ) -> Statement:
        plain = super()._insertion(template, jobs, present, alone=alone)
        at, delay, *kind, sequence_id, sequence_type, root_id = template[:11]
        if (
            len(jobs) < COPY_FROM
            or not alone
            or any(each is not None for each in (present, at, sequence_id, root_id))
            or delay
        ):
            return plain
        return Copy(
            *(plain.sql, plain.params, plain.rows, plain.alone),
            into=self._sql["copy"],
            jobs=jobs,
            rest=(*kind, sequence_type, *template[11:]),
        )

    def _insert_answer(self, row: Row, present: Any, job: NewJob) -> tuple[int, datetime]:
        return row[0], self._dialect.time(row[1])

    def expect(self, queue: str, run_at: datetime | None) -> None:
        for lanes in self._lanes.values():
            lanes.expect(queue, run_at)


def _in_order(claimed: list[ClaimedJob], order: ClaimOrder) -> list[ClaimedJob]:
    """As they should be run: RETURNING gives them in physical order."""
    if len(claimed) > 1:
        place = {queue.name: place for place, queue in enumerate(order.queues)}
        claimed.sort(key=lambda job: (place[job.queue], -job.priority, job.run_at, job.id))
    return claimed


def _to_claimed(rows: Sequence[Row], token: str) -> list[ClaimedJob]:
    if rows and type(rows[0][0]) is not str:  # on a connection that is not ours
        ids = (0, 14, 16, 17)
        rows = [
            [maybe_id(value) if place in ids else value for place, value in enumerate(row)]
            for row in rows
        ]
    return [
        ClaimedJob(
            id=row[0],
            type=row[1],
            queue=row[2],
            priority=row[3],
            input=row[4],
            run_at=row[5],
            created_at=row[6],
            attempts=row[7],
            losses=row[8],
            max_attempts=row[9],
            max_losses=row[10],
            timeout=row[11],
            lease=Lease(token, row[12], row[13]),
            sequence_id=row[14],
            sequence_type=row[15],
            root_id=row[16],
            origin_id=row[17],
            position=row[18],
            has_blockers=row[19],
            trace=row[20],
        )
        for row in rows
    ]
