"""What operators ask and do: the same questions and actions for CLI, dashboard and API.

`headway.admin.questions` and `headway.admin.actions` answer from a store,
`headway.cli.dashboard_client` asks a dashboard. `headway.admin.endpoints` has their addresses over
HTTP. Everything is bounded: no question reads a whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Protocol

from msgspec import UNSET, Meta, UnsetType

from headway.domain.limits.limit_views import HoldRelease, LimitsChange
from headway.domain.limits.queue_limits import MOST_RUNNING
from headway.domain.limits.rate import Rate
from headway.domain.queries import (
    MAX_COUNTED,
    MAX_GRAPH,
    MAX_MINUTES,
    MAX_PAGE,
    JobFilter,
    Page,
)
from headway.domain.request import MAX_PRIORITY
from headway.domain.schedules.schedule import MOST_BACKFILLED
from headway.domain.schedules.schedule_views import (
    SHOWN_RUNS,
    Backfill,
    BackfillPlan,
    ScheduleChange,
    ScheduleDetail,
    ScheduleExplanation,
    SchedulePage,
    ScheduleState,
)
from headway.domain.validation import MAX_KEY, MAX_NAME
from headway.domain.views import (
    AuditPage,
    Batch,
    CheckPage,
    Count,
    Explanation,
    FailureGroup,
    JobAction,
    JobDetail,
    Overview,
    QueueChange,
    QueueDetail,
    QueueSummary,
    SequenceGraph,
    SequencePage,
    StartedJob,
    TypeSummary,
    WorkerSummary,
)

Cursor = Annotated[str, Meta(min_length=1, max_length=2_000, description="From the page before.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
Ids = Annotated[Sequence[str], Meta(min_length=1, max_length=MAX_PAGE)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]

Moment = Annotated[datetime, Meta(tz=True, description="ISO 8601, with an offset.")]
Ticks = Annotated[int, Meta(ge=1, le=MOST_BACKFILLED)]
Cap = Annotated[int, Meta(description=f"1 to {MOST_RUNNING:,}; null: any number.")]
Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY)]


class Questions(Protocol):
    """Ids may be of a job or of a sequence, whole or by their endings. Raises JobNotFound for an id
    that does not exist, AmbiguousId for an ending that several ids have, ScheduleNotFound for the
    name of a schedule that does not exist."""

    async def overview(
        self, *, minutes: Annotated[int, Meta(ge=1, le=MAX_MINUTES)] = 60
    ) -> Overview: ...

    async def queues(self) -> list[QueueSummary]:
        """By name: queues that hold jobs, were paused, have limits, or have a living worker."""
        ...

    async def queue(self, name: Name) -> QueueDetail:
        """One queue, with the keys of its running jobs if it has limits."""
        ...

    async def types(self) -> list[TypeSummary]: ...

    async def jobs(
        self, which: JobFilter, *, cursor: Cursor | None = None, limit: Limit = 50
    ) -> Page:
        """Newest first. A page may be short, even empty, and still have a cursor: then the filter
        had to read many rows, and the next page goes on from there."""
        ...

    async def count(
        self, which: JobFilter, *, at_most: Annotated[int, Meta(ge=1, le=MAX_COUNTED)] = 10_000
    ) -> Count:
        """How many jobs match. Beyond `at_most`, or where too many rows would have to be read, the
        number is not exact: an estimate, or a lower bound."""
        ...

    async def job(self, id: str) -> JobDetail: ...

    async def why(self, id: str) -> Explanation:
        """One sentence why the job is not running, or what it does."""
        ...

    async def sequences(
        self, which: JobFilter, *, cursor: Cursor | None = None, limit: Limit = 50
    ) -> SequencePage:
        """Sequences whose current job matches the filter."""
        ...

    async def graph(
        self, id: str, *, at_most: Annotated[int, Meta(ge=1, le=MAX_GRAPH)] = 500
    ) -> SequenceGraph:
        """All jobs under the root of this job or sequence, and their blockers from outside."""
        ...

    async def failures(self, which: JobFilter, *, limit: Limit = 100) -> list[FailureGroup]:
        """Failed jobs that match, by fingerprint, the largest group first."""
        ...

    async def workers(self) -> list[WorkerSummary]: ...

    async def schedules(
        self,
        *,
        search: Annotated[str, Meta(max_length=MAX_NAME)] = "",
        state: ScheduleState | None = None,
        cursor: Cursor | None = None,
        limit: Limit = 50,
        runs: Annotated[int, Meta(ge=0, le=SHOWN_RUNS)] = 0,
    ) -> SchedulePage:
        """By name, with the last `runs` ticks of each, at most 1,000 ticks in all. Each word of
        `search` is a part of the name, type or queue, in any case. A page may be short, even empty,
        and still have a cursor, as that of jobs."""
        ...

    async def schedule(self, name: Name) -> ScheduleDetail: ...

    async def explain_schedule(self, name: Name) -> ScheduleExplanation:
        """One sentence why the schedule starts no job now, or when it will."""
        ...

    async def plan_backfill(
        self,
        name: Name,
        since: Moment,
        *,
        until: Moment | None = None,
        at_most: Ticks | None = None,
    ) -> BackfillPlan:
        """What `backfill_schedule` would start."""
        ...

    async def audit(self, *, cursor: Cursor | None = None, limit: Limit = 50) -> AuditPage:
        """Actions of operators, newest first."""
        ...

    async def check(self, *, cursor: Cursor | None = None, limit: Limit = 1_000) -> CheckPage:
        """Compares the inputs of jobs that have not ended with the job types of this code, to find
        what a deployment would break. In batches; go on with the cursor."""
        ...


class Actions(Protocol):
    """Each writes an audit row in the transaction of its effect. Ids are given as for questions; an
    ambiguous one changes nothing."""

    async def act(self, action: JobAction, ids: Ids, *, exactly: bool = False) -> Batch:
        """On the current jobs of the sequences that these jobs belong to; `exactly`: on these jobs
        alone. Jobs in another state are passed over, not an error."""
        ...

    async def act_on_all(
        self, action: JobAction, which: JobFilter, *, cursor: Cursor | None = None
    ) -> Batch:
        """On one batch of the jobs that match; go on with the cursor until it is None."""
        ...

    async def pause(self, queue: Name) -> QueueChange: ...

    async def resume(self, queue: Name) -> QueueChange: ...

    async def limit_queue(
        self,
        queue: Name,
        *,
        running: Cap | UnsetType | None = UNSET,
        per_key: Cap | UnsetType | None = UNSET,
        rate: Rate | UnsetType | None = UNSET,
        exactly: bool = False,
    ) -> LimitsChange:
        """Override limits that the code declares, besides those that were overridden before, until
        they are cleared; None: no limit. `exactly`: the other overrides are taken back. Running
        workers follow within a second; running jobs go on."""
        ...

    async def clear_limits(self, queue: Name) -> LimitsChange:
        """Take all overrides back: the limits that the code declares are in force again."""
        ...

    async def release_hold(self, queue: Name) -> HoldRelease:
        """End the holds of the queue and of its keys."""
        ...

    async def start(
        self,
        type: Name,
        input: str,
        *,
        queue: Name | None = None,
        priority: Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = None,
        delay: Annotated[float, Meta(ge=0, description="Seconds.")] | None = None,
        at: Annotated[str, Meta(description="ISO 8601, with an offset.")] | None = None,
        key: Key | None = None,
        dedup: Key | None = None,
    ) -> StartedJob:
        """Start a job of a type known to this code; `input` is its arguments as JSON. `key` is for
        limits by key, `dedup` the deduplication key: nothing is started while a sequence with this
        key has not ended."""
        ...

    async def pause_schedule(self, name: Name) -> ScheduleChange:
        """Its ticks start nothing until it is resumed."""
        ...

    async def resume_schedule(self, name: Name) -> ScheduleChange:
        """Go on with the next tick; those during the pause are not caught up."""
        ...

    async def trigger_schedule(self, name: Name) -> StartedJob:
        """Start its job now, besides its ticks; also if it is paused."""
        ...

    async def backfill_schedule(
        self,
        name: Name,
        since: Moment,
        *,
        until: Moment | None = None,
        at_most: Ticks | None = None,
    ) -> Backfill:
        """Start a job for each tick from `since` to `until` (now) that has none; with `at_most`
        for the first ticks only."""
        ...

    async def delete_schedule(self, name: Name) -> ScheduleChange:
        """Its jobs stay. A schedule that the code of a living worker declares cannot be deleted."""
        ...
