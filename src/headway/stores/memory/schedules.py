"""Schedules and their runs; the jobs that they start."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from headway.domain.job import NewJob
from headway.domain.schedules.schedule import (
    KEPT_RUNS,
    ScheduleAdvance,
    ScheduleRecord,
    ScheduleRun,
)
from headway.ports.statement import Operation
from headway.ports.store import Inserted
from headway.stores.memory.schedule_table import ScheduleTable
from headway.stores.memory.table import moment
from headway.stores.memory.transaction import Locked


class MemorySchedules(ScheduleTable):
    def insert_scheduled(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        yield from ()
        now = moment(now)
        answers: list[Inserted] = []
        with self._journaled():
            for job in jobs:
                taken = self._rows.get(job.id)
                if taken is None:
                    self._insert_job(job, now, {})
                elif taken.owner is not None and taken.owner is not self._tx:
                    raise Locked(taken.owner)
                row = self._rows[job.id]
                answers.append(Inserted(job.id, row.run_at, deduplicated=taken is not None))
        return answers

    def add_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[list[str]]:
        yield from ()
        added: list[str] = []
        for schedule in schedules:
            row = self._lock_schedule(schedule.name)
            if row.content[0] is None:
                row.content = schedule, ()
                added.append(schedule.name)
        return added

    def put_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[None]:
        yield from ()
        for schedule in schedules:
            row = self._lock_schedule(schedule.name)
            stored, runs = row.content
            created_at = schedule.created_at if stored is None else stored.created_at
            row.content = msgspec.structs.replace(schedule, created_at=created_at), runs

    def schedules(
        self, names: Sequence[str], *, lock: bool = False
    ) -> Operation[list[ScheduleRecord | None]]:
        yield from ()
        if lock:
            for name in sorted(set(names) & self._schedules.keys()):
                self._lock_schedule(name)
        return [self._seen_schedule(name)[0] for name in names]

    def list_schedules(
        self, *, after: str | None = None, limit: int = 1_000
    ) -> Operation[list[ScheduleRecord]]:
        yield from ()
        found = [
            record
            for name in self._schedules
            if name > (after or "") and (record := self._seen_schedule(name)[0]) is not None
        ]
        return sorted(found, key=lambda record: record.name)[:limit]

    def due_schedules(
        self,
        declared: Collection[str],
        limit: int,
        *,
        ended: Collection[str] = (),
        now: datetime | None = None,
    ) -> Operation[list[ScheduleRecord]]:
        yield from ()
        now = moment(now)
        due = [
            record
            for record in self._fireable(declared)
            if self._schedules[record.name].owner in (None, self._tx)
            and (
                record.next_at <= now or (record.name in ended and record.waiting_tick is not None)
            )
        ]
        due = sorted(due, key=lambda record: record.next_at)[:limit]
        for record in due:
            self._lock_schedule(record.name)
        return due

    def next_schedule(
        self, declared: Collection[str], *, now: datetime | None = None
    ) -> Operation[float | None]:
        yield from ()
        return self._seconds_to_next(declared, moment(now))

    def advance_schedules(self, advances: Sequence[ScheduleAdvance]) -> Operation[None]:
        yield from ()
        for advance in advances:
            row = self._lock_schedule(advance.name)
            record, runs = row.content
            if record is None:
                continue
            if advance.started is not None:
                tick, at, sequence_id = advance.started
                record = msgspec.structs.replace(
                    record, last_tick=tick, last_at=at, last_sequence_id=sequence_id
                )
            record = msgspec.structs.replace(
                record,
                next_at=advance.next_at,
                waiting_tick=advance.waiting_tick,
                fired=record.fired + advance.fired,
                skipped=record.skipped + advance.skipped,
                runs=record.runs + len(advance.runs),
            )
            row.content = record, (*runs, *advance.runs)[-KEPT_RUNS:]

    def schedule_runs(self, names: Sequence[str]) -> Operation[list[list[ScheduleRun]]]:
        yield from ()
        return [
            sorted(self._seen_schedule(name)[1], key=lambda run: (run.at, run.tick), reverse=True)
            for name in names
        ]

    def delete_schedules(self, names: Sequence[str]) -> Operation[list[str]]:
        yield from ()
        gone: list[str] = []
        for name in dict.fromkeys(names):
            if name in self._schedules:
                row = self._lock_schedule(name)
                if row.content[0] is not None:
                    gone.append(name)
                row.content = None, ()
        return gone
