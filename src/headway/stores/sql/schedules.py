"""Schedules and their runs; the jobs that they start."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from headway.domain.due_time import At
from headway.domain.job import NewJob
from headway.domain.schedules.schedule import (
    KEPT_RUNS,
    ScheduleAdvance,
    ScheduleRecord,
    ScheduleRun,
    decode_definition,
)
from headway.ports.statement import Operation, Row, Statement, reading
from headway.ports.store import Inserted
from headway.stores.sql.dialect import SqlPart, maybe_id, maybe_time

_UNKNOWN = datetime.min.replace(tzinfo=UTC)
"""The `run_at` of a job that was stored before."""


class SqlSchedules(SqlPart):
    def insert_scheduled(
        self, jobs: Sequence[NewJob], *, now: datetime | None = None
    ) -> Operation[list[Inserted]]:
        stamp = self._dialect.stamp
        rows = yield Statement(
            self._sql["insert_scheduled"],
            (self._dialect.now(now),),
            [
                (
                    job.id,
                    job.input,
                    job.type,
                    job.queue,
                    job.priority,
                    job.max_attempts,
                    job.max_losses,
                    job.timeout,
                    stamp(job.schedule.moment if isinstance(job.schedule, At) else None),
                    job.schedule_name,
                    stamp(job.scheduled_for),
                    job.key,
                )
                for job in jobs
            ],
            alone=True,
        )
        stored = {str(id): self._dialect.time(run_at) for id, run_at in rows}
        return [
            Inserted(job.id, stored.get(job.id, _UNKNOWN), deduplicated=job.id not in stored)
            for job in jobs
        ]

    def add_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[list[str]]:
        values = list(map(self._values, schedules))
        rows = yield Statement(self._sql["add_schedules"], (), values, alone=True)
        return [row[0] for row in rows]

    def put_schedules(self, schedules: Sequence[ScheduleRecord]) -> Operation[None]:
        values = list(map(self._values, schedules))
        yield Statement(self._sql["put_schedules"], (), values, alone=True)

    @reading
    def schedules(
        self, names: Sequence[str], *, lock: bool = False
    ) -> Operation[list[ScheduleRecord | None]]:
        name = "schedules_locked" if lock else "schedules"
        rows = yield Statement(self._sql[name], (sorted(set(names)),), alone=not lock)
        found = {row[0]: self._schedule(row) for row in rows}
        return [found.get(name) for name in names]

    @reading
    def list_schedules(
        self, *, after: str | None = None, limit: int = 1_000
    ) -> Operation[list[ScheduleRecord]]:
        rows = yield Statement(self._sql["list_schedules"], (after or "", limit), alone=True)
        return [self._schedule(row) for row in rows]

    def due_schedules(
        self,
        declared: Collection[str],
        limit: int,
        *,
        ended: Collection[str] = (),
        now: datetime | None = None,
    ) -> Operation[list[ScheduleRecord]]:
        names = list(declared)
        rows = yield Statement(self._sql["due_schedules"], (names, limit, self._dialect.now(now)))
        found = [self._schedule(row) for row in rows]
        waiting = set(ended).difference(record.name for record in found)
        if waiting and len(found) < limit:
            params = (names, limit - len(found), list(waiting))
            found += map(self._schedule, (yield Statement(self._sql["waiting_schedules"], params)))
        return found

    @reading
    def next_schedule(
        self, declared: Collection[str], *, now: datetime | None = None
    ) -> Operation[float | None]:
        rows = yield Statement(
            self._sql["next_schedule"], (list(declared), self._dialect.now(now)), alone=True
        )
        seconds: float | None = rows[0][0]
        return seconds

    def advance_schedules(self, advances: Sequence[ScheduleAdvance]) -> Operation[None]:
        stamp = self._dialect.stamp
        yield Statement(
            self._sql["advance_schedules"],
            (),
            [
                (
                    each.name,
                    stamp(each.next_at),
                    stamp(each.waiting_tick),
                    *(
                        (None, None, None)
                        if each.started is None
                        else (stamp(each.started[0]), stamp(each.started[1]), each.started[2])
                    ),
                    each.fired,
                    each.skipped,
                    len(each.runs),
                )
                for each in advances
            ],
        )
        runs = {
            (each.name, (each.first_run + number) % KEPT_RUNS): run
            for each in advances
            for number, run in enumerate(each.runs)
        }
        if runs:
            yield Statement(
                self._sql["save_schedule_runs"],
                (),
                [
                    (name, slot, stamp(run.tick), stamp(run.at), run.sequence_id, run.skipped)
                    for (name, slot), run in runs.items()
                ],
            )

    @reading
    def schedule_runs(self, names: Sequence[str]) -> Operation[list[list[ScheduleRun]]]:
        rows = yield Statement(self._sql["schedule_runs"], (list(names),), alone=True)
        time = self._dialect.time
        found: dict[str, list[ScheduleRun]] = {}
        for name, tick, at, sequence_id, skipped in rows:
            run = ScheduleRun(
                tick=time(tick), at=time(at), sequence_id=maybe_id(sequence_id), skipped=skipped
            )
            found.setdefault(name, []).append(run)
        return [found.get(name, []) for name in names]

    def delete_schedules(self, names: Sequence[str]) -> Operation[list[str]]:
        yield Statement(self._sql["delete_schedule_runs"], (list(names),))
        rows = yield Statement(self._sql["delete_schedules"], (list(names),))
        return [row[0] for row in rows]

    def _values(self, schedule: ScheduleRecord) -> tuple[object, ...]:
        stamp = self._dialect.stamp
        return (
            schedule.name,
            schedule.definition.encode(),
            schedule.declaration,
            msgspec.json.encode(schedule.replaced).decode(),
            stamp(schedule.next_at),
            stamp(schedule.waiting_tick),
            stamp(schedule.paused_at),
            stamp(schedule.last_tick),
            stamp(schedule.last_at),
            schedule.last_sequence_id,
            schedule.fired,
            schedule.skipped,
            schedule.runs,
            stamp(schedule.created_at),
            stamp(schedule.changed_at),
        )

    def _schedule(self, row: Row) -> ScheduleRecord:
        time, maybe = self._dialect.time, partial(maybe_time, self._dialect)
        return ScheduleRecord(
            name=row[0],
            definition=decode_definition(row[1]),
            declaration=row[2],
            replaced=tuple(msgspec.json.decode(row[3])),
            next_at=time(row[4]),
            waiting_tick=maybe(row[5]),
            paused_at=maybe(row[6]),
            last_tick=maybe(row[7]),
            last_at=maybe(row[8]),
            last_sequence_id=maybe_id(row[9]),
            fired=row[10],
            skipped=row[11],
            runs=row[12],
            created_at=time(row[13]),
            changed_at=time(row[14]),
        )
