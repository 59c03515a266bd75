"""A claimed job, from the claim until its outcome is committed."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.domain.job import ClaimedJob, JobRecord, JobState
from headway.domain.lease import Held, Verdict
from headway.domain.settlement import Settlement
from headway.errors import Failure, InvalidRequest
from headway.jobs.handler import Handler
from headway.ports.tracer import AttemptTrace
from headway.worker.claims.slots import QueueSlots

if TYPE_CHECKING:
    from headway.worker.handler_transactions import AttemptTransactions

TIMEOUT = "timeout"
SHUTDOWN = "shutdown"
LEASE_EXPIRED = "lease_expired"
TAKEN = "taken_by_another_worker"
ALREADY_COMPLETED = "already_completed"
CANCELLED = "cancelled"
NOT_FOUND = "not_found"
ERROR = "error"

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds after which a handler that dropped its cancellation is cancelled again; doubled."""


class _Message(str):
    """The message of a cancellation. Unlike a plain str it allows weak references."""


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """One run of a claimed job, shared by the parts of a worker.

    Written by the worker's loop only, except `deadline`, which the heartbeat's thread moves.
    """

    claimed: ClaimedJob
    handler: Handler | None
    queue_slots: QueueSlots
    claimed_at: float
    deadline: float
    """When the lease ends by this process's clock: never later than by the store's."""
    worker: str
    began: float | None = None
    """When the handler's task took its first step."""
    seconds: float = 0.0
    blockers: list[str | None] | None = None
    """The encoded outputs of its blockers, once they were read."""
    blocker_traces: Sequence[str] = ()
    """The traces of the last jobs of its blockers, if an observer traces."""
    interruption: str | None = None
    """Why the handler must stop. The first reason stays."""
    in_transaction: bool = False
    """The handler's transaction has locked the row: no other worker can take the job meanwhile,
    and a heartbeat would wait for that lock."""
    settlement: Settlement | None = None
    failure: Failure | None = None
    exception: BaseException | None = None
    """What the handler raised; kept only if an observer asked for exceptions."""
    transactions: AttemptTransactions | None = None
    """None until the handler asks for a transaction."""
    progress: tuple[float, str] | None = None
    spender: Callable[[str, int], None] | None = None
    """Counts what the handler spends; None: the queue has no rate."""
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    trace: AttemptTrace | None = None
    """Its span, if an observer traces, until the span has ended."""
    trace_id: str | None = None

    @property
    def held(self) -> Held:
        return Held(self.claimed.id, self.claimed.lease.token)

    @property
    def onward_trace(self) -> str | None:
        """The trace that the jobs which follow from this attempt carry."""
        trace = self.trace
        return self.claimed.trace if trace is None else trace.onward or self.claimed.trace

    @property
    def interrupted(self) -> bool:
        return self.interruption is not None

    @property
    def lost(self) -> bool:
        """Whether it was interrupted because another worker may have the job now."""
        return self.interruption is not None and self.interruption not in {TIMEOUT, SHUTDOWN}

    def spend(self, weight: int) -> None:
        """Count a weight against the rate of the queue; from any thread."""
        if self.spender is None:
            raise InvalidRequest(no_rate(self.claimed.queue))
        self.spender(self.claimed.queue, weight)

    def interrupt(self, reason: str) -> bool:
        """Ask the handler to stop; False if it was asked before. Call it on the worker's loop."""
        if self.interruption is not None:
            return False
        self.interruption = reason
        # A task that has not taken its first step would end without running a line of ours;
        # it looks at `interruption` itself when it begins.
        if self.task is not None and self.began is not None:
            self._cancel(FIRST_PAUSE)
        return True

    def leave_alone(self) -> None:
        """The handler has ended: do not cancel the worker's own steps that follow."""
        if self.interruption is not None and self.timer is not None:
            self.timer.cancel()

    def _cancel(self, pause: float) -> None:
        """Cancel the handler, and check later whether it has noticed."""
        task = self.task
        if task is None or task.done():
            return
        message = _Message(self.interruption)
        task.cancel(message)
        self._look_later(weakref.ref(message), pause)

    def _look(self, message: weakref.ref[_Message], pause: float) -> None:
        """A handler that cleans up holds the CancelledError, and with it the message, for so long:
        it has all the time it needs. Where the message is gone and the handler goes on, something
        has dropped the cancellation, such as `asyncio.wait_for` of Python 3.11."""
        with contextlib.suppress(AttributeError):  # the task may hold the message, too
            setattr(self.task, "_cancel_message", None)  # noqa: B010 - asyncio does not declare it
        pause = min(pause * 2, LONGEST_PAUSE)
        if message() is None:
            self._cancel(pause)
        else:
            self._look_later(message, pause)

    def _look_later(self, message: weakref.ref[_Message], pause: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = asyncio.get_running_loop().call_later(pause, self._look, message, pause)


def no_rate(queue: str) -> str:
    return (
        f"job.spent() is for queues with a rate, and queue {queue!r} has none: declare "
        f"`app.queue({queue!r}, rate=Rate(...))`"
    )


def reason_for(verdict: Verdict, record: JobRecord | None) -> str:
    """Why a worker whose change was refused must stop; `record` is the job as it is now."""
    if record is None:
        return NOT_FOUND
    match verdict:
        case Verdict.NOT_RUNNING | Verdict.ALREADY:
            return _reason_by_state(record.state)
        case Verdict.EXPIRED:
            return LEASE_EXPIRED
        case Verdict.MISMATCH:
            return TAKEN
        case Verdict.NOT_FOUND:
            return NOT_FOUND
        case Verdict.APPLIED | Verdict.HELD | Verdict.WRONG_STATE:
            return ERROR


def _reason_by_state(state: JobState) -> str:
    """Why a job does not run any more: the verdict alone does not say."""
    match state:
        case JobState.COMPLETED:
            return ALREADY_COMPLETED
        case JobState.CANCELLED:
            return CANCELLED
        case JobState.BLOCKED | JobState.PENDING | JobState.RUNNING | JobState.FAILED:
            return LEASE_EXPIRED
