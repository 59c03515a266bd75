"""Bugs to plant into schedules: into the rules that decide about ticks, the operations that fire
and change schedules, the scheduler of a worker, and the schedules of the memory store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msgspec import structs

from headway.domain.schedules import firing_policy, schedule
from headway.domain.schedules.schedule import tick_id
from headway.schedules import changes, declaration, firing
from headway.stores.memory.schedule_table import ScheduleTable
from headway.stores.memory.schedules import MemorySchedules
from headway.stores.memory.table import JobTable
from headway.worker.background.scheduler import Scheduler
from proof.mutants.memory_bugs import rewriting

LINES: list[tuple[Any, str, str]] = [
    # Catch-up is off by one, or by a microsecond.
    (firing_policy.due_ticks, "now - tick <= within", "now - tick < within"),
    (firing_policy.due_ticks, "len(kept) < most", "len(kept) <= most"),
    (firing_policy.due_ticks, "before < first", "before <= first"),
    (firing_policy.due_ticks, "max(catch_up.within, ON_TIME)", "catch_up.within"),
    (
        firing_policy.due_ticks,
        "timetable.count(first - _MOMENT, last, most)",
        "timetable.count(first, last, most)",
    ),
    # The rest of the policy.
    (firing_policy.decide, "now if waiting is None else max(now, waiting)", "now"),
    (firing_policy.decide, "due and running and overlap", "due and overlap"),
    (firing_policy.decide, "min(next_at, now + LOOK_AGAIN)", "next_at"),
    (
        firing_policy.decide,
        "waiting, dropped, due = due[-1], due[:-1], []",
        "waiting, dropped, due = due[0], due[1:], []",
    ),
    (schedule.job_of_tick, "tick, At(tick + delay)", "tick + delay, At(tick + delay)"),
    (schedule.job_of_tick, "tick, At(tick + delay)", "tick, At(tick)"),
    # Firing.
    (firing.running_schedules, "not job.state.terminal", "True"),
    (
        firing.running_schedules,
        'and each.definition.overlap != "allow"',
        'and each.definition.overlap == "allow"',
    ),
    (firing._advance, "sum(id in started for id in ids.values())", "len(ids)"),
    (firing.insert_jobs, "if not answer.deduplicated", "if True"),
    # Declarations and changes.
    (
        declaration.declare,
        "fingerprint in record.replaced and (name, record.declaration) in living",
        "False",
    ),
    (declaration.declare, "if is_alive(other, time)", "if True"),
    (declaration.declare, "elif record.declaration is None:", "elif False:"),
    (
        declaration.changed_schedule,
        "if definition.timetable == record.definition.timetable:",
        "if False:",
    ),
    (changes.put, "if record.declared:", "if False:"),
    (changes.pause, "waiting_tick=None", "waiting_tick=record.waiting_tick"),
    (changes.resume, "paused_at=None, next_at=next_at", "paused_at=None"),
    (changes.delete, "is_alive(each, time) and name in (each.schedules or {})", "False"),
    (changes.delete, "is_alive(each, time) and ", ""),
    # The memory store.
    (ScheduleTable._fireable, "and record.paused_at is None", ""),
    (ScheduleTable._fireable, "and (record.declaration is None or record.name in declared)", ""),
    (
        JobTable._seen_record,
        "record.content if record.owner in (None, self._tx) else record.before",
        "record.content",
    ),
    (JobTable._lock_record, "journal.undo.append(undo)", "pass"),
    (MemorySchedules.due_schedules, "self._lock_schedule(record.name)", "pass"),
    (MemorySchedules.due_schedules, "and record.waiting_tick is not None", ""),
    (MemorySchedules.advance_schedules, "if advance.started is not None:", "if False:"),
]
"""Where it stands, how it reads, and what is there instead."""


def ids_made_of_now() -> None:
    """The id of a tick's job is made from the time of its firing."""
    sound = firing.insert_jobs

    def insert(store: Any, jobs: Any, effects: Any, *, watched: bool, now: datetime) -> Any:
        jobs = [structs.replace(job, id=tick_id(job.schedule_name, now)) for job in jobs]
        return (yield from sound(store, jobs, effects, watched=watched, now=now))

    firing.insert_jobs = insert


def advanced_apart() -> None:
    """Schedules are advanced in one transaction, their jobs inserted in the next."""
    left: dict[int, list[Any]] = {}
    sound = Scheduler._look

    def leave(store: Any, jobs: Any, effects: Any, *, watched: bool, now: datetime) -> Any:
        yield from ()
        left.setdefault(id(store), []).extend(jobs)
        return {job.id for job in jobs}

    async def look(self: Any) -> None:
        await sound(self)
        if jobs := left.pop(id(self._store), []):
            await self._store.run(self._store.insert_scheduled, jobs)

    firing.insert_jobs = leave
    Scheduler._look = look


SEEN_BY_CONFORMANCE: dict[str, Callable[[], None]] = {
    f"schedules: {function.__name__.strip('_')} with `{instead}` for `{line}`": rewriting(
        function, line, instead
    )
    for function, line, instead in LINES
} | {"schedules: ids of ticks made from the present": ids_made_of_now}

SEEN_BY_SQL: dict[str, Callable[[], None]] = {
    "schedules: runs written over one another": rewriting(
        firing._advance, "first_run=schedule.runs", "first_run=0"
    ),
    "schedules: changes of schedules without a lock": rewriting(
        changes._locked, "lock=True", "lock=False"
    ),
}
"""On PostgreSQL; the memory store keeps runs in order, and has an operation wait as a whole."""

SEEN_BY_DAY: dict[str, Callable[[], None]] = {
    "schedules: advanced in a transaction of its own": advanced_apart
}
