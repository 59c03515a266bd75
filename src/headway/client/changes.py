"""Changes from outside a worker, as operations that any runner can drive; client and operators
share them.

The client's verbs lock the rows first and change all jobs or none: a refusal inside the caller's
transaction leaves nothing half done. Operators' actions pass over jobs in the wrong state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Literal

from headway.after_commit.effects import Effects
from headway.domain.events import JobsDeleted
from headway.domain.job import JobRecord, JobState, NewJob
from headway.domain.lifecycle import ALLOWED
from headway.domain.queries import MAX_PAGE, JobFilter
from headway.domain.views import JobAction
from headway.errors import InvalidRequest, JobNotFound, SequencesNeeded, WrongState
from headway.jobs.plan import Succession, store_blockers
from headway.ports.statement import Operation, reading
from headway.ports.store import Inserted, Operations


@reading
def read_job(store: Operations, id: str) -> Operation[JobRecord]:
    (job,) = yield from store.get([id])
    if job is None:
        raise JobNotFound(id)
    return job


@reading
def current_jobs(
    store: Operations, ids: Sequence[str], *, lock: bool = False
) -> Operation[list[JobRecord]]:
    """The last jobs of the sequences that these jobs belong to, each once."""
    jobs = yield from store.get(ids)
    sequences: dict[str, None] = {}
    for id, job in zip(ids, jobs, strict=True):
        if job is None:
            raise JobNotFound(id)
        sequences[job.sequence_id] = None
    current = yield from store.current(list(sequences), lock=lock)
    found: list[JobRecord] = []
    for id, job in zip(sequences, current, strict=True):
        if job is None:
            raise JobNotFound(id)
        found.append(job)
    return found


@reading
def blockers_of(store: Operations, id: str) -> Operation[list[JobRecord]]:
    """The last jobs of the sequences that the sequence's current job was given as blockers."""
    (job,) = yield from current_jobs(store, [id])
    found = yield from store.current(job.blockers)
    return [blocker for blocker in found if blocker is not None]


def retry(
    store: Operations,
    ids: Sequence[str],
    input_for: Callable[[JobRecord], str] | None,
    now: datetime | None,
) -> Operation[Effects]:
    """Make failed and cancelled jobs pending again."""
    jobs = yield from current_jobs(store, ids, lock=True)
    _check_states(
        jobs,
        ALLOWED[JobAction.RETRY],
        "only failed and cancelled jobs can be retried",
    )
    return (yield from change(store, JobAction.RETRY, jobs, now, input_for))


def cancel(store: Operations, ids: Sequence[str], now: datetime | None) -> Operation[Effects]:
    jobs = yield from current_jobs(store, ids, lock=True)
    _check_states(
        jobs,
        (*ALLOWED[JobAction.CANCEL], JobState.CANCELLED),
        "a job that has ended cannot be cancelled",
    )
    open_jobs = [job for job in jobs if job.state is not JobState.CANCELLED]
    return (yield from change(store, JobAction.CANCEL, open_jobs, now))


def trigger(store: Operations, ids: Sequence[str], now: datetime | None) -> Operation[Effects]:
    jobs = yield from current_jobs(store, ids, lock=True)
    _check_states(jobs, ALLOWED[JobAction.TRIGGER], "only pending jobs can be triggered")
    return (yield from change(store, JobAction.TRIGGER, jobs, now))


def change(
    store: Operations,
    action: Literal[JobAction.RETRY, JobAction.CANCEL, JobAction.TRIGGER],
    jobs: Sequence[JobRecord],
    now: datetime | None,
    input_for: Callable[[JobRecord], str] | None = None,
) -> Operation[Effects]:
    """Retry, cancel or trigger jobs that are locked and in a state that allows it."""
    effects = Effects()
    ids = [job.id for job in jobs]
    match action:
        case JobAction.RETRY:
            if input_for is None:
                yield from store.retry(ids, now=now)
            else:
                for job in jobs:
                    yield from store.retry([job.id], input=input_for(job), now=now)
            follow = effects.retry
        case JobAction.CANCEL:
            yield from store.cancel(ids, now=now)
            follow = effects.cancel
        case JobAction.TRIGGER:
            yield from store.trigger(ids, now=now)
            follow = effects.trigger
    for job in jobs:
        follow(job)
    return effects


def resume(store: Operations, queue: str, now: datetime | None) -> Operation[Effects]:
    """Let a queue's jobs be claimed again, at once: workers for the types of the newest of them
    are woken, others find theirs when they look."""
    yield from store.pause(queue, False, now=now)
    waiting = JobFilter(states=(JobState.PENDING,), queues=(queue,), due=True)
    page = yield from store.find(waiting, limit=MAX_PAGE, now=now)
    effects = Effects()
    for type in sorted({job.type for job in page.jobs}):
        effects.schedule(queue, type, None, count=0)
    return effects


def delete_sequences(
    store: Operations, ids: Sequence[str], cascade: bool
) -> Operation[tuple[list[str], Effects]]:
    """Delete whole trees by their roots; the ids of the jobs that are gone."""
    jobs = yield from store.get(ids)
    roots: dict[str, None] = {}
    for id, job in zip(ids, jobs, strict=True):
        if job is None:
            raise JobNotFound(id)
        if job.root_id != job.id:
            raise InvalidRequest(
                f"sequences are deleted by their root, and {id} is not one; "
                f"delete {job.root_id} to delete all that belongs to it"
            )
        roots[job.id] = None
    doomed: list[JobRecord] = []
    fresh = sorted(roots)
    while fresh:
        family: list[JobRecord] = []
        for root in fresh:
            family += yield from _locked_family(store, root)
        doomed += family
        sequences = list(dict.fromkeys(job.sequence_id for job in family))
        # New dependents of a sequence must lock its last job, so none can appear now.
        dependents = yield from store.dependents(sequences)
        fresh = sorted({job.root_id for job in dependents if job.root_id not in roots})
        roots |= dict.fromkeys(fresh)
        if fresh and not cascade:
            raise SequencesNeeded(fresh)
    gone = yield from store.delete_jobs([job.id for job in doomed])
    effects = Effects()
    for job in doomed:
        effects.take(job, "not_found")
        if job.id == job.sequence_id:
            effects.end(job)
    effects.events.append(JobsDeleted(len(gone)))
    return gone, effects


def complete_job(
    store: Operations, job: JobRecord, output: str | None, now: datetime | None
) -> Operation[Effects]:
    """End a sequence without a worker, with the job that `open_job` has locked."""
    freed = yield from store.complete_without_lease(job.id, output, None, now=now)
    effects = Effects()
    effects.complete(job)
    effects.complete_sequence(job)
    effects.free(freed)
    return effects


def continue_job(
    store: Operations, job: JobRecord, succession: Succession, now: datetime | None
) -> Operation[tuple[JobRecord, Effects]]:
    """Go on without a worker, and lock the job that follows."""
    effects = Effects()
    successor, stored = yield from store_blockers(store, succession, now)
    effects.create(succession.blockers, stored, watched=True)
    freed = yield from store.complete_without_lease(job.id, None, successor, now=now)
    (following,) = yield from store.current([job.sequence_id], lock=True)
    if following is None:
        raise JobNotFound(job.sequence_id)
    effects.complete(job)
    effects.free(freed)
    effects.create([successor], [_as_inserted(following, successor)], watched=True)
    return following, effects


def open_job(store: Operations, id: str, type: str | None) -> Operation[JobRecord]:
    """Lock the current job of a sequence that somebody wants to complete from outside."""
    (job,) = yield from current_jobs(store, [id], lock=True)
    if job.state.terminal:
        raise WrongState(job.id, job.state, "its sequence has ended and cannot be completed again")
    if type is not None and job.type != type:
        raise InvalidRequest(
            f"sequence {job.sequence_id} is at a job of type {job.type!r}, not {type!r}"
        )
    return job


def _locked_family(store: Operations, root: str) -> Operation[list[JobRecord]]:
    """The jobs of a tree, the last ones of its sequences locked."""
    locked: set[str] = set()
    while True:
        family = yield from _family(store, root)
        if locked.issuperset(job.id for job in family):
            return family
        yield from store.current(sorted({job.sequence_id for job in family}), lock=True)
        locked = {job.id for job in family}  # it may have grown while we waited for the locks


def _family(store: Operations, root: str) -> Operation[list[JobRecord]]:
    found: list[JobRecord] = []
    cursor: str | None = None
    while True:
        page = yield from store.find(JobFilter(root_id=root), cursor=cursor, limit=MAX_PAGE)
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


def _as_inserted(job: JobRecord, successor: NewJob) -> Inserted:
    return Inserted(successor.id, job.run_at, blocked=job.state is JobState.BLOCKED)


def _check_states(jobs: Iterable[JobRecord], allowed: tuple[JobState, ...], wanted: str) -> None:
    for job in jobs:
        if job.state not in allowed:
            raise WrongState(job.id, job.state, wanted)
