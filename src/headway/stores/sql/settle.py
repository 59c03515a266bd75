"""Changes of running jobs, each guarded by its fence in the statement that makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from headway.domain.job import JobState, NewJob
from headway.domain.lease import Held, Verdict, after_refusal, check_lease_for
from headway.domain.lifecycle import judge, judge_lease
from headway.domain.settlement import (
    Complete,
    Fail,
    Freed,
    GiveBack,
    Lose,
    Release,
    Reschedule,
    Retry,
    Settled,
    Settlement,
)
from headway.ports.statement import Operation, Row, Statement
from headway.stores.settlement import CompletionEffects, settle_in_batches, successors_of
from headway.stores.sql.dialect import SqlPart, maybe_id, maybe_time
from headway.stores.sql.insert import JobRows

SuccessorPairs = Sequence[tuple[Complete, NewJob]]
"""Completions, each with its successor."""
_Lease = tuple[JobState | None, str | None, datetime | None]
"""State, token and expiry of a row; all None if there is none."""


class SqlSettle(SqlPart):
    """extend, settle and complete_without_lease."""

    _rows: JobRows

    def extend(
        self,
        held: Sequence[Held],
        lease_for: float,
        *,
        late: bool = False,
        now: datetime | None = None,
    ) -> Operation[list[Verdict]]:
        check_lease_for(lease_for)
        if not held:
            return []
        rows = yield Statement(
            self._sql["extend"],
            (self._dialect.now(now), lease_for, late),
            sorted((one.job_id, one.token) for one in held),
            alone=True,
        )
        extended = {(str(row[0]), str(row[1])) for row in rows}
        refused = [one for one in held if (one.job_id, one.token) not in extended]
        if not refused:
            return [Verdict.APPLIED] * len(held)
        leases, present = yield from self._leases([one.job_id for one in refused], now)
        verdicts = {
            (one.job_id, one.token): after_refusal(
                judge_lease(one.token, *leases[one.job_id], present)
            )
            for one in refused
        }
        return [verdicts.get((one.job_id, one.token), Verdict.APPLIED) for one in held]

    def settle(
        self, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> Operation[Settled]:
        return settle_in_batches(self._settle_distinct, settlements, now)

    def _settle_distinct(
        self, settlements: Sequence[Settlement], now: datetime | None
    ) -> Operation[Settled]:
        plain: list[Complete] = []
        special: list[Complete] = []
        continued: dict[tuple[Any, ...], list[tuple[Complete, NewJob]]] = {}
        others: list[GiveBack] = []
        for settlement in settlements:
            if not isinstance(settlement, Complete):
                others.append(settlement)
            elif (successor := settlement.successor) is None:
                plain.append(settlement)
            elif successor.blockers or successor.id_given:
                special.append(settlement)
            else:
                kind = self._rows.kind(successor)
                continued.setdefault(kind, []).append((settlement, successor))
        applied: set[str] = set()
        freed: list[Freed] = []
        present = self._dialect.now(now)
        if bool(plain) + bool(special) + len(continued) + bool(others) > 1:
            yield from self._lock_jobs([one.job_id for one in settlements])
        if plain:
            rows: Sequence[Row] = yield Statement(
                self._sql["complete"],
                (present,),
                sorted((done.job_id, done.token, done.output) for done in plain),
                alone=True,
            )
            if len(rows) == len(settlements):
                return Settled([Verdict.APPLIED] * len(rows))
            applied.update(str(row[0]) for row in rows)
        for kind, alike in continued.items():
            alone = len(alike) == len(settlements)
            applied |= yield from self._complete_continued(kind, alike, present, alone=alone)
        left = [done for done in plain if done.job_id not in applied] + special
        if left:
            freed = yield from self._complete_awaited(left, present, now, applied)
        if others:
            yield from self._settle_incomplete(others, present, applied)
        refused = [one for one in settlements if one.job_id not in applied]
        if not refused:
            return Settled([Verdict.APPLIED] * len(settlements), freed)
        leases, moment = yield from self._leases([one.job_id for one in refused], now)
        verdicts = {
            one.job_id: after_refusal(judge(one, *leases[one.job_id], moment)) for one in refused
        }
        return Settled([verdicts.get(one.job_id, Verdict.APPLIED) for one in settlements], freed)

    def _lock_jobs(self, ids: Sequence[str]) -> Operation[None]:
        """Lock these jobs before several statements change them; SQLite's one writer needs no
        lock."""
        yield from ()

    def _complete_continued(
        self, kind: tuple[Any, ...], completions: SuccessorPairs, present: Any, *, alone: bool
    ) -> Operation[set[str]]:
        """Complete jobs and insert their successors, which are of one kind; the ids of the jobs
        that were completed. `alone`: there is nothing else to settle."""
        raise NotImplementedError

    def _complete_awaited(
        self,
        completions: Sequence[Complete],
        present: Any,
        now: datetime | None,
        applied: set[str],
    ) -> Operation[list[Freed]]:
        rows: Sequence[Row] = yield Statement(
            self._sql["complete_awaited"],
            (present,),
            sorted((done.job_id, done.token, done.output) for done in completions),
        )
        if not rows:
            return []
        applied.update(str(row[0]) for row in rows)
        return (yield from self._after_completion(rows, successors_of(completions), now))

    def _after_completion(
        self, rows: Sequence[Row], successors: dict[str, NewJob], now: datetime | None
    ) -> Operation[list[Freed]]:
        """Insert successors, and free waiting jobs, in the transaction of the completion."""
        then = CompletionEffects(((str(row[0]), str(row[1]), row[2]) for row in rows), successors)
        if then.following:
            yield from self._rows.insert(then.following, then.awaited, now)
            yield from self._inherit_schedules(rows, successors)
        if not then.ended:
            return []
        freed = yield Statement(self._sql["unblock"], (then.ended, self._dialect.now(now)))
        return [
            Freed(str(id), type, queue, self._dialect.time(run_at))
            for id, type, queue, run_at, state in freed
            if state == JobState.PENDING
        ]

    def _inherit_schedules(
        self, rows: Sequence[Row], successors: Mapping[str, NewJob]
    ) -> Operation[None]:
        """Successors inherit the schedules of completed jobs. Almost no job has one, so inserts
        carry none."""
        pairs = [
            (successor.id, str(row[0]))
            for row in rows
            if row[3] is not None and (successor := successors.get(str(row[0]))) is not None
        ]
        if pairs:
            yield Statement(self._sql["inherit_schedule"], rows=sorted(pairs))

    def _settle_incomplete(
        self, changes: Sequence[GiveBack], present: Any, applied: set[str]
    ) -> Operation[None]:
        rows: Sequence[Row] = yield Statement(
            self._sql["settle_incomplete"],
            (present,),
            sorted(map(self._change, changes), key=_by_id),
        )
        applied.update(str(row[0]) for row in rows)
        charged = {
            change.job_id: change for change in changes if isinstance(change, Retry | Fail | Lose)
        }
        history: list[tuple[Any, ...]] = []
        for id, version, worker, started_at, moment in rows:
            change = charged.get(str(id))
            if change is not None:
                outcome = "lost" if isinstance(change, Lose) else "failed"
                history.append(
                    (change.job_id, version, outcome, worker, started_at, moment, change.error)
                )
        if history:
            yield Statement(self._sql["add_attempts"], rows=history)

    def _change(self, change: GiveBack) -> tuple[Any, ...]:
        """(id, token, state, delay, moment, cleared, outcome, error, expired, fingerprint) for
        `settle_incomplete`."""
        id, token = change.job_id, change.token
        match change:
            case Retry():
                return (id, token, "pending", change.delay, None, False, "failed", change.error,
                        False, None)  # fmt: skip
            case Fail():
                return (id, token, "failed", None, None, False, "failed", change.error,
                        False, change.fingerprint or "")  # fmt: skip
            case Release():
                return (id, token, "pending", None, None, False, None, None, False, None)
            case Reschedule():
                at, delay = self._rows.when(change.schedule)
                return (id, token, "pending", delay, at, False, "rescheduled", None,
                        False, None)  # fmt: skip
            case Lose():
                state, alike = (
                    ("failed", change.fingerprint or "") if change.dead else ("pending", None)
                )
                outcome = "lost" if change.charged else None
                return (id, token, state, None, None, True, outcome, change.error,
                        True, alike)  # fmt: skip

    def complete_without_lease(
        self,
        job_id: str,
        output: str | None,
        successor: NewJob | None,
        *,
        now: datetime | None = None,
    ) -> Operation[list[Freed]]:
        rows = yield Statement(
            self._sql["complete_without_lease"], (job_id, output, self._dialect.now(now))
        )
        successors = {} if successor is None else {job_id: successor}
        return (yield from self._after_completion(rows, successors, now))

    def _leases(
        self, ids: Sequence[str], now: datetime | None
    ) -> Operation[tuple[dict[str, _Lease], datetime]]:
        """The leases of the jobs, and the time of the store's clock."""
        rows = yield Statement(
            self._sql["lease_states"], (list(ids), self._dialect.now(now)), alone=True
        )
        leases: dict[str, _Lease] = dict.fromkeys(ids, (None, None, None))
        present = datetime.min.replace(tzinfo=UTC)
        for row in rows:
            state, token, until, present = self._lease(row)
            leases[str(row[0])] = (state, token, until)
        return leases, present

    def _lease(self, row: Row) -> tuple[JobState, str | None, datetime | None, datetime]:
        return (
            JobState(row[1]),
            maybe_id(row[2]),
            maybe_time(self._dialect, row[3]),
            self._dialect.time(row[4]),
        )


# Batches are sorted by id, so that two that hold the same jobs lock them in the same order.
_by_id = itemgetter(0)
