"""The rules: the settlement after an attempt, and the states that allow an action. Retry, fail and
lose are decided here, and why a change is refused. Stores apply the decisions."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from headway.domain.failure import encode_failure, fingerprint
from headway.domain.job import ClaimedJob, JobRecord, JobState
from headway.domain.lease import Verdict
from headway.domain.retry import Backoff, RetryPolicy
from headway.domain.settlement import Fail, Lose, Retry, Settlement, aimed_state
from headway.domain.validation import check_seconds
from headway.domain.views import JobAction, ShownState
from headway.errors import Failure, Unrecoverable

ALLOWED: dict[JobAction, tuple[JobState, ...]] = {
    JobAction.RETRY: (JobState.FAILED, JobState.CANCELLED),
    JobAction.TRIGGER: (JobState.PENDING,),
    JobAction.CANCEL: (JobState.BLOCKED, JobState.PENDING, JobState.RUNNING),
    JobAction.DELETE: (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED),
}
"""States that allow an action. Client, operators, command, pages and API all read this table."""


def shown_state(job: JobRecord, now: datetime) -> ShownState:
    """The state that people see: a pending job that is not due yet is scheduled."""
    if job.state is JobState.PENDING and job.run_at > now:
        return ShownState.SCHEDULED
    return ShownState(job.state)


def offered_actions(shown: ShownState) -> tuple[JobAction, ...]:
    """The actions offered for a job that is shown in this state. Triggering a job that is due
    already would change nothing."""
    state = JobState.PENDING if shown is ShownState.SCHEDULED else JobState(shown.value)
    return tuple(
        action
        for action, states in ALLOWED.items()
        if state in states and (action is not JobAction.TRIGGER or shown is ShownState.SCHEDULED)
    )


def after_failure(
    job: ClaimedJob, failure: Failure, policy: RetryPolicy, *, recoverable: bool
) -> Retry | Fail:
    """The handler raised, timed out, or is missing: try again while executions are left.

    `attempts` counts recorded failures, so after this one there are `attempts + 1`.
    """
    charged = job.attempts + 1
    error = encode_failure(failure)
    exhausted = job.max_attempts is not None and charged >= job.max_attempts
    if exhausted or not recoverable:
        return Fail(job.id, job.lease.token, error, fingerprint(job.type, failure))
    try:
        delay = check_seconds("a retry delay", policy.delay(charged), zero=True)
    except Exception as wrong:  # the policy is the user's
        delay = Backoff().delay(charged)
        why = f"{type(wrong).__name__}: {wrong}"
        note = f"{type(policy).__name__} gave no retry delay, so the default was used: {why}"
        error = encode_failure(replace(failure, message=f"{failure.message} ({note})"))
    return Retry(job.id, job.lease.token, delay, error)


def is_recoverable(error: BaseException) -> bool:
    """Whether trying again may help; handlers say no by raising Unrecoverable."""
    return not isinstance(error, Unrecoverable)


def after_expiry(job: JobRecord) -> Lose:
    """The lease ran out: give the job back, unless it was lost too often."""
    if job.lease is None:
        raise ValueError(f"job {job.id} holds no lease that could expire")
    charged = job.losses + 1
    dead = charged >= job.max_losses
    worker = job.worker or "a worker"
    message = f"{worker} did not renew its lease by {job.lease.until.isoformat()}"
    if dead:
        message += f"; that was loss {charged} of {job.max_losses}, so it is not tried again"
    failure = Failure("LeaseLost", message)
    alike = fingerprint(job.type, Failure(failure.type, "")) if dead else None
    return Lose(job.id, job.lease.token, encode_failure(failure), dead, alike)


def after_absence(job: ClaimedJob, worker: str) -> Lose:
    """The lease ran out because its holder could not reach the store; the holder reports this."""
    failure = Failure(
        "LeaseLost",
        f"{worker} could not renew its lease because the store did not answer; "
        "that is not the job's fault, so no loss was charged",
    )
    return Lose(job.id, job.lease.token, encode_failure(failure), dead=False, charged=False)


def judge(
    settlement: Settlement,
    state: JobState | None,
    token: str | None,
    until: datetime | None,
    now: datetime,
) -> Verdict:
    """A store's verdict on `settlement` for a row in this state; APPLIED: change the row.

    Order of precedence: absent, ended the same way already, not running, expired, other token.
    """
    if state is None:
        return Verdict.NOT_FOUND
    if state.terminal and state is aimed_state(settlement):
        return Verdict.ALREADY
    if isinstance(settlement, Lose):
        return _judge_loss(settlement, state, token, until, now)
    return judge_lease(settlement.token, state, token, until, now)


def judge_lease(
    claimed: str, state: JobState | None, token: str | None, until: datetime | None, now: datetime
) -> Verdict:
    """Whether the holder of `claimed` still holds the job. A lease that expires now has expired."""
    if state is None:
        return Verdict.NOT_FOUND
    if state is not JobState.RUNNING or until is None:
        return Verdict.NOT_RUNNING
    if until <= now:
        return Verdict.EXPIRED
    if token != claimed:
        return Verdict.MISMATCH
    return Verdict.APPLIED


def _judge_loss(
    settlement: Lose, state: JobState, token: str | None, until: datetime | None, now: datetime
) -> Verdict:
    if state is not JobState.RUNNING or until is None:
        return Verdict.NOT_RUNNING
    if token != settlement.token:
        return Verdict.MISMATCH
    if until > now:
        return Verdict.HELD
    return Verdict.APPLIED
