"""Why a schedule starts no job now, in one sentence.

Reads the schedule, its last ticks, the workers, its queue, and the job of its last run.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile

from headway.admin.explanation import Surroundings, explain
from headway.domain.job import JobRecord
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule import ScheduleRecord, ScheduleRun
from headway.domain.schedules.schedule_views import (
    ScheduleExplanation,
    ScheduleReason,
    ScheduleState,
)
from headway.domain.schedules.timetable import Cron
from headway.domain.text import ago, moment, moment_in, plural, span
from headway.domain.views import Explanation
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations

LATE = timedelta(minutes=1)
"""A tick that was not fired for this time is late."""


def fires(worker: WorkerRecord, schedule: ScheduleRecord) -> bool:
    """Whether this worker fires the schedule while it lives."""
    if worker.schedules is None:
        return False
    return not schedule.declared or schedule.name in worker.schedules


def is_orphaned(schedule: ScheduleRecord, around: Surroundings) -> bool:
    """Whether living workers fire schedules, and none of them declares this one. An outage of all
    of them orphans nothing."""
    firing = [each for each in around.workers if each.schedules is not None]
    return schedule.declared and bool(firing) and not any(fires(each, schedule) for each in firing)


def state_of(schedule: ScheduleRecord, around: Surroundings) -> ScheduleState:
    if schedule.paused_at is not None:
        return ScheduleState.PAUSED
    if is_orphaned(schedule, around):
        return ScheduleState.ORPHANED
    if _due_at(schedule) < around.now - LATE:
        return ScheduleState.LATE
    if _waits(schedule):
        return ScheduleState.WAITING
    return ScheduleState.ACTIVE


def _waits(schedule: ScheduleRecord) -> bool:
    """Whether a tick waits for the last sequence, and not for a worker that can compute ticks."""
    return schedule.waiting_tick is not None and schedule.definition.overlap == "queue_one"


def _due_at(schedule: ScheduleRecord) -> datetime:
    """The tick that is to be fired next. One that no worker could compute was put off."""
    if schedule.waiting_tick is None or _waits(schedule):
        return schedule.next_at
    return schedule.waiting_tick


@reading
def explain_schedule(
    store: Operations,
    schedule: ScheduleRecord,
    runs: Sequence[ScheduleRun],
    workers: Sequence[WorkerRecord],
    around: Surroundings,
) -> Operation[ScheduleExplanation]:
    """`runs` are its last ticks, newest first; `workers` are all that the store knows, dead or
    alive."""
    if schedule.paused_at is not None:
        also = _orphaned(schedule, workers, around) if is_orphaned(schedule, around) else ""
        sentence = f"paused since {moment(schedule.paused_at)}{also and f', and {also}'}"
        return _because(schedule, ScheduleReason.PAUSED, sentence)
    if is_orphaned(schedule, around):
        sentence = _orphaned(schedule, workers, around)
        return _because(schedule, ScheduleReason.ORPHANED, sentence)
    if schedule.definition.unreadable is not None:
        sentence = "not fired: this version of Headway cannot read its definition"
        return _because(schedule, ScheduleReason.UNREADABLE, sentence)
    firing = [each for each in around.workers if fires(each, schedule)]
    if not firing:
        sentence = f"not fired: {_nobody(around)}{_since(schedule, around)}"
        return _because(schedule, ScheduleReason.NO_WORKER, sentence)
    job = yield from _unfinished(store, schedule)
    if _due_at(schedule) < around.now - LATE:
        sentence = (
            f"late{_since(schedule, around)}, although "
            f"{plural(len(firing), 'living worker')} should fire it; their logs may say why"
        )
        return _because(schedule, ScheduleReason.LATE, sentence)
    if job is not None and _waits(schedule):
        reason = yield from explain(store, job, around)
        sentence = (
            f"waiting: its tick of {moment(schedule.waiting_tick)} starts when {job.type} "
            f"{job.id} has ended, which is {reason.sentence}"
        )
        return _because(schedule, ScheduleReason.WAITING, sentence, reason)
    overlapped = list(takewhile(lambda run: run.skipped == "overlap", runs))
    if job is not None and overlapped and schedule.definition.overlap == "skip":
        reason = yield from explain(store, job, around)
        sentence = (
            f"skipping its ticks since {moment(overlapped[-1].tick)}, because {job.type} {job.id} "
            f"of its last run has not ended: it is {reason.sentence}"
        )
        return _because(schedule, ScheduleReason.OVERLAP, sentence, reason)
    return _explain_next(schedule, around)


def _explain_next(schedule: ScheduleRecord, around: Surroundings) -> ScheduleExplanation:
    """A schedule that is fired; its jobs may not run all the same."""
    tick = schedule.waiting_tick or schedule.next_at
    left = (tick - around.now).total_seconds()
    sentence = (
        f"scheduled, next tick in {span(left)} at {moment_in(tick, _zone(schedule))}"
        if left > 0
        else "due, and about to be fired"
    )
    job = schedule.definition.job
    paused_at = around.paused_at(job.queue)
    if paused_at is not None:
        sentence += f"; its jobs wait, because queue {job.queue} is paused since "
        sentence += moment(paused_at)
        return _because(schedule, ScheduleReason.QUEUE_PAUSED, sentence)
    able = [each for each in around.workers if job.type in each.types]
    if not able:
        sentence += f"; its jobs wait, because no living worker implements job type {job.type}"
        return _because(schedule, ScheduleReason.NO_WORKER_FOR_JOB, sentence)
    if not any(job.queue in each.queues for each in able):
        sentence += (
            f"; its jobs wait, because no living worker that implements {job.type} works on queue "
            f"{job.queue}"
        )
        return _because(schedule, ScheduleReason.NO_WORKER_FOR_JOB, sentence)
    return _because(schedule, ScheduleReason.SCHEDULED, sentence)


def _zone(schedule: ScheduleRecord) -> str | None:
    timetable = schedule.definition.timetable
    return timetable.tz if isinstance(timetable, Cron) else None


def _unfinished(store: Operations, schedule: ScheduleRecord) -> Operation[JobRecord | None]:
    """The current job of the last sequence, if that has not ended."""
    if schedule.last_sequence_id is None:
        return None
    (job,) = yield from store.current([schedule.last_sequence_id])
    return None if job is None or job.state.terminal else job


def _orphaned(
    schedule: ScheduleRecord, workers: Sequence[WorkerRecord], around: Surroundings
) -> str:
    sentence = "orphaned: no living worker declares it"
    earlier = [each for each in workers if fires(each, schedule)]
    if not earlier:
        return sentence
    last = max(earlier, key=lambda worker: worker.seen_at)
    seen = ago(last.seen_at, around.now)
    return f"{sentence}; the last one that declared it, {last.id}, was seen {seen}"


def _nobody(around: Surroundings) -> str:
    living = len(around.workers)
    if not living:
        return "there is no living worker"
    who = "the one living worker fires no schedules: it"
    if living > 1:
        who = f"none of the {living} living workers fires schedules: each"
    return f"{who} runs with --no-schedules, or an earlier version of Headway"


def _since(schedule: ScheduleRecord, around: Surroundings) -> str:
    tick = _due_at(schedule)
    late = (around.now - tick).total_seconds()
    if late <= 0:
        return f"; its next tick is at {moment_in(tick, _zone(schedule))}"
    return f": its tick of {moment(tick)} is {span(late)} late"


def _because(
    schedule: ScheduleRecord,
    reason: ScheduleReason,
    sentence: str,
    because: Explanation | None = None,
) -> ScheduleExplanation:
    return ScheduleExplanation(
        name=schedule.name, reason=reason, sentence=sentence, because=because
    )
