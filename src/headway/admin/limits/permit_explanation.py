"""Why a due job has no permit: the holds and the limits that keep it from being claimed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from headway.admin.limits.permit_details import holds
from headway.domain.job import JobRecord
from headway.domain.limits.permits import Limit, PermitWait
from headway.domain.limits.queue_limits import QueueState
from headway.domain.text import moment, shortened, span
from headway.domain.views import Explanation, Reason
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations

SHOWN_OF_KEY = 80
"""Characters of a key that a sentence repeats."""


@reading
def explain_permit(
    store: Operations, job: JobRecord, state: QueueState, now: datetime
) -> Operation[Explanation | None]:
    """Which limits a due job waits for; None: none of them keeps it from being claimed."""
    waits = yield from _waits(store, job, state, now)
    if not waits:
        return None
    clauses = "; ".join(_clause(job.queue, wait, now) for wait in waits)
    what = "waiting" if waits[0].limit is Limit.HELD else "waiting for a permit"
    return Explanation(
        job_id=job.id, reason=Reason.PERMIT, sentence=f"{what}: {clauses}", waits_for=waits
    )


def _waits(
    store: Operations, job: JobRecord, state: QueueState, now: datetime
) -> Operation[tuple[PermitWait, ...]]:
    limits = state.effective
    running: Mapping[str | None, int] = {}
    if limits.running is not None or limits.per_key is not None:
        running = yield from store.running_keys(job.queue)
    waits: list[PermitWait] = []
    held_until, held_keys = holds(state, now)
    if held_until is not None:
        waits.append(PermitWait(limit=Limit.HELD, again_in=_seconds(held_until, now)))
    if job.key is not None and job.key in held_keys:
        left = _seconds(held_keys[job.key], now)
        waits.append(PermitWait(limit=Limit.HELD, again_in=left, key=job.key))
    used = sum(running.values())
    if limits.running is not None and used >= limits.running:
        waits.append(PermitWait(limit=Limit.RUNNING, used=used, most=limits.running))
    used = running.get(job.key, 0)
    if job.key is not None and limits.per_key is not None and used >= limits.per_key:
        waits.append(PermitWait(limit=Limit.PER_KEY, used=used, most=limits.per_key, key=job.key))
    if limits.rate is not None:
        left = limits.rate.next_start(state.paid_until, now)
        if left > 0:
            waits.append(PermitWait(limit=Limit.RATE, again_in=left))
    return tuple(waits)


def _clause(queue: str, wait: PermitWait, now: datetime) -> str:
    left = wait.again_in or 0.0
    key = None if wait.key is None else shortened(wait.key, SHOWN_OF_KEY)
    match wait.limit:
        case Limit.HELD:
            what = f"queue {queue}" if key is None else f"key {key} of queue {queue}"
            until = moment(now + timedelta(seconds=left))
            return f"{what} is held until {until} (in {span(left)}), because a job asked for it"
        case Limit.RUNNING:
            return f"{wait.used} of {wait.most} jobs of {queue} are running"
        case Limit.PER_KEY:
            return f"key {key} has {wait.used} of {wait.most} running"
        case Limit.RATE:
            return f"the rate of {queue} allows the next start in {span(left)}"


def _seconds(until: datetime, now: datetime) -> float:
    return (until - now).total_seconds()
