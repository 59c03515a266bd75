"""Changes of schedules by clients and operators, as operations that any runner can drive. Each
locks the schedule first, so that it is not fired meanwhile."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

from msgspec import structs

from headway.after_commit.effects import Effects
from headway.domain.queries import is_alive
from headway.domain.schedules.schedule import (
    MOST_BACKFILLED,
    ScheduleAdvance,
    ScheduleDefinition,
    ScheduleRecord,
    ScheduleRun,
    job_of_tick,
    job_of_trigger,
)
from headway.domain.validation import check_moment
from headway.errors import InvalidOption, InvalidRequest, ScheduleNotFound
from headway.jobs.ids import new_id
from headway.ports.statement import Operation, reading
from headway.ports.store import Inserted, Operations
from headway.schedules.declaration import changed_schedule, new_schedule
from headway.schedules.firing import insert_in_parts, insert_jobs, running_schedules

_MOMENT = timedelta(microseconds=1)


@reading
def read_schedule(store: Operations, name: str) -> Operation[ScheduleRecord]:
    (record,) = yield from store.schedules([name])
    if record is None:
        raise ScheduleNotFound(name)
    return record


@reading
def read_runs(store: Operations, name: str) -> Operation[list[ScheduleRun]]:
    yield from read_schedule(store, name)
    (runs,) = yield from store.schedule_runs([name])
    return runs


def put(
    store: Operations, name: str, definition: ScheduleDefinition, now: datetime | None
) -> Operation[tuple[ScheduleRecord, Effects]]:
    """Store a schedule, or give a stored one another definition; a paused one stays paused."""
    time = yield from store.time(now=now)
    (record,) = yield from store.schedules([name], lock=True)
    while record is None:
        new = new_schedule(name, definition, time, declaration=None)
        if (yield from store.add_schedules([new])):
            return new, _effects()
        (record,) = yield from store.schedules([name], lock=True)  # others were first
    if record.declared:
        raise declared_in_code(name)
    record = changed_schedule(record, definition, time)
    yield from store.put_schedules([record])
    return record, _effects()


def declared_in_code(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"schedule {name!r} is declared in code: change it there, or choose another name"
    )


def pause(
    store: Operations, name: str, now: datetime | None
) -> Operation[tuple[ScheduleRecord, Effects]]:
    """Ticks start nothing until the schedule is resumed; pausing twice is fine."""
    time = yield from store.time(now=now)
    record = yield from _locked(store, name)
    if record.paused_at is None:
        record = structs.replace(record, paused_at=time, waiting_tick=None)
        yield from store.put_schedules([record])
    return record, Effects()


def resume(
    store: Operations, name: str, now: datetime | None
) -> Operation[tuple[ScheduleRecord, Effects]]:
    """Go on with the next tick; those during the pause are not caught up."""
    time = yield from store.time(now=now)
    record = yield from _locked(store, name)
    if record.paused_at is not None:
        next_at = record.timetable.next_after(time)
        record = structs.replace(record, paused_at=None, next_at=next_at)
        yield from store.put_schedules([record])
    return record, _effects()


def trigger(
    store: Operations, name: str, now: datetime | None, *, watched: bool
) -> Operation[tuple[str, Effects]]:
    """Start the schedule's job now, whatever else runs; the id of its sequence. For the next ticks
    it is the last one, unless the sequence before it has not ended."""
    effects = Effects()
    time = yield from store.time(now=now)
    record = yield from _locked(store, name)
    running = yield from running_schedules(store, [record])
    job = job_of_trigger(record, new_id(), time)
    yield from insert_jobs(store, [job], effects, watched=watched, now=time)
    yield from store.advance_schedules(
        [
            ScheduleAdvance(
                name=name,
                next_at=record.next_at,
                waiting_tick=record.waiting_tick,
                started=None if running else (time, time, job.id),
                fired=1,
                skipped=0,
                first_run=record.runs,
                runs=(ScheduleRun(tick=time, at=time, sequence_id=job.id),),
            )
        ]
    )
    return job.id, effects


def backfill(
    store: Operations,
    name: str,
    since: datetime,
    until: datetime | None,
    at_most: int | None,
    now: datetime | None,
    *,
    watched: bool,
) -> Operation[tuple[list[Inserted], Effects]]:
    """Start a job for each tick from `since` until `until` that has none; the answers of the store,
    oldest tick first."""
    effects = Effects()
    time = yield from store.time(now=now)
    record = yield from _locked(store, name)
    ticks = backfill_ticks(record, since, until, at_most, time)
    jobs = [job_of_tick(record, tick) for tick in ticks]
    if not jobs:
        return [], effects
    stored = yield from insert_in_parts(store, jobs, time)
    effects.create(jobs, stored, watched)
    return stored, effects


def backfill_ticks(
    record: ScheduleRecord,
    since: datetime,
    until: datetime | None,
    at_most: int | None,
    now: datetime,
) -> list[datetime]:
    """The ticks that a backfill starts. Raises InvalidOption if they are too many."""
    check_moment("since", since)
    until = now if until is None else check_moment("until", until)
    if until > now:
        raise InvalidOption(f"a backfill ends now at the latest: until is {until}, and it is {now}")
    if since > until:
        raise InvalidOption(f"a backfill ends after it begins: since is {since}, until {until}")
    if at_most is not None and not 1 <= at_most <= MOST_BACKFILLED:
        raise InvalidOption(f"at_most is between 1 and {MOST_BACKFILLED:,}, not {at_most}")
    ticks = record.timetable.ticks(since - _MOMENT, until)
    found = list(islice(ticks, at_most or MOST_BACKFILLED + 1))
    if len(found) > MOST_BACKFILLED:
        raise InvalidOption(
            f"schedule {record.name!r} has more than {MOST_BACKFILLED:,} ticks between {since} and "
            f"{until}: choose a shorter time, or limit their number with at_most"
        )
    return found


def delete(store: Operations, name: str, now: datetime | None) -> Operation[ScheduleRecord]:
    """Delete a schedule; its jobs stay. A living worker must not declare it."""
    time = yield from store.time(now=now)
    record = yield from _locked(store, name)
    if record.declared:
        workers = yield from store.workers()
        if any(is_alive(each, time) and name in (each.schedules or {}) for each in workers):
            raise InvalidRequest(
                f"schedule {name!r} is declared by the code of running workers: remove it there "
                "and replace the workers, or pause it"
            )
    yield from store.delete_schedules([name])
    return record


def _locked(store: Operations, name: str) -> Operation[ScheduleRecord]:
    (record,) = yield from store.schedules([name], lock=True)
    if record is None:
        raise ScheduleNotFound(name)
    return record


def _effects() -> Effects:
    """Workers look when the next schedule is due."""
    return Effects(schedules_changed=True)
