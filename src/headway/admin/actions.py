"""The levers of operators: each effect and its audit row are one transaction, and workers are woken
after the commit, as the client does it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.after_commit.effects import Effects, Publisher
from headway.after_commit.observers import Observers
from headway.client import changes
from headway.domain.dedup import Dedup
from headway.domain.events import JobsDeleted
from headway.domain.filters import render_filter
from headway.domain.job import JobRecord, JobState, NewJob
from headway.domain.lease import Verdict
from headway.domain.lifecycle import ALLOWED
from headway.domain.names import check_id, check_name
from headway.domain.queries import MAX_PAGE, JobFilter
from headway.domain.request import Request
from headway.domain.schedule import After, At
from headway.domain.times import check_seconds
from headway.domain.views import BY_FILTER, AuditRecord, Batch, JobAction
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
"""Characters of what an audit row keeps of its target."""

_AFTER: dict[JobAction, str] = {
    JobAction.RETRY: "pending",
    JobAction.CANCEL: "cancelled",
    JobAction.RUN_NOW: "due",
    JobAction.DELETE: "deleted",
}


class Operator:
    """Acts in the name of `actor`. Safe to use from any number of tasks."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        observers: Observers,
        publisher: Publisher,
        actor: str,
    ) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._observers = observers
        self._publisher = publisher
        self._actor = _check_actor(actor)

    async def act(self, action: JobAction, ids: Sequence[str]) -> Batch:
        if len(ids) > MAX_PAGE:
            raise InvalidOption(f"at most {MAX_PAGE} jobs at once, not {len(ids)}; use a filter")
        asked = list(dict.fromkeys(check_id(id) for id in ids))
        if not asked:
            return Batch(changed=0, passed_over=0)
        changed, effects = await self._store.run(
            _act, self._store, action, asked, self._note(action), self._clock.now()
        )
        await self._publisher.publish(effects)
        return Batch(changed=changed, passed_over=len(asked) - changed)

    async def act_on_all(
        self, action: JobAction, which: JobFilter, *, cursor: str | None = None
    ) -> Batch:
        eligible = _narrowed(which, ALLOWED[action])
        if eligible is None:
            return Batch(changed=0, passed_over=0)
        now = self._clock.now()
        page = await self._store.run(
            self._store.find, eligible, cursor=cursor, limit=BATCH, now=now
        )
        changed = 0
        if page.jobs:
            note = self._note(action, BY_FILTER + (render_filter(which) or "all jobs"))
            ids = [job.id for job in page.jobs]
            changed, effects = await self._store.run(_act, self._store, action, ids, note, now)
            await self._publisher.publish(effects)
        return Batch(changed=changed, passed_over=len(page.jobs) - changed, cursor=page.cursor)

    async def pause(self, queue: str) -> None:
        await self._pause(queue, True)

    async def resume(self, queue: str) -> None:
        await self._pause(queue, False)

    async def _pause(self, queue: str, paused: bool) -> None:
        name = check_name("queue", queue)
        note = self._note("pause" if paused else "resume", name)
        effects = await self._store.run(_pause, self._store, name, paused, note, self._clock.now())
        await self._publisher.publish(effects)

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
    ) -> str:
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
            request = request.using(dedup=Dedup(key))
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
        return stored[plan.heads[0]].id

    def _request(self, name: str, input: str) -> Request[object]:
        """What to start, its arguments checked by the job type's own codec."""
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
) -> Operation[tuple[int, Effects]]:
    eligible = ALLOWED[action]
    asked = [job for job in (yield from store.get(ids)) if job and job.state in eligible]
    # Locked before they are changed, so that the note tells what they were. Only the last jobs of
    # sequences can be changed; those before them have completed.
    sequences = sorted({job.sequence_id for job in asked})
    last = {job.id: job for job in (yield from store.current(sequences, lock=True)) if job}
    jobs = [last[job.id] for job in asked if job.id in last]
    effects = Effects()
    changed: list[str] = []
    gone: list[str] = []
    match action:
        case JobAction.RETRY:
            changed = _applied(jobs, (yield from store.retry([job.id for job in jobs], now=now)))
            for id in changed:
                effects.retry(last[id])
        case JobAction.CANCEL:
            changed = _applied(jobs, (yield from store.cancel([job.id for job in jobs], now=now)))
            for id in changed:
                effects.cancel(last[id])
        case JobAction.RUN_NOW:
            changed = _applied(jobs, (yield from store.trigger([job.id for job in jobs], now=now)))
            for id in changed:
                effects.trigger(last[id])
        case JobAction.DELETE:
            gone = yield from store.remove([job.id for job in asked])
            changed = sorted({job.id for job in asked}.intersection(gone))
            effects.events.append(JobsDeleted(len(gone)))
    if noted := gone or changed:
        states = [last[id].state if id in last else JobState.COMPLETED for id in noted]
        yield from store.note(
            msgspec.structs.replace(
                note,
                target=note.target or _target(noted),
                count=len(noted),
                before=_summary(states),
                after=_AFTER[action],
            ),
            now=now,
        )
    return len(changed), effects


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
    yield from store.note(
        msgspec.structs.replace(note, count=1, before=before, after=after), now=now
    )
    return effects


def _start(
    store: Operations, jobs: Sequence[NewJob], note: AuditRecord, now: datetime | None
) -> Operation[list[Inserted]]:
    stored = yield from store.insert(jobs, now=now)
    head = stored[-1]
    yield from store.note(
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


def _applied(jobs: Sequence[JobRecord], verdicts: Sequence[Verdict]) -> list[str]:
    return [
        job.id for job, verdict in zip(jobs, verdicts, strict=True) if verdict is Verdict.APPLIED
    ]


def _target(ids: Sequence[str]) -> str:
    """As many of them as an audit row keeps."""
    named = ", ".join(ids)
    return f"{named[:MAX_TARGET]}…" if len(named) > MAX_TARGET else named


def _summary(states: Iterable[JobState]) -> str:
    """`failed`, or `3 failed, 1 cancelled`."""
    counts = Counter(map(str, states))
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


def _narrowed(which: JobFilter, states: tuple[JobState, ...]) -> JobFilter | None:
    """The filter without jobs that an action passes over anyway; None if that leaves none."""
    wanted = tuple(state for state in which.states or states if state in states)
    return msgspec.structs.replace(which, states=wanted) if wanted else None


def _refuse_unknown(name: str, known: tuple[str, ...] | None, input: str) -> None:
    """A misspelt argument would be ignored, as those of newer producers are; people mean it."""
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


def _check_actor(actor: str) -> str:
    if not actor or len(actor) > MAX_ACTOR:
        raise InvalidName(f"an actor's name has 1 to {MAX_ACTOR} characters")
    if "\0" in actor or any("\ud800" <= char <= "\udfff" for char in actor):
        raise InvalidName("an actor's name must not hold NUL or unpaired surrogate characters")
    return actor
