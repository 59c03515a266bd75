"""Applying what was decided about running jobs, guarded by the fence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from headway.domain.job import TERMINAL, AttemptRecord, JobState, NewJob
from headway.domain.lease import Verdict
from headway.domain.lifecycle import judge
from headway.domain.schedule import due
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
from headway.stores.memory.insert import Inserting
from headway.stores.memory.row import Row
from headway.stores.memory.table import moment


class Settling(Inserting):
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

    def finish(
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
            row = self._grasp(job_id)
            if row is None:
                raise JobNotFound(job_id)
            if row.state in TERMINAL:
                raise WrongState(job_id, row.state, "only a job that has not ended can complete")
            row.worker = None
            row.entry = None
            self._complete(row, output, successor, moment(now), freed)
        return freed

    def _settle_one(self, settlement: Settlement, now: datetime, freed: list[Freed]) -> Verdict:
        row = self._grasp(settlement.job_id)
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
                self._dead_letter(row, settlement.fingerprint, now)
            case Release():
                self._give_back(row, row.run_at, now)
            case Reschedule():
                self._give_back(row, due(settlement.schedule, now), now)
                row.losses = 0
            case Lose():
                _remember(row, "lost", settlement.error, now)
                row.losses += settlement.charged
                if settlement.dead:
                    self._dead_letter(row, settlement.fingerprint, now)
                else:
                    self._give_back(row, row.created_at, now)
        return verdict

    def _charge(self, row: Row, error: str, now: datetime) -> None:
        _remember(row, "failed", error, now)
        row.attempts += 1
        row.losses = 0

    def _give_back(self, row: Row, run_at: datetime, now: datetime) -> None:
        row.state = JobState.PENDING
        row.run_at = run_at
        row.token = row.until = None
        self._running.pop(row.id, None)
        self._lanes.push(row, now)

    def _dead_letter(self, row: Row, fingerprint: str | None, now: datetime) -> None:
        row.fingerprint = fingerprint
        self._end(row, JobState.FAILED, now)

    def _end(self, row: Row, state: JobState, now: datetime) -> None:
        row.state = state
        row.finished_at = now
        row.token = row.until = None
        self._running.pop(row.id, None)

    def _complete(
        self,
        row: Row,
        output: str | None,
        successor: NewJob | None,
        now: datetime,
        freed: list[Freed],
    ) -> None:
        row.output = output
        self._end(row, JobState.COMPLETED, now)
        if successor is not None:
            self._store(successor, now, {})
        else:
            first = row.first or row
            if first.waiters:
                self._free(first.waiters, now, freed)

    def _free(self, waiters: dict[Row, None], now: datetime, freed: list[Freed]) -> None:
        """A sequence is complete: let those run for which it was the last they waited for."""
        for waiter in list(waiters):
            row = self._grasp(waiter.id)
            if row is None:
                continue
            row.unmet -= 1
            if row.unmet == 0 and row.state is JobState.BLOCKED:
                row.state = JobState.PENDING
                row.run_at = max(row.run_at, now)
                self._lanes.push(row, now)
                freed.append(Freed(row.id, row.spec.type, row.spec.queue, row.run_at))


def _remember(row: Row, outcome: str, error: str, now: datetime) -> None:
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
