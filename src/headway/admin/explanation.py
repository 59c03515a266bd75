"""Why a job is in its state, in one sentence; for a blocked job, also why its blockers wait.

Reads the job, its queue, the living workers, and its blockers. `headway.admin.limits` explains jobs
that wait for a permit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headway.admin.limits.permit_explanation import explain_permit
from headway.domain.job import JobRecord, JobState
from headway.domain.limits.queue_limits import QueueState
from headway.domain.queries import WorkerRecord, is_alive
from headway.domain.text import moment, plural, shortened, span
from headway.domain.views import Explanation, Reason
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations

MAX_DEPTH = 5
MAX_BREADTH = 10
"""Blockers that are explained, and how deep."""
MAX_QUOTED = 300
"""Characters of an error that a sentence repeats."""


class Surroundings(msgspec.Struct, frozen=True):
    """The workers and queues that a job depends on."""

    now: datetime
    workers: list[WorkerRecord]
    queues: dict[str, QueueState]

    @staticmethod
    def of(
        now: datetime, workers: Sequence[WorkerRecord], queues: Sequence[QueueState]
    ) -> Surroundings:
        return Surroundings(
            now,
            [worker for worker in workers if is_alive(worker, now)],
            {queue.name: queue for queue in queues},
        )

    def paused_at(self, queue: str) -> datetime | None:
        known = self.queues.get(queue)
        return None if known is None else known.paused_at


@reading
def look_around(store: Operations, now: datetime | None) -> Operation[Surroundings]:
    present = yield from store.time(now=now)
    workers = yield from store.workers()
    queues = yield from store.queue_states()
    return Surroundings.of(present, workers, queues)


@reading
def explain(
    store: Operations, job: JobRecord, around: Surroundings, depth: int = MAX_DEPTH
) -> Operation[Explanation]:
    match job.state:
        case JobState.BLOCKED:
            return (yield from _explain_blocked(store, job, around, depth))
        case JobState.PENDING:
            return (yield from _explain_pending(store, job, around))
        case JobState.RUNNING:
            return _explain_running(job, around)
        case JobState.COMPLETED:
            return (yield from _explain_completed(store, job, around, depth))
        case JobState.FAILED:
            times = "once" if job.attempts == 1 else f"{job.attempts} times"
            how = f"after it failed {times}"
            if job.losses >= job.max_losses:
                how = f"after {job.losses} lost leases in a row"
            return _because(
                job, Reason.FAILED, f"dead-lettered {how}, the last time with {_error(job)}"
            )
        case JobState.CANCELLED:
            return _because(job, Reason.CANCELLED, f"cancelled at {moment(job.finished_at)}")


def _explain_blocked(
    store: Operations, job: JobRecord, around: Surroundings, depth: int
) -> Operation[Explanation]:
    ids = list(dict.fromkeys(job.blockers))
    lasts = yield from store.current(ids)
    open_ones = [
        (id, last)
        for id, last in zip(ids, lasts, strict=True)
        if last is None or last.state is not JobState.COMPLETED
    ]
    because: list[Explanation] = []
    clauses: list[str] = []
    for id, last in open_ones[:MAX_BREADTH]:
        if last is None:
            clauses.append(f"sequence {id}, which no longer exists")
            continue
        if depth > 0:
            reason = yield from explain(store, last, around, depth - 1)
            because.append(reason)
            clauses.append(f"{last.type} {last.id}, which is {reason.sentence}")
        else:
            clauses.append(f"{last.type} {last.id}, which is {last.state}")
    more = len(open_ones) - MAX_BREADTH
    if more > 0:
        clauses.append(f"{more} more")
    what = " and by ".join(clauses) if clauses else "blockers that completed just now"
    return Explanation(
        job_id=job.id,
        reason=Reason.BLOCKED,
        sentence=f"blocked by {what}",
        because=tuple(because),
    )


def _explain_pending(
    store: Operations, job: JobRecord, around: Surroundings
) -> Operation[Explanation]:
    paused_at = around.paused_at(job.queue)
    if job.run_at > around.now:
        left = span((job.run_at - around.now).total_seconds())
        again = f", after it failed with {_error(job)}" if job.attempts else ""
        also = f"; its queue {job.queue} is paused" if paused_at is not None else ""
        return _because(job, Reason.SCHEDULED, f"scheduled, to run in {left}{again}{also}")
    if paused_at is not None:
        return _because(
            job,
            Reason.PAUSED,
            f"waiting: its queue {job.queue} is paused since {moment(paused_at)}",
        )
    able = [worker for worker in around.workers if job.type in worker.types]
    if not able:
        living = len(around.workers)
        who = (
            "there is no living worker"
            if not living
            else (
                f"none of the {living} living workers"
                if living > 1
                else "the one living worker does not"
            )
        )
        does = "" if not living else " implements" if living > 1 else " implement"
        sentence = f"waiting: {who}" if not living else f"waiting: {who}{does} job type {job.type}"
        return _because(job, Reason.NO_WORKER, sentence)
    here = [worker for worker in able if job.queue in worker.queues]
    if not here:
        return _because(
            job,
            Reason.NO_WORKER_FOR_QUEUE,
            f"waiting: no living worker that implements {job.type} works on queue {job.queue}",
        )
    state = around.queues.get(job.queue)
    if state is not None:
        without_permit = yield from explain_permit(store, job, state, around.now)
        if without_permit is not None:
            return without_permit
    slots = sum(worker.concurrency for worker in here)
    if all(worker.running >= worker.concurrency for worker in here):
        return _because(
            job,
            Reason.BUSY,
            f"waiting: all {slots} slots of the {plural(len(here), 'worker')} for it are busy",
        )
    return _because(job, Reason.DUE, "due, and about to be claimed")


def _explain_running(job: JobRecord, around: Surroundings) -> Explanation:
    if job.lease is None:
        return _because(job, Reason.RUNNING, "running")
    until = moment(job.lease.until)
    if job.lease.until <= around.now:
        reaper = "waits for the reaper" if around.workers else "waits for a worker to reap it"
        return _because(
            job,
            Reason.LEASE_EXPIRED,
            f"lost: {job.worker}'s lease ran out at {until}, and it {reaper}",
        )
    since = ""
    if job.started_at is not None:
        since = f" for {span((around.now - job.started_at).total_seconds())}"
    return _because(
        job,
        Reason.RUNNING,
        f"running{since}: {job.worker} holds its lease until {until}",
    )


def _explain_completed(
    store: Operations, job: JobRecord, around: Surroundings, depth: int
) -> Operation[Explanation]:
    sentence = f"completed at {moment(job.finished_at)}"
    (last,) = yield from store.current([job.sequence_id])
    if last is None or last.id == job.id or depth <= 0:
        return _because(job, Reason.COMPLETED, sentence)
    reason = yield from explain(store, last, around, 0)
    return Explanation(
        job_id=job.id,
        reason=Reason.COMPLETED,
        sentence=f"{sentence}; its sequence is at {last.type} {last.id}, {reason.sentence}",
        because=(reason,),
    )


def _because(job: JobRecord, reason: Reason, sentence: str) -> Explanation:
    return Explanation(job_id=job.id, reason=reason, sentence=sentence)


def _error(job: JobRecord) -> str:
    return shortened("an unknown error" if job.failure is None else str(job.failure), MAX_QUOTED)
