"""Settlement of running jobs, guarded by the fence, and extension of their leases."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from headway.domain.due_time import due
from headway.domain.job import TERMINAL, AttemptRecord, JobState, NewJob
from headway.domain.lease import Held, Verdict, check_lease_for
from headway.domain.lifecycle import judge
from headway.domain.settlement import (
    Complete,
    Fail,
    Freed,
    Lose,
    Release,
    Reschedule,
    Retry,
    Settled,
    Settlement,
)
from headway.errors import JobNotFound, WrongState
from headway.ports.statement import Operation
from headway.stores.memory.row import JobRow
from headway.stores.memory.table import JobTable, moment
from headway.stores.settlement import with_schedule


class MemorySettle(JobTable):
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

    def settle(
        self, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> Operation[Settled]:
        yield from ()
        now = moment(now)
        freed: list[Freed] = []
        if any(isinstance(each, Complete) and each.successor for each in settlements):
            with self._journaled():  # a successor may be refused
                verdicts = [self._settle_one(each, now, freed) for each in settlements]
        else:
            verdicts = [self._settle_one(each, now, freed) for each in settlements]
        return Settled(verdicts, freed)

    def complete_without_lease(
        self,
        job_id: str,
        output: str | None,
        successor: NewJob | None,
        *,
        now: datetime | None = None,
    ) -> Operation[list[Freed]]:
        yield from ()
        freed: list[Freed] = []
        with self._journaled():
            row = self._lock(job_id)
            if row is None:
                raise JobNotFound(job_id)
            if row.state in TERMINAL:
                raise WrongState(job_id, row.state, "only a job that has not ended can complete")
            row.worker = None
            row.entry = None
            self._complete(row, output, successor, moment(now), freed)
        return freed

    def _settle_one(self, settlement: Settlement, now: datetime, freed: list[Freed]) -> Verdict:
        row = self._lock(settlement.job_id)
        if row is None:
            return Verdict.NOT_FOUND
        verdict = judge(settlement, row.state, row.token, row.until, now)
        if verdict is not Verdict.APPLIED:
            return verdict
        match settlement:
            case Complete():
                self._complete(row, settlement.output, settlement.successor, now, freed)
            case Retry():
                run_at = now + timedelta(seconds=settlement.delay)
                self._charge(row, settlement.error, now)
                self._give_back(row, run_at, now)
            case Fail():
                self._charge(row, settlement.error, now)
                self._fail(row, settlement.fingerprint, now)
            case Release():
                self._give_back(row, row.run_at, now)
            case Reschedule():
                self._give_back(row, due(settlement.schedule, now), now)
                row.losses = 0
            case Lose():
                _add_attempt(row, "lost", settlement.error, now)
                row.losses += settlement.charged
                if settlement.dead:
                    self._fail(row, settlement.fingerprint, now)
                else:
                    self._give_back(row, row.created_at, now)
        return verdict

    def _charge(self, row: JobRow, error: str, now: datetime) -> None:
        _add_attempt(row, "failed", error, now)
        row.attempts += 1
        row.losses = 0

    def _give_back(self, row: JobRow, run_at: datetime, now: datetime) -> None:
        row.state = JobState.PENDING
        row.run_at = run_at
        row.token = row.until = None
        self._running.pop(row.id, None)
        self._pending.push(row, now)

    def _fail(self, row: JobRow, fingerprint: str | None, now: datetime) -> None:
        row.fingerprint = fingerprint
        self._end(row, JobState.FAILED, now)

    def _end(self, row: JobRow, state: JobState, now: datetime) -> None:
        row.state = state
        row.finished_at = now
        row.token = row.until = None
        self._running.pop(row.id, None)

    def _complete(
        self,
        row: JobRow,
        output: str | None,
        successor: NewJob | None,
        now: datetime,
        freed: list[Freed],
    ) -> None:
        row.output = output
        self._end(row, JobState.COMPLETED, now)
        if successor is not None:
            spec = row.spec
            following = with_schedule(successor, spec.schedule_name, spec.scheduled_for)
            self._insert_job(following, now, {})
        else:
            first = row.first or row
            if first.waiters:
                self._free(first.waiters, now, freed)

    def _free(self, waiters: dict[JobRow, None], now: datetime, freed: list[Freed]) -> None:
        """A sequence has completed: free the jobs that waited only for it."""
        for waiter in list(waiters):
            row = self._lock(waiter.id)
            if row is None:
                continue
            row.unmet -= 1
            if row.unmet == 0 and row.state is JobState.BLOCKED:
                row.state = JobState.PENDING
                row.run_at = max(row.run_at, now)
                self._pending.push(row, now)
                freed.append(Freed(row.id, row.spec.type, row.spec.queue, row.run_at))


def _add_attempt(row: JobRow, outcome: str, error: str, now: datetime) -> None:
    row.last_error = error
    row.history += (
        AttemptRecord(
            job_id=row.id,
            version=row.version,
            outcome=outcome,
            worker=row.worker,
            started_at=row.started_at,
            finished_at=now,
            error=error,
        ),
    )
