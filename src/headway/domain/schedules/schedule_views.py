"""Answers for operators about schedules. All of them can be encoded as JSON."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from headway.domain.schedules.schedule import Overlap, ScheduledJob, SkipReason
from headway.domain.views import Explanation

SHOWN_RUNS = 30
"""Ticks of a schedule that operators see."""


class ScheduleState(enum.StrEnum):
    ACTIVE = "active"
    WAITING = "waiting"
    """A tick waits until the last sequence has ended."""
    LATE = "late"
    """A tick should have been fired more than a minute ago."""
    PAUSED = "paused"
    ORPHANED = "orphaned"
    """Declared in code, but not in that of the living workers that fire schedules: its ticks start
    nothing. While no living worker fires schedules, none is orphaned."""


class ScheduleOrigin(enum.StrEnum):
    DECLARED = "declared"
    """In code."""
    PUT = "put"
    """At run time."""
    ORPHANED = "orphaned"
    """In code, but not in that of the living workers that fire schedules."""


class RunOutcome(enum.StrEnum):
    """What became of a tick: the state of its sequence, or why there is none."""

    BLOCKED = "blocked"
    SCHEDULED = "scheduled"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """It started nothing."""
    GONE = "gone"
    """Its jobs were deleted or pruned."""


class ScheduleRunView(msgspec.Struct, frozen=True, kw_only=True):
    """A tick of a schedule, or a trigger by hand."""

    tick: datetime
    at: datetime
    """When it was fired or skipped."""
    outcome: RunOutcome
    skipped: SkipReason | None
    """`overlap`: the last sequence had not ended; `missed`: no worker fired it in time."""
    triggered: bool
    """By hand, besides the ticks."""
    sequence_id: str | None
    job_id: str | None
    """The current job of the sequence."""


class ScheduleSummary(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    timetable: str
    """`30 2 * * * Europe/Berlin`, `every 1 h`."""
    type: str
    queue: str
    state: ScheduleState
    origin: ScheduleOrigin
    paused_at: datetime | None
    next_at: datetime | None
    """The next tick, or the one that waits; None while the schedule is paused or orphaned."""
    last: ScheduleRunView | None
    """The last run that started a sequence."""
    fired: int
    skipped: int
    runs: list[ScheduleRunView] | None = None
    """The last ticks and triggers, newest first; None if the question did not ask for them."""


class SchedulePage(msgspec.Struct, frozen=True):
    """Some schedules by name, and the cursor of the next page (None: there is none)."""

    schedules: list[ScheduleSummary]
    cursor: str | None


class ScheduleReason(enum.StrEnum):
    """Why a schedule starts no job now."""

    PAUSED = "paused"
    ORPHANED = "orphaned"
    NO_WORKER = "no_worker"
    """No living worker fires it."""
    UNREADABLE = "unreadable"
    """Another version of Headway has written its definition."""
    LATE = "late"
    WAITING = "waiting"
    OVERLAP = "overlap"
    """Its ticks are skipped while the last sequence has not ended."""
    NO_WORKER_FOR_JOB = "no_worker_for_job"
    """It is fired, but no living worker runs its jobs."""
    QUEUE_PAUSED = "queue_paused"
    SCHEDULED = "scheduled"
    """Nothing is wrong."""


class ScheduleExplanation(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    reason: ScheduleReason
    sentence: str
    """Goes on from "the schedule is": `paused since …`, `scheduled, next tick in 4 m`."""
    because: Explanation | None = None
    """Of the job that its ticks wait for."""


class ScheduleDetail(msgspec.Struct, frozen=True, kw_only=True):
    schedule: ScheduleSummary
    job: ScheduledJob
    overlap: Overlap
    tz: str | None
    """The time zone of a `Cron`."""
    catch_up: str
    """`none`, `latest within 1 h`, `all within 1 d, at most 100`."""
    jitter: float
    """Seconds."""
    created_at: datetime
    changed_at: datetime
    next_ticks: list[datetime]
    """Also of a schedule that is paused or orphaned: when it would tick. None where the package
    or the time zone is missing that computes them."""
    runs: list[ScheduleRunView]
    """The last ticks and triggers, newest first."""
    workers: list[str]
    """Ids of the living workers that fire it."""
    explanation: ScheduleExplanation


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule before and after it was paused, resumed or deleted."""

    name: str
    before: str
    after: str
    next_at: datetime | None
    """The next tick; None if there will be none."""


class BackfillPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill would start."""

    name: str
    ticks: int
    existing: int
    """Ticks whose job is stored: they start no other."""
    first: datetime | None
    last: datetime | None


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    started: int
    existing: int
