"""Answers the questions of operators from a store. Every question is bounded."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import structs

from headway.admin.details import (
    read_detail,
    read_failures,
    read_graph,
    read_sequences,
    read_why,
)
from headway.admin.id_lookup import whole_id, with_whole_ids
from headway.admin.limits.permit_details import has_permits, permits_of, read_permits
from headway.admin.queue_names import unknown_queue
from headway.admin.schedule_details import (
    plan_backfill,
    read_schedule_detail,
    read_schedule_why,
    read_schedules,
)
from headway.admin.statistics import (
    BUCKETS,
    buckets,
    by_state,
    fits,
    is_tallied,
    oldest,
    percentiles,
    unsure,
)
from headway.domain.job import JobRecord, JobState
from headway.domain.limits.queue_limits import QueueState
from headway.domain.queries import (
    LATELY,
    MAX_COUNTED,
    MAX_GRAPH,
    MAX_MINUTES,
    MAX_PAGE,
    JobFilter,
    Page,
    Tally,
    WorkerRecord,
    completed_per_second,
    is_alive,
)
from headway.domain.schedules.schedule_views import (
    BackfillPlan,
    ScheduleDetail,
    ScheduleExplanation,
    SchedulePage,
    ScheduleState,
)
from headway.domain.validation import check_name
from headway.domain.views import (
    AuditPage,
    CheckPage,
    Count,
    Explanation,
    FailureGroup,
    IncompatibleJob,
    JobDetail,
    Overview,
    QueueDetail,
    QueueSummary,
    SequenceGraph,
    SequencePage,
    ShownState,
    TypeSummary,
    WorkerSummary,
)
from headway.errors import InvalidOption
from headway.jobs.registry import Registry
from headway.ports.clock import Clock
from headway.ports.store import Store

STUCK = frozenset({JobState.BLOCKED, JobState.FAILED, JobState.CANCELLED})
"""States that jobs stay in until somebody acts."""
SAMPLES = 1_000
"""Jobs that percentiles are taken of."""
TREND = (timedelta(seconds=2), timedelta(minutes=5))
"""Least and greatest age of the last count for a trend."""


class StoreQuestions:
    """Safe to use from any number of tasks."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._seen: tuple[datetime, int] | None = None
        """Time and result of the last count of pending jobs."""

    async def overview(self, *, minutes: int = 60) -> Overview:
        if not 1 <= minutes <= MAX_MINUTES:
            raise InvalidOption(
                f"an overview reaches back 1 to {MAX_MINUTES} minutes, not {minutes}"
            )
        seconds = minutes * 60 / BUCKETS
        now = await self._now()
        tallies = await self._store.run(self._store.tally, now=self._clock.now())
        ended = await self._store.run(self._store.throughput, BUCKETS, seconds, now=now)
        lately = await self._store.run(self._store.throughput, *LATELY, now=now)
        latest = await self._store.run(self._store.ended, SAMPLES)
        workers = await self._store.run(self._store.workers)
        speed = sum(completed_per_second(lately).values())
        states = by_state(tallies)
        done = [job for job in latest if job.state is JobState.COMPLETED and job.started_at]
        return Overview(
            at=now,
            store=self._store.name,
            states=states,
            throughput=buckets(ended, seconds, now),
            bucket_seconds=seconds,
            per_second=speed,
            waited=percentiles(
                (job.started_at - job.run_at).total_seconds() for job in done if job.started_at
            ),
            ran=percentiles(
                (job.finished_at - job.started_at).total_seconds() for job in done if job.started_at
            ),
            oldest_waiting=oldest(tallies, now),
            time_to_drain=self._time_to_drain(states[ShownState.PENDING].value, speed, now),
            workers=sum(is_alive(worker, now) for worker in workers),
        )

    def _time_to_drain(self, pending: int, speed: float, now: datetime) -> float | None:
        """From the trend since the last count; without one, from the speed of completion."""
        seen = self._seen
        nearest, farthest = TREND
        if seen is None or now - seen[0] >= nearest:
            self._seen = (now, pending)
        if not pending:
            return 0.0
        if seen is not None and nearest <= now - seen[0] <= farthest:
            speed = (seen[1] - pending) / (now - seen[0]).total_seconds()
        return pending / speed if speed > 0 else None

    async def queues(self) -> list[QueueSummary]:
        now = await self._now()
        tallies = await self._store.run(self._store.tally, now=self._clock.now())
        states = {each.name: each for each in await self._store.run(self._store.queue_states)}
        lately = await self._store.run(self._store.throughput, *LATELY, now=now)
        workers = await self._living(now)
        speed = completed_per_second(lately)
        by_name: dict[str, list[Tally]] = {name: [] for name in states}
        for worker in workers:
            for name in worker.queues:
                by_name.setdefault(name, [])
        for tally in tallies:
            by_name.setdefault(tally.queue, []).append(tally)
        doubtful = unsure(tallies)
        found: list[QueueSummary] = []
        for name, own in sorted(by_name.items()):
            state = states.get(name) or QueueState(name=name)
            counts = by_state(own, doubtful)
            permits = None
            if has_permits(state, now):
                permits = permits_of(state, counts[ShownState.RUNNING].value, workers, now)
            found.append(
                QueueSummary(
                    name=name,
                    paused_at=state.paused_at,
                    states=counts,
                    oldest_waiting=oldest(own, now),
                    per_second=speed.get(name, 0.0),
                    workers=sum(name in worker.queues for worker in workers),
                    permits=permits,
                )
            )
        return found

    async def queue(self, name: str) -> QueueDetail:
        check_name("queue", name)
        found = next((each for each in await self.queues() if each.name == name), None)
        if found is None:
            found = QueueSummary(
                name=name,
                paused_at=None,
                states=by_state(()),
                oldest_waiting=None,
                per_second=0.0,
                workers=0,
            )
        now = await self._now()
        workers = await self._living(now)
        permits = await self._store.run(read_permits, self._store, name, workers, now)
        return QueueDetail(
            queue=structs.replace(found, permits=permits),
            warning=await unknown_queue(self._store, self._registry, name, now=self._clock.now()),
        )

    async def types(self) -> list[TypeSummary]:
        now = await self._now()
        tallies = await self._store.run(self._store.tally, now=self._clock.now())
        workers = await self._living(now)
        implemented = {type_ for worker in workers for type_ in worker.types}
        by_name: dict[str, list[Tally]] = {
            name: [] for name in {*implemented, *(known.name for known in self._registry)}
        }
        for tally in tallies:
            by_name.setdefault(tally.type, []).append(tally)
        doubtful = unsure(tallies)
        return [
            TypeSummary(
                name=name,
                states=by_state(own, doubtful),
                oldest_waiting=oldest(own, now),
                implemented=name in implemented,
            )
            for name, own in sorted(by_name.items())
        ]

    async def jobs(self, which: JobFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        which = await with_whole_ids(self._store, which)
        return await self._store.run(
            self._store.find, which, cursor=cursor, limit=limit, now=self._clock.now()
        )

    async def count(self, which: JobFilter, *, at_most: int = 10_000) -> Count:
        if not 1 <= at_most <= MAX_COUNTED:
            raise InvalidOption(f"jobs are counted up to 1 to {MAX_COUNTED}, not {at_most}")
        which = await with_whole_ids(self._store, which)
        estimate = 0
        if is_tallied(which):
            tallies = await self._store.run(self._store.tally, now=self._clock.now())
            wanted = set(which.states or JobState)
            estimate = sum(tally.count for tally in tallies if fits(tally, which))
            exact = all(tally.exact for tally in tallies if tally.state in wanted)
            # States that change while they are counted need no exact number.
            if exact or estimate > at_most or not wanted <= STUCK:
                return Count(estimate, exact)
        found = await self._store.run(self._store.count, which, at_most, now=self._clock.now())
        return found if found.exact else Count(max(found.value, estimate), False)

    async def job(self, id: str) -> JobDetail:
        whole = await whole_id(self._store, id)
        return await self._store.run(read_detail, self._store, whole, self._clock.now())

    async def why(self, id: str) -> Explanation:
        whole = await whole_id(self._store, id)
        return await self._store.run(read_why, self._store, whole, self._clock.now())

    async def sequences(
        self, which: JobFilter, *, cursor: str | None = None, limit: int = 50
    ) -> SequencePage:
        which = await with_whole_ids(self._store, which)
        return await self._store.run(
            read_sequences, self._store, which, cursor, limit, self._clock.now()
        )

    async def graph(self, id: str, *, at_most: int = 500) -> SequenceGraph:
        if not 1 <= at_most <= MAX_GRAPH:
            raise InvalidOption(f"a graph has 1 to {MAX_GRAPH} jobs, not {at_most}")
        whole = await whole_id(self._store, id)
        return await self._store.run(read_graph, self._store, whole, at_most, self._clock.now())

    async def failures(self, which: JobFilter, *, limit: int = 100) -> list[FailureGroup]:
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidOption(f"failures come in 1 to {MAX_PAGE} groups, not {limit}")
        which = await with_whole_ids(self._store, which)
        return await self._store.run(read_failures, self._store, which, limit, self._clock.now())

    async def workers(self) -> list[WorkerSummary]:
        now = await self._now()
        found = await self._store.run(self._store.workers)
        return [
            WorkerSummary(
                worker=worker,
                alive=is_alive(worker, now),
                seen_ago=max((now - worker.seen_at).total_seconds(), 0.0),
            )
            for worker in found
        ]

    async def schedules(
        self,
        *,
        search: str = "",
        state: ScheduleState | None = None,
        cursor: str | None = None,
        limit: int = 50,
        runs: int = 0,
    ) -> SchedulePage:
        now = self._clock.now()
        return await self._store.run(
            read_schedules, self._store, search, state, cursor, limit, runs, now
        )

    async def schedule(self, name: str) -> ScheduleDetail:
        check_name("schedule name", name)
        return await self._store.run(read_schedule_detail, self._store, name, self._clock.now())

    async def explain_schedule(self, name: str) -> ScheduleExplanation:
        check_name("schedule name", name)
        return await self._store.run(read_schedule_why, self._store, name, self._clock.now())

    async def plan_backfill(
        self,
        name: str,
        since: datetime,
        *,
        until: datetime | None = None,
        at_most: int | None = None,
    ) -> BackfillPlan:
        check_name("schedule name", name)
        return await self._store.run(
            plan_backfill, self._store, name, since, until, at_most, self._clock.now()
        )

    async def audit(self, *, cursor: str | None = None, limit: int = 50) -> AuditPage:
        return await self._store.run(self._store.audit_page, cursor=cursor, limit=limit)

    async def check(self, *, cursor: str | None = None, limit: int = 1_000) -> CheckPage:
        waiting = JobFilter(states=(JobState.BLOCKED, JobState.PENDING, JobState.RUNNING))
        page = await self.jobs(waiting, cursor=cursor, limit=limit)
        incompatible = [each for job in page.jobs if (each := self._incompatible(job)) is not None]
        return CheckPage(len(page.jobs), incompatible, page.cursor)

    def _incompatible(self, job: JobRecord) -> IncompatibleJob | None:
        problem = input_problem(self._registry, job.type, job.input)
        if problem is None:
            return None
        return IncompatibleJob(job_id=job.id, type=job.type, state=job.state, problem=problem)

    async def _now(self) -> datetime:
        return await self._store.run(self._store.time, now=self._clock.now())

    async def _living(self, now: datetime) -> list[WorkerRecord]:
        return [each for each in await self._store.run(self._store.workers) if is_alive(each, now)]


def input_problem(registry: Registry, name: str, input: str) -> str | None:
    """Why this code cannot run a job of this type with this input; None: it can."""
    known = registry.find(name)
    if known is None:
        return f"this code has no job type {name!r}"
    try:
        known.definition.arguments.decode(input)
    except Exception as error:
        return str(error) or type(error).__name__
    return None
