"""Which ticks of a schedule start a job: catch-up after an outage, overlap with the last run."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from headway.domain.schedules.schedule import (
    ScheduleDefinition,
    ScheduleRecord,
    ScheduleRun,
    SkipReason,
)
from headway.domain.schedules.timetable import Cron

ON_TIME = timedelta(seconds=10)
"""A tick that is fired within this time was not missed."""
LOOK_AGAIN = timedelta(seconds=5)
"""Between two looks whether the sequence that a tick waits for has ended; the worker that ran it
looks at once."""
UNREADABLE_PAUSES = timedelta(seconds=5), timedelta(seconds=30)
"""Until the next look at a schedule whose ticks a worker cannot compute: the first time, when
another worker may still fire the tick in time, and after that."""
MOST_COUNTED = 100_000
"""Missed ticks of one outage that are counted."""
MOST_COUNTED_BY_CRON = 200
"""The same where each of them has to be computed: a transaction may fire hundreds of schedules."""
_MOMENT = timedelta(microseconds=1)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    start: tuple[datetime, ...]
    """Ticks that start a job, oldest first."""
    cancel: bool
    """The last sequence is cancelled first."""
    waiting_tick: datetime | None
    next_at: datetime
    skips: tuple[tuple[datetime, SkipReason, int], ...]
    """Ticks that start none: the last one, the reason, their number."""


def decide(schedule: ScheduleRecord, now: datetime, *, running: bool) -> Decision:
    """`running`: the last sequence of this schedule has not ended."""
    timetable, overlap = schedule.timetable, schedule.definition.overlap
    waiting = schedule.waiting_tick
    if waiting is None:
        first = schedule.next_at
    elif overlap == "queue_one":
        first = timetable.next_after(waiting)
    else:  # it was postponed, or waited before the overlap was changed
        first, waiting = waiting, None
    skips: list[tuple[datetime, SkipReason, int]] = []
    due: list[datetime] = []
    if first <= now:
        due, missed = due_ticks(schedule.definition, first, now)
        if missed is not None:
            skips.append((missed[0], "missed", missed[1]))
    if waiting is not None:
        due.insert(0, waiting)
    # A clock that was set back does not bring back the ticks before the waiting one.
    next_at = timetable.next_after(now if waiting is None else max(now, waiting))
    cancel, waiting = False, None
    if due and running and overlap != "allow":
        match overlap:
            case "skip":
                dropped, due = due, []
            case "queue_one":
                waiting, dropped, due = due[-1], due[:-1], []
                next_at = min(next_at, now + LOOK_AGAIN)
            case "cancel":
                cancel, dropped, due = True, due[:-1], due[-1:]
        if dropped:
            skips.append((dropped[-1], "overlap", len(dropped)))
    elif len(due) > 1 and due[0] == schedule.waiting_tick and overlap == "queue_one":
        dropped, due = due[:-1], due[-1:]
        skips.append((dropped[-1], "overlap", len(dropped)))
    return Decision(
        start=tuple(due),
        cancel=cancel,
        waiting_tick=waiting,
        next_at=next_at,
        skips=tuple(skips),
    )


def postpone(schedule: ScheduleRecord, now: datetime) -> Decision:
    """Another worker may be able to compute the ticks; this one looks again later."""
    pause = UNREADABLE_PAUSES[schedule.waiting_tick is not None]
    return Decision(
        start=(),
        cancel=False,
        waiting_tick=schedule.waiting_tick or schedule.next_at,
        next_at=now + pause,
        skips=(),
    )


def due_ticks(
    definition: ScheduleDefinition, first: datetime, now: datetime
) -> tuple[list[datetime], tuple[datetime, int] | None]:
    """Of the ticks from `first` until now those that start a job; and of the others the last one
    and their number."""
    timetable, catch_up = definition.timetable, definition.catch_up
    # A new version of the time zone database can move ticks: then `first` is none any more.
    tick = max(timetable.last_until(now) or first, first)
    most = max(catch_up.at_most, 1)
    within = max(catch_up.within, ON_TIME)
    kept: list[datetime] = []
    while len(kept) < most and now - tick <= within:
        kept.append(tick)
        before = timetable.last_until(tick - _MOMENT)
        if before is None or before < first:
            break
        tick = before
    kept.reverse()
    last = kept[0] - _MOMENT if kept else now
    missed = timetable.last_until(last) or first
    if kept and (missed < first or kept[0] <= first):
        return kept, None
    most = MOST_COUNTED_BY_CRON if isinstance(timetable, Cron) else MOST_COUNTED
    count = timetable.count(first - _MOMENT, last, most)
    return kept, (max(missed, first), max(count, 1))


def run_entries(
    decision: Decision, now: datetime, sequence_ids: dict[datetime, str]
) -> tuple[ScheduleRun, ...]:
    """The entries for a schedule's history, oldest tick first."""
    skipped = [ScheduleRun(tick=tick, at=now, skipped=reason) for tick, reason, _ in decision.skips]
    started = [
        ScheduleRun(tick=tick, at=now, sequence_id=sequence_ids[tick]) for tick in decision.start
    ]
    return tuple(sorted((*skipped, *started), key=lambda run: run.tick))
