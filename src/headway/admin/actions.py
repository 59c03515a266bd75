"""Actions of operators: each effect and its audit row are one transaction; workers are woken after
the commit, as the client does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from headway.admin.id_lookup import whole_ids, with_whole_ids
from headway.admin.limits.limit_actions import limit_queue, release_hold
from headway.admin.queue_names import unknown_queue
from headway.admin.schedule_actions import (
    backfill_schedule,
    delete_schedule,
    pause_schedule,
    trigger_schedule,
)
from headway.after_commit.effects import Effects
from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.client import changes
from headway.domain.due_time import After, At
from headway.domain.events import JobsDeleted
from headway.domain.filters import render_filter
from headway.domain.job import JobState, NewJob
from headway.domain.lifecycle import ALLOWED
from headway.domain.limits.limit_views import HoldRelease, LimitsChange
from headway.domain.limits.queue_limits import LimitsOverride
from headway.domain.limits.rate import Rate
from headway.domain.queries import MAX_PAGE, JobFilter
from headway.domain.request import Dedup, Request
from headway.domain.schedules.schedule_views import Backfill, ScheduleChange
from headway.domain.validation import check_name, check_seconds
from headway.domain.views import BY_FILTER, AuditRecord, Batch, JobAction, QueueChange, StartedJob
from headway.errors import InvalidName, InvalidOption, InvalidPayload
from headway.jobs.ids import new_id
from headway.jobs.job_type import JobType
from headway.jobs.plan import plan_start
from headway.jobs.registry import Registry
from headway.ports.clock import Clock
from headway.ports.statement import Operation
from headway.ports.store import Inserted, Operations, Store

BATCH = 500
"""Jobs changed in one transaction by `act_on_all`."""
MAX_ACTOR = 200
MAX_TARGET = 1_000
"""Characters that an audit row keeps of its target."""

_AFTER: dict[JobAction, str] = {
    JobAction.RETRY: "pending",
    JobAction.CANCEL: "cancelled",
    JobAction.TRIGGER: "due",
    JobAction.DELETE: "deleted",
}


@dataclass(frozen=True, slots=True)
class StoreActions:
    """Acts in the name of `actor`. Safe to use from any number of tasks."""

    _store: Store
    _registry: Registry
    _clock: Clock
    _observers: Observers
    _publisher: Publisher
    _actor: str

    def __post_init__(self) -> None:
        actor = self._actor
        if not actor or len(actor) > MAX_ACTOR:
            raise InvalidName(f"an actor's name has 1 to {MAX_ACTOR} characters")
        if "\0" in actor or any("\ud800" <= char <= "\udfff" for char in actor):
            raise InvalidName("an actor's name must not hold NUL or unpaired surrogate characters")

    async def act(self, action: JobAction, ids: Sequence[str], *, exactly: bool = False) -> Batch:
        if len(ids) > MAX_PAGE:
            raise InvalidOption(f"at most {MAX_PAGE} jobs at once, not {len(ids)}; use a filter")
        asked = await whole_ids(self._store, ids)
        if not asked:
            return Batch(changed=0, passed_over=0)
        changed, effects = await self._store.run(
            _act,
            self._store,
            action,
            asked,
            self._note(action),
            self._clock.now(),
            exactly=exactly,
        )
        await self._publisher.publish(effects)
        return Batch(changed=changed, passed_over=len(asked) - changed)

    async def act_on_all(
        self, action: JobAction, which: JobFilter, *, cursor: str | None = None
    ) -> Batch:
        eligible = _narrowed(which, ALLOWED[action])
        if eligible is None:
            return Batch(changed=0, passed_over=0)
        eligible = await with_whole_ids(self._store, eligible, unique=True)
        now = self._clock.now()
        page = await self._store.run(
            self._store.find, eligible, cursor=cursor, limit=BATCH, now=now
        )
        changed = 0
        if page.jobs:
            note = self._note(action, BY_FILTER + (render_filter(which) or "all jobs"))
            ids = [job.id for job in page.jobs]
            # Not what followed them meanwhile: that need not match the filter.
            changed, effects = await self._store.run(
                _act, self._store, action, ids, note, now, exactly=True
            )
            await self._publisher.publish(effects)
        return Batch(changed=changed, passed_over=len(page.jobs) - changed, cursor=page.cursor)

    async def pause(self, queue: str) -> QueueChange:
        return await self._pause(queue, True)

    async def resume(self, queue: str) -> QueueChange:
        return await self._pause(queue, False)

    async def _pause(self, queue: str, paused: bool) -> QueueChange:
        name = check_name("queue", queue)
        note = self._note("pause" if paused else "resume", name)
        warning = await unknown_queue(self._store, self._registry, name, now=self._clock.now())
        effects = await self._store.run(_pause, self._store, name, paused, note, self._clock.now())
        await self._publisher.publish(effects)
        return QueueChange(name, paused, warning)

    async def limit_queue(
        self,
        queue: str,
        *,
        running: int | UnsetType | None = UNSET,
        per_key: int | UnsetType | None = UNSET,
        rate: Rate | UnsetType | None = UNSET,
        exactly: bool = False,
    ) -> LimitsChange:
        change = LimitsOverride(running=running, per_key=per_key, rate=rate)
        if not change.changes:
            raise InvalidOption("name a limit to change: running, per_key or rate")
        return await self._limit(queue, change, "limit queue", exactly=exactly)

    async def clear_limits(self, queue: str) -> LimitsChange:
        return await self._limit(queue, None, "clear limits")

    async def _limit(
        self, queue: str, change: LimitsOverride | None, action: str, *, exactly: bool = False
    ) -> LimitsChange:
        name = check_name("queue", queue)
        warning = await unknown_queue(self._store, self._registry, name, now=self._clock.now())
        note = self._note(action, name)
        changed, effects = await self._store.run(
            limit_queue, self._store, name, change, note, self._clock.now(), exactly=exactly
        )
        await self._publisher.publish(effects)
        return msgspec.structs.replace(changed, warning=warning)

    async def release_hold(self, queue: str) -> HoldRelease:
        name = check_name("queue", queue)
        warning = await unknown_queue(self._store, self._registry, name, now=self._clock.now())
        note = self._note("release hold", name)
        released, effects = await self._store.run(
            release_hold, self._store, name, note, self._clock.now()
        )
        await self._publisher.publish(effects)
        return msgspec.structs.replace(released, warning=warning)

    async def start(
        self,
        type: str,
        input: str,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        at: str | None = None,
        key: str | None = None,
        dedup: str | None = None,
    ) -> StartedJob:
        request = self._request(type, input)
        if queue is not None:
            request = request.using(queue=queue)
        if priority is not None:
            request = request.using(priority=priority)
        if delay is not None and at is not None:
            raise InvalidOption("a job starts after a delay or at a time, not both")
        if delay is not None:
            check_seconds("a delay", delay, zero=True)
            request = request.using(schedule=After(seconds=delay))
        if at is not None:
            request = request.using(schedule=At(_moment(at)))
        if key is not None:
            request = request.using(key=key)
        if dedup is not None:
            request = request.using(dedup=Dedup(dedup))
        plan = plan_start((request,))
        starting = self._observers.start(plan.jobs)
        if starting is not None:
            plan.carry(starting.trace)
        try:
            stored = await self._store.run(
                _start, self._store, plan.jobs, self._note("start", type), self._clock.now()
            )
        except BaseException as error:
            self._observers.end_start(starting, error)
            raise
        self._observers.end_start(starting)
        effects = Effects()
        effects.create(plan.jobs, stored, watched=self._observers.active)
        await self._publisher.publish(effects)
        return StartedJob(stored[plan.heads[0]].id)

    async def pause_schedule(self, name: str) -> ScheduleChange:
        return await self._pause_schedule(name, True)

    async def resume_schedule(self, name: str) -> ScheduleChange:
        return await self._pause_schedule(name, False)

    async def _pause_schedule(self, name: str, paused: bool) -> ScheduleChange:
        check_name("schedule name", name)
        note = self._note("pause schedule" if paused else "resume schedule", name)
        changed, effects = await self._store.run(
            pause_schedule, self._store, name, paused, note, self._clock.now()
        )
        await self._publisher.publish(effects)
        return changed

    async def trigger_schedule(self, name: str) -> StartedJob:
        check_name("schedule name", name)
        id, effects = await self._store.run(
            trigger_schedule,
            self._store,
            name,
            self._note("trigger schedule", name),
            self._clock.now(),
            watched=self._publisher.watched,
        )
        await self._publisher.publish(effects)
        return StartedJob(id)

    async def backfill_schedule(
        self,
        name: str,
        since: datetime,
        *,
        until: datetime | None = None,
        at_most: int | None = None,
    ) -> Backfill:
        check_name("schedule name", name)
        result, effects = await self._store.run(
            backfill_schedule,
            self._store,
            name,
            since,
            until,
            at_most,
            self._note("backfill schedule", name),
            self._clock.now(),
            watched=self._publisher.watched,
        )
        await self._publisher.publish(effects)
        return result

    async def delete_schedule(self, name: str) -> ScheduleChange:
        check_name("schedule name", name)
        note = self._note("delete schedule", name)
        return await self._store.run(delete_schedule, self._store, name, note, self._clock.now())

    def _request(self, name: str, input: str) -> Request[object]:
        """The request, its arguments checked by the codec of the job type."""
        type_ = self._registry.type(name)
        if not isinstance(type_, JobType):
            raise InvalidOption(
                f"job type {name!r} can only continue a sequence; start one that begins it"
            )
        arguments = type_.definition.arguments
        try:
            args, kwargs = arguments.decode(input)
            _refuse_unknown(name, arguments.names, input)
        except InvalidPayload:
            raise
        except Exception as error:
            raise InvalidPayload(
                f"the input does not fit job type {name!r}: {str(error) or type(error).__name__}"
            ) from None
        return type_.request(*args, **kwargs)

    def _note(self, action: str, target: str = "") -> AuditRecord:
        return AuditRecord(
            id=new_id(),
            at=datetime.now(UTC),
            actor=self._actor,
            action=str(action),
            target=_target([target]),
            count=0,
            before="",
            after="",
        )


def _act(
    store: Operations,
    action: JobAction,
    ids: Sequence[str],
    note: AuditRecord,
    now: datetime | None,
    *,
    exactly: bool,
) -> Operation[tuple[int, Effects]]:
    """As the client does it, on the current jobs of the sequences that these jobs belong to; with
    `exactly` only where that is one of these jobs."""
    asked = [job for job in (yield from store.get(ids)) if job]
    # Locked before they are changed, so that the audit row tells what they were.
    sequences = sorted({job.sequence_id for job in asked})
    current = {job.id: job for job in (yield from store.current(sequences, lock=True)) if job}
    if action is JobAction.DELETE:
        ended = [job.id for job in asked if job.state in ALLOWED[action]]
        changed = yield from store.delete_ended(ended)
        count = len(set(ended).intersection(changed))
        effects = Effects()
        effects.events.append(JobsDeleted(len(changed)))
    else:
        chosen = set(ids) if exactly else current.keys()
        jobs = [
            job for job in current.values() if job.id in chosen and job.state in ALLOWED[action]
        ]
        changed = [job.id for job in jobs]
        count = len(changed)
        effects = yield from changes.change(store, action, jobs, now)
    if changed:
        # Jobs of a sequence before its current one have completed.
        states = [current[id].state if id in current else JobState.COMPLETED for id in changed]
        yield from store.add_audit(
            msgspec.structs.replace(
                note,
                target=note.target or _target(changed),
                count=len(changed),
                before=_summary(states),
                after=_AFTER[action],
            ),
            now=now,
        )
    return count, effects


def _pause(
    store: Operations, queue: str, paused: bool, note: AuditRecord, now: datetime | None
) -> Operation[Effects]:
    known = {each.name: each.paused_at for each in (yield from store.managed_queues())}
    before = "working" if known.get(queue) is None else "paused"
    after = "paused" if paused else "working"
    effects = Effects()
    if paused:
        yield from store.pause(queue, True, now=now)
    else:
        effects = yield from changes.resume(store, queue, now)
    yield from store.add_audit(
        msgspec.structs.replace(note, count=1, before=before, after=after), now=now
    )
    return effects


def _start(
    store: Operations, jobs: Sequence[NewJob], note: AuditRecord, now: datetime | None
) -> Operation[list[Inserted]]:
    stored = yield from store.insert(jobs, now=now)
    head = stored[-1]
    yield from store.add_audit(
        msgspec.structs.replace(
            note,
            target=f"{note.target} {head.id}",
            count=0 if head.deduplicated else 1,
            before="",
            after="deduplicated" if head.deduplicated else "pending",
        ),
        now=now,
    )
    return stored


def _target(ids: Sequence[str]) -> str:
    """The ids, as many as an audit row keeps."""
    named = ", ".join(ids)
    return f"{named[:MAX_TARGET]}…" if len(named) > MAX_TARGET else named


def _summary(states: Iterable[JobState]) -> str:
    """`failed`, or `3 failed, 1 cancelled`."""
    counts = Counter(map(str, states))
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


def _narrowed(which: JobFilter, states: tuple[JobState, ...]) -> JobFilter | None:
    """The filter, only for states that allow the action; None if it has none of them."""
    wanted = tuple(state for state in which.states or states if state in states)
    return msgspec.structs.replace(which, states=wanted) if wanted else None


def _refuse_unknown(name: str, known: tuple[str, ...] | None, input: str) -> None:
    """Decoding ignores unknown arguments, for newer producers; from a person they are typos."""
    if known is None:
        return
    for each in msgspec.json.decode(input, type=dict[str, Any]):
        if each not in known:
            raise InvalidPayload(
                f"job type {name!r} has no parameter {each!r}; "
                f"it takes {', '.join(known) or 'no arguments'}"
            )


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(
            f"{text[:40]!r} is not a time to start at; write 2026-12-24T18:00:00+01:00"
        ) from None
    if moment.tzinfo is None:
        raise InvalidOption(f"{text[:40]!r} needs a time zone; add Z or an offset such as +01:00")
    return moment
