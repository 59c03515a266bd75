"""Reads jobs, sequences and failures for operators, each in one operation, and bounded."""

from __future__ import annotations

from datetime import datetime

from headway.admin.explanation import explain, look_around
from headway.admin.graph import draw
from headway.domain.job import JobRecord
from headway.domain.lifecycle import shown_state
from headway.domain.queries import MAX_PAGE, JobFilter
from headway.domain.views import (
    BlockerView,
    Count,
    Explanation,
    FailureGroup,
    JobDetail,
    SequenceGraph,
    SequencePage,
    SequenceView,
)
from headway.errors import JobNotFound
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations

MOST_DEPENDENTS = 100


@reading
def read_why(store: Operations, id: str, now: datetime | None) -> Operation[Explanation]:
    job = yield from _existing(store, id)
    around = yield from look_around(store, now)
    return (yield from explain(store, job, around))


@reading
def read_detail(store: Operations, id: str, now: datetime | None) -> Operation[JobDetail]:
    job = yield from _existing(store, id)
    around = yield from look_around(store, now)
    attempts = yield from store.attempts(id)
    lasts = yield from store.current(list(job.blockers))
    dependents = yield from store.dependents([job.sequence_id], limit=MOST_DEPENDENTS)
    (progress,) = yield from store.progress([id])
    explanation = yield from explain(store, job, around)
    if progress is not None and job.started_at is not None and progress.at < job.started_at:
        progress = None  # of an earlier attempt
    return JobDetail(
        job=job,
        shown=shown_state(job, around.now),
        attempts=attempts,
        blockers=[
            BlockerView(
                sequence_id=sequence_id,
                job_id=None if last is None else last.id,
                type=None if last is None else last.type,
                state=None if last is None else shown_state(last, around.now),
            )
            for sequence_id, last in zip(job.blockers, lasts, strict=True)
        ],
        dependents=[
            BlockerView(
                sequence_id=waiting.sequence_id,
                job_id=waiting.id,
                type=waiting.type,
                state=shown_state(waiting, around.now),
            )
            for waiting in dependents
        ],
        progress=progress,
        explanation=explanation,
    )


@reading
def read_sequences(
    store: Operations, which: JobFilter, cursor: str | None, limit: int, now: datetime | None
) -> Operation[SequencePage]:
    present = yield from store.time(now=now)
    page = yield from store.find(which, cursor=cursor, limit=limit, now=now)
    ids = list(dict.fromkeys(job.sequence_id for job in page.jobs))
    lasts = yield from store.current(ids)
    firsts = yield from store.get(ids)
    began = {first.id: first.created_at for first in firsts if first is not None}
    at = {last.id for last in lasts if last is not None}
    return SequencePage(
        [
            SequenceView(
                id=job.sequence_id,
                type=job.sequence_type,
                job_id=job.id,
                job_type=job.type,
                state=shown_state(job, present),
                length=job.position + 1,
                created_at=began.get(job.sequence_id, job.created_at),
                root_id=job.root_id,
            )
            for job in page.jobs
            if job.id in at
        ],
        page.cursor,
    )


@reading
def read_graph(
    store: Operations, id: str, at_most: int, now: datetime | None
) -> Operation[SequenceGraph]:
    job = yield from _existing(store, id)
    present = yield from store.time(now=now)
    which = JobFilter(root_id=job.root_id)
    family: list[JobRecord] = []
    cursor: str | None = None
    while len(family) <= at_most:
        limit = min(at_most + 1 - len(family), MAX_PAGE)
        page = yield from store.find(which, cursor=cursor, limit=limit, now=now)
        family += page.jobs
        cursor = page.cursor
        if cursor is None:
            break
    complete = len(family) <= at_most and cursor is None
    drawn = {each.id: each for each in family[:at_most]}
    if not complete and job.id not in drawn:  # the job that was asked about is always drawn
        drawn[job.id] = job
    sequences = {each.sequence_id for each in drawn.values()}
    foreign = dict.fromkeys(
        blocker for each in drawn.values() for blocker in each.blockers if blocker not in sequences
    )
    for blocker in (yield from store.current(list(foreign)[:MOST_DEPENDENTS])):
        if blocker is not None:
            drawn[blocker.id] = blocker
    return draw(job.root_id, drawn.values(), present, complete=complete)


@reading
def read_failures(
    store: Operations, which: JobFilter, limit: int, now: datetime | None
) -> Operation[list[FailureGroup]]:
    groups = yield from store.failures(which, limit, now=now)
    samples = yield from store.get([group.sample_id for group in groups])
    found: list[FailureGroup] = []
    for group, sample in zip(groups, samples, strict=True):
        if sample is None:  # gone meanwhile
            continue
        failure = sample.failure
        found.append(
            FailureGroup(
                fingerprint=group.fingerprint,
                type=sample.type,
                error="" if failure is None else failure.type,
                message="" if failure is None else failure.message,
                count=Count(group.count, group.exact),
                first_at=group.first_at,
                last_at=group.last_at,
                sample_id=group.sample_id,
            )
        )
    return found


def _existing(store: Operations, id: str) -> Operation[JobRecord]:
    (job,) = yield from store.get([id])
    if job is None:
        raise JobNotFound(id)
    return job
