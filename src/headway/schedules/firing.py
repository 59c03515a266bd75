"""Fires schedules: starts the jobs of their ticks and advances them, in one transaction. Any number
of workers may do it at once; each schedule is locked by one of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from headway.after_commit.effects import Effects
from headway.domain.events import ScheduleFailed, ScheduleFired, ScheduleSkipped
from headway.domain.job import NewJob
from headway.domain.schedules.firing_policy import Decision, decide, postpone, run_entries
from headway.domain.schedules.schedule import (
    ScheduleAdvance,
    ScheduleRecord,
    job_of_tick,
    tick_id,
)
from headway.errors import HeadwayError
from headway.ports.statement import Operation
from headway.ports.store import Inserted, Operations

MOST_AT_ONCE = 500
"""Schedules that one transaction fires."""
MOST_STARTED = 10_000
"""Jobs after which the other due schedules are left to the next transaction."""
MOST_CHARACTERS = 16_000_000
"""Characters of the arguments that one statement stores; PostgreSQL refuses more than 1 GB."""
MOST_COMPUTING = 1.0
"""Seconds after which the other due schedules are left to the next transaction. After an outage a
schedule has up to thousands of ticks to compute, and meanwhile no lease is renewed."""


@dataclass(slots=True)
class Fired:
    effects: Effects = field(default_factory=Effects)
    schedules: int = 0
    """Number of due schedules that were fired or skipped."""
    unreadable: int = 0
    """Those of them whose ticks this worker could not compute."""
    next_in: float | None = None
    """Seconds until the next schedule is due; None: there is none."""


def fire(
    store: Operations,
    declared: Collection[str],
    *,
    ended: Collection[str] = (),
    watched: bool = True,
    now: datetime | None = None,
) -> Operation[Fired]:
    """Fire the schedules that are due, of those that were put at run time and of the `declared`
    ones; and those of `ended` with a tick that waited for their last sequence. `watched`: make the
    events of the jobs, too."""
    fired = Fired()
    time = yield from store.time(now=now)
    due = yield from store.due_schedules(declared, MOST_AT_ONCE, ended=ended, now=time)
    if due:
        yield from _start(store, due, fired, watched=watched, now=time)
    fired.next_in = yield from store.next_schedule(declared, now=now)
    return fired


def _start(
    store: Operations,
    due: Sequence[ScheduleRecord],
    fired: Fired,
    *,
    watched: bool,
    now: datetime,
) -> Operation[None]:
    effects = fired.effects
    running = yield from running_schedules(store, due)
    decisions: list[tuple[ScheduleRecord, Decision]] = []
    until, started_jobs = monotonic() + MOST_COMPUTING, 0
    for each in due:
        if decisions and (monotonic() >= until or started_jobs >= MOST_STARTED):
            break
        try:
            decision = decide(each, now, running=each.name in running)
        except HeadwayError as error:  # cronsim or a time zone is missing here
            decision = postpone(each, now)
            fired.unreadable += 1
            queue = each.definition.job.queue
            effects.events.append(ScheduleFailed(each.name, each.type, queue, str(error)))
        decisions.append((each, decision))
        started_jobs += len(decision.start)
    cancelled = [each for each, one in decisions if one.cancel]
    held = yield from _cancel(store, cancelled, effects, now)
    decisions = [(each, one) for each, one in decisions if each.name not in held]
    fired.schedules = len(decisions)
    jobs = [job_of_tick(each, tick) for each, one in decisions for tick in one.start]
    started = yield from insert_jobs(store, jobs, effects, watched=watched, now=now)
    yield from store.advance_schedules(
        [_advance(each, one, started, now) for each, one in decisions]
    )
    for schedule, decision in decisions:
        about = (schedule.name, schedule.type, schedule.definition.job.queue)
        effects.events += [
            ScheduleFired(*about, id, tick, (now - tick).total_seconds())
            for tick in decision.start
            if (id := tick_id(schedule.name, tick)) in started
        ]
        effects.events += [
            ScheduleSkipped(
                *about,
                tick,
                reason,
                count,
                replaced=any(later > tick for later in decision.start),
            )
            for tick, reason, count in decision.skips
        ]


def running_schedules(
    store: Operations, schedules: Sequence[ScheduleRecord]
) -> Operation[set[str]]:
    """Names of the schedules whose last sequence has not ended, where that matters."""
    last = {
        each.last_sequence_id: each.name
        for each in schedules
        if each.last_sequence_id is not None and each.definition.overlap != "allow"
    }
    if not last:
        return set()
    jobs = yield from store.current(list(last))
    return {last[job.sequence_id] for job in jobs if job is not None and not job.state.terminal}


def _cancel(
    store: Operations, schedules: Sequence[ScheduleRecord], effects: Effects, now: datetime
) -> Operation[set[str]]:
    """Cancel the last sequences of these schedules; the names of those that stay due, because
    another transaction holds the job: the handler's own may do so for as long as it runs."""
    names = {id: each.name for each in schedules if (id := each.last_sequence_id) is not None}
    if not names:
        return set()
    jobs = yield from store.current(list(names), lock=True, wait=False)
    free = [job for job in jobs if job is not None]
    running = [job for job in free if not job.state.terminal]
    if running:
        yield from store.cancel([job.id for job in running], now=now)
    for job in running:
        effects.cancel(job)
    return set(names.values()).difference(names[job.sequence_id] for job in free)


def insert_jobs(
    store: Operations,
    jobs: Sequence[NewJob],
    effects: Effects,
    *,
    watched: bool,
    now: datetime,
) -> Operation[set[str]]:
    """Store the jobs of ticks; the ids of those that were not stored before."""
    if not jobs:
        return set()
    stored = yield from insert_in_parts(store, jobs, now)
    effects.create(jobs, stored, watched)
    return {answer.id for answer in stored if not answer.deduplicated}


def insert_in_parts(
    store: Operations, jobs: Sequence[NewJob], now: datetime
) -> Operation[list[Inserted]]:
    """Store the jobs of ticks, with as many statements as their arguments need."""
    stored: list[Inserted] = []
    part: list[NewJob] = []
    left = MOST_CHARACTERS
    for job in jobs:
        if part and len(job.input) > left:
            stored += yield from store.insert_scheduled(part, now=now)
            part, left = [], MOST_CHARACTERS
        part.append(job)
        left -= len(job.input)
    stored += yield from store.insert_scheduled(part, now=now)
    return stored


def _advance(
    schedule: ScheduleRecord, decision: Decision, started: set[str], now: datetime
) -> ScheduleAdvance:
    ids = {tick: tick_id(schedule.name, tick) for tick in decision.start}
    last = max(ids, default=None)
    return ScheduleAdvance(
        name=schedule.name,
        next_at=decision.next_at,
        waiting_tick=decision.waiting_tick,
        started=None if last is None else (last, now, ids[last]),
        fired=sum(id in started for id in ids.values()),
        skipped=sum(count for _, _, count in decision.skips),
        first_run=schedule.runs,
        runs=run_entries(decision, now, ids),
    )
