"""The lease of a running job, and a store's verdict on a change by the lease's holder."""

from __future__ import annotations

import enum
from datetime import datetime

import msgspec

from headway.domain.validation import check_seconds


class Lease(msgspec.Struct, frozen=True, gc=False):
    """Ownership of one running job. `version` rises by one with every claim of the job.

    Handlers may use `version` as a fencing token for writes of their own: a write that carries a
    lower version than one already seen comes from a worker that has lost the job.
    """

    token: str
    version: int
    until: datetime


class Held(msgspec.Struct, frozen=True, gc=False):
    """A job and the token by which its holder proves the lease."""

    job_id: str
    token: str


class Verdict(enum.Enum):
    """A store's answer for one job of a batch. Only APPLIED means that the row was changed."""

    APPLIED = "applied"
    ALREADY = "already"
    """The job had ended the same way before: success, and nothing was changed."""
    NOT_FOUND = "not_found"
    NOT_RUNNING = "not_running"
    EXPIRED = "expired"
    MISMATCH = "mismatch"
    HELD = "held"
    """A reaper was refused: the lease has not expired."""
    WRONG_STATE = "wrong_state"

    @property
    def ok(self) -> bool:
        return self is Verdict.APPLIED or self is Verdict.ALREADY


def check_lease_for(seconds: float) -> float:
    """Return `seconds` if a lease may last that long; stores call this before anything else."""
    return check_seconds("a lease", seconds)


def after_refusal(verdict: Verdict) -> Verdict:
    """The verdict for a refused change. APPLIED now means that the job has changed since the
    refusal: another worker holds it."""
    return Verdict.MISMATCH if verdict is Verdict.APPLIED else verdict
