"""The invariants, checked after every single operation by comparing rows before and after it.

Nothing here trusts what the store or the worker says of itself: the rows, the tokens that were
presented and the store's clock are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from headway.domain.failure import decode_failure
from headway.domain.job import TERMINAL, JobState
from headway.domain.lease import Verdict
from headway.domain.orders import ClaimOrder
from headway.domain.settlement import Complete, Fail, Lose, Release, Reschedule, Retry, Settlement
from headway.ports.notifications import ANY_TYPE, JobsScheduled, Notification, SequenceEnded
from headway.stores.memory.row import JobRow
from headway.stores.memory.transaction import MemoryTransaction
from proof.simulation.memory import Changed

MICROSECOND = timedelta(microseconds=1)


class Violation(AssertionError):
    """An invariant does not hold; `invariant` names it."""

    def __init__(self, invariant: str, detail: str) -> None:
        self.invariant = invariant
        super().__init__(f"{invariant}: {detail}")


class Content(msgspec.Struct, frozen=True):
    """What of a row may change only for a reason."""

    state: JobState
    token: str | None
    until: datetime | None
    version: int
    attempts: int
    losses: int
    output: str | None
    run_at: datetime


class Act:
    """What was asked of the store, in one operation or in one transaction."""

    def __init__(self, *, in_transaction: bool = False) -> None:
        self.in_transaction = in_transaction
        self.names: list[str] = []
        self.order: ClaimOrder | None = None
        self.extended: dict[str, str] = {}
        self.late = False
        """The lease may have expired, if nobody took the job: its holder's transaction is over."""
        self.settled: dict[str, Settlement] = {}
        self.answers: dict[str, Verdict] = {}
        self.taken_in: set[str] = set()
        """Jobs that the transaction has made sure of holding."""

    def note_settlements(self, settlements: list[Settlement], verdicts: list[Verdict]) -> None:
        """A worker that lost a job and got it again may settle it twice in one batch: what counts
        is the settlement that was applied."""
        for settlement, verdict in zip(settlements, verdicts, strict=True):
            if self.answers.get(settlement.job_id) is not Verdict.APPLIED:
                self.settled[settlement.job_id] = settlement
                self.answers[settlement.job_id] = verdict

    def does(self, *names: str) -> bool:
        return any(name in self.names for name in names)


class Surroundings(Protocol):
    """What the checker asks about the world around the store."""

    def store_time(self) -> datetime: ...

    def clock_has_jumped(self) -> bool: ...

    def still_runs(self, job_id: str, version: int) -> bool: ...


class Checker:
    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self.before: dict[str, Content] = {}
        self.rows: dict[str, JobRow] = {}
        self.sequences: dict[str, list[str]] = {}
        """The jobs of each sequence, in order."""
        self.waiters: dict[str, list[str]] = {}
        self.keys: dict[tuple[str, str], list[str]] = {}
        self.effects: dict[str, int] = {}
        self.ended: set[str] = set()
        self.due: dict[tuple[str, str], datetime] = {}
        """When the last job of each queue and type falls due, of all that were ever stored."""
        self._acts: dict[MemoryTransaction, Act] = {}
        self.transitions = 0

    def operated(
        self,
        operation: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        tx: MemoryTransaction | None,
        answer: Any,
        changed: Changed,
    ) -> None:
        act = Act() if tx is None else self._acts.setdefault(tx, Act(in_transaction=True))
        name = operation.__name__
        act.names.append(name)
        match name:
            case "claim":
                act.order = arguments[0]
            case "claim_limited":
                act.order = arguments[1]
            case "extend":
                act.late = options.get("late", False)
                self._extended(act, arguments[0], answer)
            case "settle":
                act.note_settlements(arguments[0], answer.verdicts)
            case _:
                pass
        self._compare(act, changed)
        if name == "settle" and tx is None:
            self._check_successors(act)

    def committed(self, tx: MemoryTransaction, changed: Changed) -> None:
        act = self._acts.pop(tx, None) or Act(in_transaction=True)
        self._compare(act, changed)
        self._check_successors(act)
        for key in tx.data:
            kind, job_id, version = key.split("/")
            if kind == "effect" and self.effects.get(job_id) != int(version):
                if job_id in self.effects:
                    raise Violation("one effect per job", f"{job_id} has a second one, {key}")
                if self.before[job_id].state is not JobState.COMPLETED:
                    raise Violation("one effect per job", f"{key} without a completion")
                self.effects[job_id] = int(version)

    def rolled_back(self, tx: MemoryTransaction, changed: Changed) -> None:
        self._acts.pop(tx, None)
        self._compare(Act(), changed)

    def published(self, notification: Notification) -> None:
        """Notifications come after the commit, never before."""
        match notification:
            case SequenceEnded(sequence_id) if sequence_id not in self.ended:
                raise Violation("told after the commit", f"{notification} has not happened")
            case JobsScheduled(queue, type_, _, datetime() as run_at) if type_ != ANY_TYPE:
                # What is told is a time before which the job is not due.
                latest = self.due.get((queue, type_))
                behind = latest is None or latest < run_at
                if behind and not self._world.clock_has_jumped():
                    raise Violation("told after the commit", f"no job is stored for {notification}")
            case _:
                pass

    def done(self, sequence_id: str) -> bool:
        jobs = self.sequences.get(sequence_id)
        return bool(jobs) and self.before[jobs[-1]].state is JobState.COMPLETED

    def _extended(self, act: Act, held: Any, verdicts: Any) -> None:
        now = self._world.store_time()
        for lease, verdict in zip(held, verdicts, strict=True):
            if verdict is not Verdict.APPLIED:
                continue
            known = self.before.get(lease.job_id)
            if known is None or known.token != lease.token:
                raise Violation("a stale token changes nothing", f"{lease} was extended")
            expired = known.until is None or known.until <= now
            if expired and lease.job_id not in act.taken_in and not act.late:
                raise Violation("a stale token changes nothing", f"{lease} had expired")
            act.extended[lease.job_id] = lease.token
            act.taken_in.add(lease.job_id)

    def _compare(self, act: Act, changed: Changed) -> None:
        steps: list[tuple[str, Content | None, Content | None]] = []
        for job_id, row in changed.items():
            new = None if row is None else _content(row)
            old = self.before.get(job_id)
            if new == old:
                continue
            steps.append((job_id, old, new))
            if new is None or row is None:
                del self.before[job_id]
                continue
            self.rows[job_id] = row
            self.before[job_id] = new
            if old is None:
                self._learn(row)
            if new.state is JobState.PENDING:
                self._fall_due(row, new.run_at)
        for job_id, old, new in steps:
            self.transitions += 1
            self._check(act, job_id, old, new)

    def _learn(self, row: JobRow) -> None:
        sequence_id = row.id if row.first is None else row.first.id
        self.sequences.setdefault(sequence_id, []).append(row.id)
        for blocker in row.blockers:
            self.waiters.setdefault(blocker, []).append(row.id)
        self._fall_due(row, row.run_at)

    def _fall_due(self, row: JobRow, run_at: datetime) -> None:
        lane = row.spec.queue, row.spec.type
        self.due[lane] = max(self.due.get(lane, run_at), run_at)

    def _check(self, act: Act, job_id: str, old: Content | None, new: Content | None) -> None:
        if old is None:
            if new is not None:
                self._check_new(job_id, new)
            return
        if new is None:
            raise Violation("nothing acknowledged is lost", f"{job_id} is gone after {act.names}")
        what = f"{job_id} went from {old} to {new} by {act.names}"
        if old.state is JobState.COMPLETED:
            raise Violation("one terminal transition", what)
        if old.state in TERMINAL:
            if not (act.does("retry") and new.state not in TERMINAL):
                raise Violation("one terminal transition", what)
            return
        if new.version != old.version and new.state is not JobState.RUNNING:
            raise Violation("versions rise by claims", what)
        if old.state is JobState.RUNNING:
            self._check_running(act, job_id, old, new, what)
        elif new.state is JobState.RUNNING:
            self._check_claim(act, old, new, what)
        elif new.state is JobState.CANCELLED:
            _expect(act.does("cancel", "fire"), "changes have a reason", what)
        elif new.state is JobState.COMPLETED:
            _expect(act.does("complete_job", "continue_job"), "changes have a reason", what)
        elif old.state is JobState.BLOCKED and new.state is JobState.PENDING:
            row = self.rows[job_id]
            open_ones = [each for each in row.blockers if not self.done(each)]
            _expect(not open_ones, "unblocked by completed blockers", f"{what}: {open_ones}")
        elif new.state is JobState.PENDING:
            _expect(act.does("trigger"), "changes have a reason", what)
        else:
            raise Violation("changes have a reason", what)
        if new.state in TERMINAL:
            self._ended(job_id, new)

    def _check_new(self, job_id: str, new: Content) -> None:
        row = self.rows[job_id]
        spec = row.spec
        sequence_id = job_id if row.first is None else row.first.id
        if new.state not in (JobState.PENDING, JobState.BLOCKED):
            raise Violation("changes have a reason", f"{job_id} was born {new.state}")
        if row.first is not None:
            jobs = self.sequences[sequence_id]
            earlier = jobs[jobs.index(job_id) - 1]
            if self.before[earlier].state is not JobState.COMPLETED:
                raise Violation("successors of completed jobs", f"{job_id} follows {earlier}")
        elif spec.dedup_key is not None and spec.dedup_window is None:
            twins = self.keys.setdefault((spec.type, spec.dedup_key), [])
            for twin in twins:
                state = self.before[self.sequences[twin][-1]].state
                if spec.dedup_any or state not in TERMINAL:
                    raise Violation("one sequence per key", f"{job_id} beside {twin} ({state})")
            twins.append(job_id)
        blocked = any(not self.done(blocker) for blocker in row.blockers)
        if blocked != (new.state is JobState.BLOCKED):
            states = {each: self.before.get(each) for each in row.blockers}
            raise Violation(
                "unblocked by completed blockers", f"{job_id} was born {new.state}: {states}"
            )

    def _check_claim(self, act: Act, old: Content, new: Content, what: str) -> None:
        order, now = act.order, self._world.store_time()
        if order is None or old.state is not JobState.PENDING:
            raise Violation("changes have a reason", what)
        _expect(new.token == order.token, "claims give their token", what)
        _expect(new.version == old.version + 1, "versions rise by claims", what)
        _expect(old.run_at <= now, "claimed when due", what)
        until = now + timedelta(seconds=order.lease_for)
        late = new.until is None or abs(new.until - until) > MICROSECOND
        _expect(not late, "leases last as long as asked", what)

    def _check_running(self, act: Act, job_id: str, old: Content, new: Content, what: str) -> None:
        now = self._world.store_time()
        valid = old.until is not None and old.until > now
        if new.state is JobState.RUNNING:
            if new.token != old.token or new.version != old.version:
                raise Violation("no two valid leases overlap", what)
            order = act.order
            repeated = order is not None and order.again and order.token == old.token
            extended = act.extended.get(job_id) == old.token or repeated
            _expect(extended and (valid or act.late), "a stale token changes nothing", what)
            return
        if new.state is JobState.CANCELLED and act.does("cancel", "fire"):
            self._ended(job_id, new)
            return
        if new.state is JobState.COMPLETED and act.does("complete_job", "continue_job"):
            self._ended(job_id, new)
            return
        settlement = act.settled.get(job_id)
        if settlement is None:
            raise Violation("changes have a reason", what)
        if settlement.token != old.token:
            raise Violation("a stale token changes nothing", f"{what}, presented {settlement}")
        if isinstance(settlement, Lose):
            _expect(not valid, "reaped when expired", what)
            _expect(new.losses == old.losses + settlement.charged, "losses are counted", what)
            _expect(new.attempts == old.attempts, "losses are no attempts", what)
            if self._world.still_runs(job_id, old.version) and not self._world.clock_has_jumped():
                raise Violation("handlers stop before their lease ends", what)
        else:
            held = valid or (act.in_transaction and job_id in act.taken_in)
            _expect(held, "a stale token changes nothing", f"{what}: expired at {now}")
            charged = isinstance(settlement, Retry | Fail)
            kept = 0 if charged or isinstance(settlement, Reschedule) else old.losses
            _expect(new.losses == kept, "only losses in a row are counted", what)
            _expect(new.attempts == old.attempts + charged, "attempts are counted", what)
            if isinstance(settlement, Retry | Fail):
                blamed = decode_failure(settlement.error).type
                by_store = blamed.endswith("StoreUnreachable")
                _expect(not by_store, "no job pays for the store", what)
        _expect(new.state is _aim(settlement), "changes have a reason", what)
        if new.state in TERMINAL:
            self._ended(job_id, new)

    def _ended(self, job_id: str, new: Content) -> None:
        row = self.rows[job_id]
        sequence_id = job_id if row.first is None else row.first.id
        # Of a job that somebody else completed, its worker says that it ended: a hint too many.
        self.ended.add(sequence_id)
        if self.sequences[sequence_id][-1] != job_id:
            return
        if new.state is not JobState.COMPLETED:
            return
        for waiter in self.waiters.get(sequence_id, ()):
            if self.before[waiter].state is JobState.BLOCKED and all(
                self.done(blocker) for blocker in self.rows[waiter].blockers
            ):
                raise Violation("unblocked with the completion", f"{waiter} is still blocked")

    def _check_successors(self, act: Act) -> None:
        for job_id, settlement in act.settled.items():
            if not isinstance(settlement, Complete) or settlement.successor is None:
                continue
            stored = settlement.successor.id in self.before
            answer = act.answers[job_id]
            # ALREADY: it was our own first try, or somebody else who completed the job.
            if (stored and not answer.ok) or (answer is Verdict.APPLIED and not stored):
                raise Violation(
                    "successors of completed jobs",
                    f"{job_id}: {answer}, successor stored: {stored}",
                )


def _content(row: JobRow) -> Content:
    return Content(
        row.state,
        row.token,
        row.until,
        row.version,
        row.attempts,
        row.losses,
        row.output,
        row.run_at,
    )


def _aim(settlement: Settlement) -> JobState:
    match settlement:
        case Complete():
            return JobState.COMPLETED
        case Fail():
            return JobState.FAILED
        case Lose(dead=True):
            return JobState.FAILED
        case Retry() | Release() | Reschedule() | Lose():
            return JobState.PENDING


def _expect(holds: bool, invariant: str, detail: str) -> None:
    if not holds:
        raise Violation(invariant, detail)
