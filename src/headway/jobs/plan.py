"""From requests to rows: which jobs a start or a continuation stores, in which order, and how they
belong together. Nothing here is stored yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import structs

from headway.domain.job import ClaimedJob, JobRecord, NewJob
from headway.domain.names import check_id
from headway.domain.request import Request, SequenceReference, Step
from headway.errors import InvalidOption, InvalidRequest
from headway.jobs.ids import new_id
from headway.ports.attempt import current_attempt
from headway.ports.statement import Operation
from headway.ports.store import Inserted, Operations

AnyStep = Step[Any, *tuple[Any, ...]]


@dataclass(slots=True)
class Plan:
    """Jobs in the order in which they must be stored, blockers before those that wait for them."""

    jobs: list[NewJob] = field(default_factory=list[NewJob])
    heads: list[int] = field(default_factory=list[int])
    """Where the jobs are that were asked for themselves."""

    def carry(self, trace: str | None) -> None:
        """Have all jobs carry this."""
        if trace is not None:
            self.jobs = [structs.replace(job, trace=trace) for job in self.jobs]


@dataclass(slots=True)
class Succession:
    """What follows a job: the one that continues its sequence, and blockers to store before it."""

    successor: NewJob
    blockers: list[NewJob]


def plan_start(requests: Iterable[AnyStep]) -> Plan:
    """Jobs that begin sequences. Inside a handler they inherit its job's root, and name it as
    their origin."""
    attempt = current_attempt.get()
    origin_id = root_id = None
    if attempt is not None:
        origin_id, root_id = attempt.claimed.id, attempt.claimed.root_id
    plan = Plan()
    for request in requests:
        check_startable(request)
        _place(request, plan.jobs, origin_id, root_id, only_for=None, trace=None)
        plan.heads.append(len(plan.jobs) - 1)
    return plan


def plan_successor(
    step: AnyStep, parent: ClaimedJob | JobRecord, trace: str | None = None
) -> Succession:
    """The job that continues the sequence of `parent`. It carries `trace`, or what that did."""
    _check_step(step)
    if step.options.dedup is not None:
        raise InvalidOption(
            f"a continuation cannot be deduplicated ({step.type!r}): its sequence exists already; "
            "give the key to the request that starts the sequence"
        )
    blockers: list[NewJob] = []
    trace = trace or parent.trace
    successor = _new_job(
        step,
        step.id or new_id(),
        blockers=_blockers(step, blockers, parent.id, parent.root_id, None, trace),
        origin_id=parent.id,
        root_id=parent.root_id,
        sequence_id=parent.sequence_id,
        sequence_type=parent.sequence_type,
        place=parent.position + 1,
        trace=trace,
    )
    if parent.sequence_id in successor.blockers:
        raise InvalidRequest(
            f"job type {step.type!r} cannot be blocked by the sequence that it continues: "
            "it would wait for itself"
        )
    return Succession(successor, blockers)


def store_blockers(
    store: Operations, succession: Succession, now: datetime | None
) -> Operation[tuple[NewJob, Sequence[Inserted]]]:
    """Store the blockers of a successor; the successor, which waits for what was stored: a blocker
    may have been deduplicated."""
    successor = succession.successor
    if not succession.blockers:
        return successor, ()
    stored = yield from store.insert(succession.blockers, now=now)
    twins = {
        job.id: answer.id
        for job, answer in zip(succession.blockers, stored, strict=True)
        if answer.id != job.id
    }
    if twins:
        blockers = tuple(twins.get(blocker, blocker) for blocker in successor.blockers)
        successor = structs.replace(successor, blockers=blockers)
    return successor, stored


def _place(
    request: AnyStep,
    jobs: list[NewJob],
    origin_id: str | None,
    root_id: str | None,
    only_for: str | None,
    trace: str | None,
) -> str:
    """Append a request's jobs, and return the id of its own."""
    _check_step(request)
    job_id = request.id or new_id()
    blockers: tuple[str, ...] = ()
    if request.blockers:
        blockers = _blockers(request, jobs, origin_id, root_id or job_id, job_id, trace)
    jobs.append(
        _new_job(
            request,
            job_id,
            blockers=blockers,
            origin_id=origin_id,
            root_id=root_id,
            only_for=only_for,
            trace=trace,
        )
    )
    return job_id


def _new_job(
    step: AnyStep,
    id: str,
    *,
    blockers: tuple[str, ...],
    origin_id: str | None,
    root_id: str | None,
    sequence_id: str | None = None,
    sequence_type: str | None = None,
    place: int = 0,
    only_for: str | None = None,
    trace: str | None = None,
) -> NewJob:
    options = step.options
    dedup = options.dedup
    window = None if dedup is None else dedup.window
    return NewJob(
        id=id,
        id_given=step.id is not None,
        type=step.type,
        input=step.input,
        queue=options.queue,
        priority=options.priority,
        schedule=options.schedule,
        max_attempts=options.max_attempts,
        max_losses=options.max_losses,
        timeout=options.timeout,
        sequence_id=sequence_id,
        sequence_type=sequence_type,
        root_id=root_id,
        origin_id=origin_id,
        position=place,
        blockers=blockers,
        dedup_key=None if dedup is None else dedup.key,
        dedup_any=dedup is not None and dedup.scope == "any",
        dedup_window=None if window is None else window.total_seconds(),
        dedup_except=None if dedup is None or dedup.but_not is None else check_id(dedup.but_not),
        only_for=only_for,
        trace=trace,
    )


def _blockers(
    step: AnyStep,
    jobs: list[NewJob],
    origin_id: str | None,
    root_id: str,
    only_for: str | None,
    trace: str | None,
) -> tuple[str, ...]:
    """The ids of a step's blockers; those given as requests are appended to `jobs`."""
    ids: list[str] = []
    for blocker in step.blockers:
        if isinstance(blocker, SequenceReference):
            ids.append(blocker.id)
        elif isinstance(blocker, UUID | str):
            ids.append(check_id(blocker))
        else:
            _check_blocker(step, blocker)
            check_startable(blocker)
            ids.append(_place(blocker, jobs, origin_id, root_id, only_for, trace))
    return tuple(ids)


def _check_blocker(step: AnyStep, blocker: object) -> None:
    if not isinstance(blocker, Step):
        raise InvalidRequest(
            f"a blocker of {step.type!r} must be a request, a sequence or a sequence's id, "
            f"not {type(blocker).__name__}"
        )


def check_startable(request: object) -> None:
    if isinstance(request, Request):
        return
    if isinstance(request, Step):
        raise InvalidRequest(
            f"job type {request.type!r} can only continue a sequence; declare it with @app.job "
            "instead of @app.step to start it"
        )
    raise InvalidRequest(
        "start takes a request: write `app.start(charge.request(...))`, "
        f"not `app.start({getattr(request, 'name', 'something else')})`"
    )


def _check_step(step: AnyStep) -> None:
    given = len(step.blockers)
    if step.needs is None or step.needs == given:
        return
    if step.needs == 0:
        raise InvalidRequest(
            f"job type {step.type!r} declares no blockers and was given {given}; "
            "declare them in its handler's first parameter, as in `job: Job[str]`"
        )
    raise InvalidRequest(
        f"job type {step.type!r} declares {step.needs} blockers and was given {given}; "
        "pass them as blockers=(...)"
    )
