"""Settlements: the outcomes of a running job. A worker or reaper chooses one; a store applies it if
its token still has the lease. The statement that changes the row checks the token."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headway.domain.due_time import After, At
from headway.domain.job import JobState, NewJob
from headway.domain.lease import Verdict


class Complete(msgspec.Struct, frozen=True):
    """The job is done. With a successor its sequence goes on, else the sequence is complete."""

    job_id: str
    token: str
    output: str | None = None
    successor: NewJob | None = None


class Retry(msgspec.Struct, frozen=True):
    """The job failed and is tried again after `delay` seconds: charges an attempt, and resets the
    count of losses."""

    job_id: str
    token: str
    delay: float
    error: str


class Fail(msgspec.Struct, frozen=True):
    """The job failed for good: charges an attempt, resets the losses, dead-letters the job."""

    job_id: str
    token: str
    error: str
    fingerprint: str | None = None
    """Kept with the dead letter, see `headway.domain.failure`."""


class Release(msgspec.Struct, frozen=True):
    """The job is given back unstarted or interrupted: pending again at its old place, nothing
    charged. Its losses stay counted, as the job has not shown that it can end."""

    job_id: str
    token: str


class Reschedule(msgspec.Struct, frozen=True):
    """The handler asked to run again later: nothing charged, and the losses are reset."""

    job_id: str
    token: str
    schedule: At | After


class Lose(msgspec.Struct, frozen=True):
    """Its lease ran out: charges a loss and clears its schedule (`run_at` becomes `created_at`);
    with `dead` the job is dead-lettered. Refused while the lease is still valid."""

    job_id: str
    token: str
    error: str
    dead: bool
    fingerprint: str | None = None
    """As in Fail, if it is dead."""
    charged: bool = True
    """False: the lease could not be renewed because the store was away, and no loss is counted."""


GiveBack = Retry | Fail | Release | Reschedule | Lose
"""Every settlement but a completion."""
Settlement = Complete | GiveBack


class Freed(msgspec.Struct, frozen=True):
    """A job that became pending because its last blocker completed."""

    job_id: str
    type: str
    queue: str
    run_at: datetime


class Settled(msgspec.Struct, frozen=True):
    """A store's answer to a batch: one verdict per settlement, in order, and the jobs freed."""

    verdicts: list[Verdict]
    freed: list[Freed] = []


def aimed_state(settlement: Settlement) -> JobState:
    """The state of the job after this settlement."""
    match settlement:
        case Complete():
            return JobState.COMPLETED
        case Fail():
            return JobState.FAILED
        case Lose():
            return JobState.FAILED if settlement.dead else JobState.PENDING
        case Retry() | Release() | Reschedule():
            return JobState.PENDING


def without_repeats(settlements: Sequence[Settlement]) -> list[Sequence[Settlement]]:
    """Batches in which each job appears once, in order; nearly always the batch itself."""
    if len({one.job_id for one in settlements}) == len(settlements):
        return [settlements] if settlements else []
    batches: list[list[Settlement]] = [[]]
    seen: set[str] = set()
    for one in settlements:
        if one.job_id in seen:
            batches.append([])
            seen.clear()
        batches[-1].append(one)
        seen.add(one.job_id)
    return list(batches)
