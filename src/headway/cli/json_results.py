"""Values that only `--json` prints, and the table of all results by command.

These shapes are promised: fields may be added, none is renamed or removed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headway.domain.job import JobRecord
from headway.domain.limits.limit_views import HoldRelease, LimitsChange
from headway.domain.queries import Page
from headway.domain.schedules.schedule_views import (
    Backfill,
    ScheduleChange,
    ScheduleDetail,
    ScheduleExplanation,
    SchedulePage,
)
from headway.domain.views import (
    Batch,
    Explanation,
    IncompatibleJob,
    JobDetail,
    Overview,
    QueueDetail,
    QueueSummary,
    SequenceGraph,
    SequencePage,
    ShownState,
    StartedJob,
    WorkerSummary,
)
from headway.ports.store import MigrationStatus


class SequenceResult(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence with all its jobs, first to last."""

    id: str
    type: str
    state: ShownState
    root_id: str
    jobs: list[JobRecord]
    explanation: Explanation


class StartResult(msgspec.Struct, frozen=True, kw_only=True):
    """A started job; with `--wait` also how its sequence ended."""

    id: str
    state: ShownState | None = None
    output: Any = None
    error: str | None = None


class PauseResult(msgspec.Struct, frozen=True, kw_only=True):
    """Queues that were paused or resumed."""

    queues: list[str]
    paused: bool
    warnings: list[str] = []
    """Sentences about queues that nobody uses."""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of `doctor`: `ok`, `warn` or `fail`, and what to do about it."""

    level: str
    subject: str
    finding: str
    advice: str = ""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting in effect, and where it was set."""

    name: str
    value: str
    source: str


class IncompatibleSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was put at run time and does not fit this code."""

    name: str
    type: str
    problem: str


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that have not ended: how many were checked, and which of them this code cannot run. The
    same for schedules."""

    examined: int
    incompatible: list[IncompatibleJob]
    schedules_examined: int = 0
    incompatible_schedules: list[IncompatibleSchedule] = []
    undeclared_schedules: list[str] = []
    """Names of stored declared schedules that this code does not declare."""


class CopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """Copied jobs, and jobs that were not copied because they, or jobs that they belong to, can
    still run."""

    copied: int
    left: int
    seconds: float


class MoveResult(msgspec.Struct, frozen=True, kw_only=True):
    """Moved jobs, and how many of them an interrupted move had sent before."""

    moved: int
    resumed: int
    seconds: float
    schedules_left: int = 0
    """Schedules that were put at run time, and stay."""


RESULTS: dict[str, Any] = {
    "check": CheckReport,
    "config show": list[Setting],
    "copy": CopyResult,
    "doctor": list[Diagnosis],
    "jobs cancel": Batch,
    "jobs delete": Batch,
    "jobs list": Page,
    "jobs retry": Batch,
    "jobs show": JobDetail,
    "jobs tail": JobRecord,
    "jobs trigger": Batch,
    "migrate status": list[MigrationStatus],
    "migrate up": list[str],
    "move": MoveResult,
    "queues limit": LimitsChange,
    "queues list": list[QueueSummary],
    "queues pause": PauseResult,
    "queues release": list[HoldRelease],
    "queues resume": PauseResult,
    "queues show": QueueDetail,
    "schedules backfill": Backfill,
    "schedules delete": list[ScheduleChange],
    "schedules list": SchedulePage,
    "schedules pause": list[ScheduleChange],
    "schedules resume": list[ScheduleChange],
    "schedules show": ScheduleDetail,
    "schedules trigger": StartedJob,
    "sequences list": SequencePage,
    "sequences show": SequenceResult,
    "sequences tree": SequenceGraph,
    "start": StartResult,
    "stats": Overview,
    "why": Explanation | ScheduleExplanation,
    "workers list": list[WorkerSummary],
}
"""By command. `jobs tail` prints one such document a line."""
