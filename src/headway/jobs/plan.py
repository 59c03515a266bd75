"""From requests to rows: the jobs that a start or a continuation stores, in order, with their ids,
sequences, origins and blockers; and the blockers of a continuation, stored before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from msgspec import structs

from headway.domain.job import ClaimedJob, JobRecord, NewJob
from headway.domain.request import (
    AnyRequest,
    ContinuationRequest,
    Request,
    RequestOptions,
    SequenceReference,
)
from headway.domain.validation import check_id
from headway.errors import InvalidOption, InvalidRequest
from headway.jobs.ids import new_id
from headway.ports.current_attempt import current_attempt
from headway.ports.statement import Operation
from headway.ports.store import Inserted, Operations


@dataclass(slots=True)
class Plan:
    """Jobs in the order in which they must be stored: blockers before the jobs they block."""

    jobs: list[NewJob] = field(default_factory=list[NewJob])
    heads: list[int] = field(default_factory=list[int])
    """Positions in `jobs` of the requested jobs; the others are their blockers."""

    def carry(self, trace: str | None) -> None:
        """Give all jobs this trace context."""
        if trace is not None:
            self.jobs = [structs.replace(job, trace=trace) for job in self.jobs]


@dataclass(slots=True)
class Succession:
    """The job that continues a sequence, and blockers to store before it."""

    successor: NewJob
    blockers: list[NewJob]


def plan_start(requests: Iterable[AnyRequest], options: RequestOptions | None = None) -> Plan:
    """The jobs that begin sequences, with these options. Jobs started inside a handler have its job
    as origin, and the same root."""
    attempt = current_attempt.get()
    origin_id = root_id = None
    if attempt is not None:
        origin_id, root_id = attempt.claimed.id, attempt.claimed.root_id
    plan = Plan()
    for request in requests:
        check_startable(request)
        chosen = request.with_options(options) if options else request
        _add_job(chosen, plan.jobs, origin_id, root_id, only_for=None, trace=None)
        plan.heads.append(len(plan.jobs) - 1)
    return plan


def plan_successor(
    request: AnyRequest, parent: ClaimedJob | JobRecord, trace: str | None = None
) -> Succession:
    """The job that continues the sequence of `parent`, with `trace` or the trace of `parent`, and
    with the key of `parent` unless the request has its own."""
    check_blocker_count(request)
    if request.options.dedup is not None:
        raise InvalidOption(
            f"a continuation cannot be deduplicated ({request.type!r}): its sequence exists "
            "already; give the key to the request that starts the sequence"
        )
    blockers: list[NewJob] = []
    trace = trace or parent.trace
    successor = _new_job(
        request,
        request.id or new_id(),
        blockers=_blockers(request, blockers, parent.id, parent.root_id, None, trace),
        origin_id=parent.id,
        root_id=parent.root_id,
        sequence_id=parent.sequence_id,
        sequence_type=parent.sequence_type,
        position=parent.position + 1,
        trace=trace,
        key=parent.key,
    )
    if parent.sequence_id in successor.blockers:
        raise InvalidRequest(
            f"job type {request.type!r} cannot be blocked by the sequence that it continues: "
            "it would wait for itself"
        )
    return Succession(successor, blockers)


def store_blockers(
    store: Operations, succession: Succession, now: datetime | None
) -> Operation[tuple[NewJob, Sequence[Inserted]]]:
    """Store the blockers of a successor; the successor with the ids of the stored blockers: a
    blocker may have been deduplicated."""
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


def _add_job(
    request: AnyRequest,
    jobs: list[NewJob],
    origin_id: str | None,
    root_id: str | None,
    only_for: str | None,
    trace: str | None,
) -> str:
    """Append the request's job, after its blockers; the id of the job."""
    check_blocker_count(request)
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
    request: AnyRequest,
    id: str,
    *,
    blockers: tuple[str, ...],
    origin_id: str | None,
    root_id: str | None,
    sequence_id: str | None = None,
    sequence_type: str | None = None,
    position: int = 0,
    only_for: str | None = None,
    trace: str | None = None,
    key: str | None = None,
) -> NewJob:
    options = request.options
    dedup = options.dedup
    window = None if dedup is None else dedup.window
    return NewJob(
        id=id,
        id_given=request.id is not None,
        type=request.type,
        input=request.input,
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
        position=position,
        blockers=blockers,
        dedup_key=None if dedup is None else dedup.key,
        dedup_any=dedup is not None and dedup.scope == "any",
        dedup_window=None if window is None else window.total_seconds(),
        dedup_except=None if dedup is None or dedup.but_not is None else check_id(dedup.but_not),
        only_for=only_for,
        trace=trace,
        key=options.key if options.key is not None else key,
    )


def _blockers(
    request: AnyRequest,
    jobs: list[NewJob],
    origin_id: str | None,
    root_id: str,
    only_for: str | None,
    trace: str | None,
) -> tuple[str, ...]:
    """The ids of a request's blockers. Jobs of blockers that are requests are added to `jobs`."""
    ids: list[str] = []
    for blocker in request.blockers:
        if isinstance(blocker, SequenceReference):
            ids.append(blocker.id)
        elif isinstance(blocker, UUID | str):
            ids.append(check_id(blocker))
        else:
            _check_blocker(request, blocker)
            check_startable(blocker)
            ids.append(_add_job(blocker, jobs, origin_id, root_id, only_for, trace))
    return tuple(ids)


def _check_blocker(request: AnyRequest, blocker: object) -> None:
    if not isinstance(blocker, ContinuationRequest):
        raise InvalidRequest(
            f"a blocker of {request.type!r} must be a request, a sequence or a sequence's id, "
            f"not {type(blocker).__name__}"
        )


def check_startable(request: object, call: str = "app.start(") -> None:
    """Refuse what is not a request for a job that can begin a sequence."""
    if isinstance(request, Request):
        return
    if isinstance(request, ContinuationRequest):
        raise InvalidRequest(
            f"job type {request.type!r} can only continue a sequence; "
            "declare it without entry=False to start it"
        )
    name = getattr(request, "name", None)
    verb = call.partition("(")[0].rpartition(".")[2]
    if name is None:
        raise InvalidRequest(
            f"{verb} takes a request, not {type(request).__name__}: for a job type `charge`, write "
            f"`{call}charge.request(...))`"
        )
    raise InvalidRequest(
        f"{verb} takes a request: write `{call}{name}.request(...))`, not `{call}{name})`"
    )


def check_blocker_count(request: AnyRequest) -> None:
    given = len(request.blockers)
    if request.needs is None or request.needs == given:
        return
    if request.needs == 0:
        raise InvalidRequest(
            f"job type {request.type!r} declares no blockers and was given {given}; "
            "declare them in its handler's first parameter, as in `job: Job[str]`"
        )
    raise InvalidRequest(
        f"job type {request.type!r} declares {request.needs} blockers and was given {given}; "
        "pass them with request.using(blockers=(...))"
    )
