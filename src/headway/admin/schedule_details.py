"""Reads schedules for operators, each question in one operation, and bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice

from headway.admin.explanation import Surroundings
from headway.admin.schedule_explanation import explain_schedule, fires, is_orphaned, state_of
from headway.domain.job import JobRecord
from headway.domain.lifecycle import shown_state
from headway.domain.queries import MAX_PAGE, WorkerRecord, check_page
from headway.domain.schedules.schedule import ScheduleRecord, ScheduleRun, job_of_tick, tick_id
from headway.domain.schedules.schedule_views import (
    SHOWN_RUNS,
    BackfillPlan,
    RunOutcome,
    ScheduleDetail,
    ScheduleExplanation,
    ScheduleOrigin,
    SchedulePage,
    ScheduleRunView,
    ScheduleState,
    ScheduleSummary,
)
from headway.domain.schedules.timetable import Cron
from headway.domain.validation import LATEST, check_name
from headway.errors import HeadwayError
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations
from headway.schedules.changes import backfill_ticks, read_schedule

SHOWN_TICKS = 5
SEARCHED = 5_000
"""Schedules that are read for one page of a search."""


@reading
def read_schedules(
    store: Operations,
    search: str,
    state: ScheduleState | None,
    cursor: str | None,
    limit: int,
    runs: int,
    now: datetime | None,
) -> Operation[SchedulePage]:
    check_page(None, limit, "schedules")
    if cursor is not None:
        check_name("cursor", cursor)
    if runs:
        limit = min(limit, MAX_PAGE // runs)
    words = search.casefold().split()
    present = yield from store.time(now=now)
    workers = yield from store.workers()
    around = Surroundings.of(present, workers, ())
    size = MAX_PAGE if words or state is not None else limit + 1
    found: list[ScheduleRecord] = []
    examined = 0
    while True:
        batch = yield from store.list_schedules(after=cursor, limit=size)
        examined += len(batch)
        found += [
            each
            for each in batch
            if _matches(each, words) and (state is None or state is state_of(each, around))
        ]
        cursor = batch[-1].name if len(batch) == size else None
        if cursor is None or len(found) > limit or examined >= SEARCHED:
            break
    if len(found) > limit:
        found = found[:limit]
        cursor = found[-1].name
    recent: dict[str, list[ScheduleRun]] = {}
    if runs:
        names = [each.name for each in found]
        last = yield from store.schedule_runs(names)
        recent = {name: each[:runs] for name, each in zip(names, last, strict=True)}
    shown = [run.sequence_id for each in recent.values() for run in each]
    current = yield from _current(store, [*(each.last_sequence_id for each in found), *shown])
    return SchedulePage(
        [_summary(each, around, current, recent.get(each.name)) for each in found], cursor
    )


@reading
def read_schedule_detail(
    store: Operations, name: str, now: datetime | None
) -> Operation[ScheduleDetail]:
    record, runs, workers, around = yield from _read(store, name, now)
    shown = runs[:SHOWN_RUNS]
    current = yield from _current(
        store, [record.last_sequence_id, *(each.sequence_id for each in shown)]
    )
    explanation = yield from explain_schedule(store, record, runs, workers, around)
    definition = record.definition
    return ScheduleDetail(
        schedule=_summary(record, around, current),
        job=definition.job,
        overlap=definition.overlap,
        tz=definition.timetable.tz if isinstance(definition.timetable, Cron) else None,
        catch_up=str(definition.catch_up),
        jitter=definition.jitter,
        created_at=record.created_at,
        changed_at=record.changed_at,
        next_ticks=_next_ticks(record, around.now),
        runs=[_run(record, run, around.now, current) for run in shown],
        workers=sorted(each.id for each in around.workers if fires(each, record)),
        explanation=explanation,
    )


@reading
def read_schedule_why(
    store: Operations, name: str, now: datetime | None
) -> Operation[ScheduleExplanation]:
    record, runs, workers, around = yield from _read(store, name, now)
    return (yield from explain_schedule(store, record, runs, workers, around))


@reading
def plan_backfill(
    store: Operations,
    name: str,
    since: datetime,
    until: datetime | None,
    at_most: int | None,
    now: datetime | None,
) -> Operation[BackfillPlan]:
    record = yield from read_schedule(store, name)
    present = yield from store.time(now=now)
    ticks = backfill_ticks(record, since, until, at_most, present)
    existing = 0
    for first in range(0, len(ticks), MAX_PAGE):
        ids = [job_of_tick(record, tick).id for tick in ticks[first : first + MAX_PAGE]]
        jobs = yield from store.get(ids)
        existing += sum(job is not None for job in jobs)
    return BackfillPlan(
        name=name,
        ticks=len(ticks),
        existing=existing,
        first=ticks[0] if ticks else None,
        last=ticks[-1] if ticks else None,
    )


def _read(
    store: Operations, name: str, now: datetime | None
) -> Operation[tuple[ScheduleRecord, list[ScheduleRun], list[WorkerRecord], Surroundings]]:
    """A schedule, its last ticks, all workers that the store knows, and its surroundings."""
    record = yield from read_schedule(store, name)
    present = yield from store.time(now=now)
    workers = yield from store.workers()
    queues = yield from store.queue_states()
    (runs,) = yield from store.schedule_runs([name])
    return record, runs, workers, Surroundings.of(present, workers, queues)


def _next_ticks(record: ScheduleRecord, now: datetime) -> list[datetime]:
    try:
        return list(islice(record.timetable.ticks(now, LATEST), SHOWN_TICKS))
    except HeadwayError:  # cronsim or the time zone is missing here, not where workers run
        return []


def _matches(record: ScheduleRecord, words: Sequence[str]) -> bool:
    text = f"{record.name}\n{record.type}\n{record.definition.job.queue}".casefold()
    return all(word in text for word in words)


def _current(
    store: Operations, sequence_ids: Iterable[str | None]
) -> Operation[dict[str, JobRecord]]:
    """The current jobs of these sequences, by the ids of the sequences."""
    ids = list(dict.fromkeys(id for id in sequence_ids if id is not None))
    jobs = yield from store.current(ids)
    return {job.sequence_id: job for job in jobs if job is not None}


def _summary(
    record: ScheduleRecord,
    around: Surroundings,
    current: Mapping[str, JobRecord],
    runs: Sequence[ScheduleRun] | None = None,
) -> ScheduleSummary:
    state = state_of(record, around)
    stopped = state in (ScheduleState.PAUSED, ScheduleState.ORPHANED)
    last = None
    if record.last_tick is not None and record.last_at is not None:
        run = ScheduleRun(
            tick=record.last_tick, at=record.last_at, sequence_id=record.last_sequence_id
        )
        last = _run(record, run, around.now, current)
    return ScheduleSummary(
        name=record.name,
        timetable=str(record.definition.timetable),
        type=record.type,
        queue=record.definition.job.queue,
        state=state,
        origin=_origin(record, around),
        paused_at=record.paused_at,
        next_at=None if stopped else record.waiting_tick or record.next_at,
        last=last,
        fired=record.fired,
        skipped=record.skipped,
        runs=None if runs is None else [_run(record, run, around.now, current) for run in runs],
    )


def _origin(record: ScheduleRecord, around: Surroundings) -> ScheduleOrigin:
    if not record.declared:
        return ScheduleOrigin.PUT
    return ScheduleOrigin.ORPHANED if is_orphaned(record, around) else ScheduleOrigin.DECLARED


def _run(
    record: ScheduleRecord, run: ScheduleRun, now: datetime, current: Mapping[str, JobRecord]
) -> ScheduleRunView:
    job = None if run.sequence_id is None else current.get(run.sequence_id)
    if run.skipped is not None:
        outcome = RunOutcome.SKIPPED
    elif job is None:
        outcome = RunOutcome.GONE
    else:
        outcome = RunOutcome(shown_state(job, now).value)
    return ScheduleRunView(
        tick=run.tick,
        at=run.at,
        outcome=outcome,
        skipped=run.skipped,
        triggered=run.sequence_id not in (None, tick_id(record.name, run.tick)),
        sequence_id=run.sequence_id,
        job_id=None if job is None else job.id,
    )
