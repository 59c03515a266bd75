"""Transactions for handlers: a short one to prepare, and the one that commits the user's writes
together with the job's completion."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from headway.domain.job import NewJob
from headway.domain.lease import Verdict
from headway.domain.settlement import Complete, Settled
from headway.errors import HeadwayError, InvalidRequest, JobInterrupted, StoreError
from headway.jobs.plan import Succession, store_blockers
from headway.ports.clock import Clock
from headway.ports.store import Inserted, Store
from headway.runtime.store_errors import is_refusal, is_transient
from headway.worker.attempt import Attempt, reason_for
from headway.worker.attempt_events import Known, Reporter
from headway.worker.failure_streak import FailureStreak
from headway.worker.leases.heartbeat import Heartbeat

Manager = AbstractAsyncContextManager[Any]
BeginTransaction = Callable[[], Manager]
"""Opens a transaction: it commits when left, and rolls back when left by an exception. The store's
`run_in` accepts the object that it yields."""

LOCKED_LEASE = 3600.0
"""Seconds by which a lease is extended inside the completing transaction. Others see it only after
the commit, which ends the lease, and a rollback takes it back. Without it a slow transaction, whose
row lock keeps other workers away, would be refused because its lease has expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTransactions:
    """The transactions that a worker gives to its handlers."""

    store: Store
    clock: Clock
    heartbeat: Heartbeat
    lease_for: float
    begin: BeginTransaction
    reporter: Reporter
    permits: Permits
    failures: FailureStreak
    """Of the store, when it does not give or does not commit a transaction."""

    def of(self, attempt: Attempt) -> AttemptTransactions:
        if attempt.transactions is None:
            attempt.transactions = AttemptTransactions(attempt, self)
        return attempt.transactions


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A handler's own transaction, which has settled its job."""

    settled: Settled
    blockers: Sequence[NewJob]
    stored: Sequence[Inserted]
    known: Known


class AttemptTransactions:
    """The transactions of one attempt, one at a time: it never holds more than one permit. All
    of it runs in the handler's own task."""

    __slots__ = (
        "_attempt",
        "_completing",
        "_manager",
        "_permitted",
        "_prepared",
        "_preparing",
        "_store_error",
        "_worker",
        "atomic",
        "tx",
    )

    def __init__(self, attempt: Attempt, worker: WorkerTransactions) -> None:
        self._attempt = attempt
        self._worker = worker
        self._manager: Manager | None = None
        self._preparing = False
        self._prepared = False
        self._completing = False
        self._permitted = False
        self._store_error: Exception | None = None
        self.atomic = False
        """The whole handler runs in the completing transaction."""
        self.tx: Any = None
        """The driver's own object, while the completing transaction is open."""

    @property
    def open(self) -> bool:
        return self._manager is not None

    def prepare(self) -> AbstractAsyncContextManager[Any]:
        if self.atomic:
            raise InvalidRequest(
                "an atomic handler runs in one transaction: use job.tx instead of job.prepare()"
            )
        if self._completing:
            raise InvalidRequest("job.prepare() comes before job.complete(), not after it")
        if self._prepared:
            raise InvalidRequest("job.prepare() may be called once per execution")
        self._prepared = True
        return _Preparation(self)

    def complete(self) -> Awaitable[Any]:
        if self.atomic:
            raise InvalidRequest(
                "an atomic handler runs in one transaction: use job.tx instead of job.complete()"
            )
        if self._completing:
            raise InvalidRequest("job.complete() may be called once per execution")
        self._completing = True
        return self.begin()

    async def enter(self, *, preparing: bool = False) -> tuple[Manager, Any]:
        """Open a transaction, once there is a permit for it."""
        if not self._permitted:
            await self._worker.permits.take()
            self._permitted = True
        try:
            manager = self._worker.begin()
            tx = await manager.__aenter__()
        except BaseException as error:
            self._note(error, _is_the_stores)
            self.leave()
            raise
        self._preparing = preparing
        self._worker.failures.ended()
        return manager, tx

    def leave(self) -> None:
        """The transaction has ended. Leaving twice is fine."""
        self._preparing = False
        if self._permitted:
            self._permitted = False
            self._worker.permits.give_back()

    async def begin(self) -> Any:
        """Open the completing transaction: lock the job and check that this worker holds it."""
        if self._preparing:
            raise InvalidRequest(
                "leave `async with job.prepare()` before the job is completed: "
                "they are two transactions"
            )
        attempt, store = self._attempt, self._worker.store
        manager, tx = await self.enter()
        # A renewal that meets our lock would wait for it, and with it those of all other jobs.
        attempt.in_transaction = True
        try:
            if not store.capabilities.one_writer:  # there the renewal waits for us, not for a row
                await self._worker.heartbeat.pass_by()
            (verdict,) = await store.run_in(
                tx, store.extend, [attempt.held], LOCKED_LEASE, now=self._worker.clock.now()
            )
            if verdict is not Verdict.APPLIED:
                raise await self._refused(verdict, tx)
        except BaseException as error:
            attempt.in_transaction = False
            self._note(error, _is_the_stores)
            try:
                await manager.__aexit__(type(error), error, error.__traceback__)
            finally:
                self.leave()
            raise
        self._manager = manager
        self.tx = tx
        return tx

    async def commit(
        self, complete: Complete, succession: Succession | None
    ) -> CompletedTransaction:
        """Settle and commit. Raises, after a rollback, if this worker does not hold the job."""
        store, manager = self._worker.store, self._manager
        if manager is None:
            raise RuntimeError("there is no transaction to commit")
        now = self._worker.clock.now()
        blockers: Sequence[NewJob] = ()
        stored: Sequence[Inserted] = ()
        try:
            if succession is not None:
                blockers = succession.blockers
                if blockers:
                    successor, stored = await store.run_in(
                        self.tx, store_blockers, store, succession, now
                    )
                    complete = structs.replace(complete, successor=successor)
            settled = await store.run_in(self.tx, store.settle, [complete], now=now)
            if settled.verdicts[0] is not Verdict.APPLIED:
                raise await self._refused(settled.verdicts[0], self.tx)
            known: Known = {}
            if ids := self._worker.reporter.asks_for(self._attempt.claimed, complete):
                found = await store.run_in(self.tx, store.get, ids)
                known = {job.id: job for job in found if job is not None}
        except BaseException as error:
            self._note(error, _is_no_refusal)
            with contextlib.suppress(Exception):  # which would hide why
                await self.roll_back(error)
            raise
        self._manager = None
        try:
            await manager.__aexit__(None, None, None)
        except Exception as error:
            self._note(error, _is_no_refusal)
            await self._let_go()
            raise
        finally:
            self._attempt.in_transaction = False
            self.leave()
        return CompletedTransaction(settled, blockers, stored, known)

    async def roll_back(self, error: BaseException) -> None:
        """End the transaction, if one is open, as if it had never begun."""
        manager = self._manager
        if manager is None:
            return
        self._manager = None
        try:
            await manager.__aexit__(type(error), error, error.__traceback__)
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        """After a rollback, which took the longer lease back. No worker can have taken the job
        meanwhile; its lease may have expired, and is renewed, so that the outcome of the attempt
        can be recorded."""
        self.leave()
        worker, attempt = self._worker, self._attempt
        sent = worker.clock.monotonic()
        try:
            if attempt.deadline <= sent + worker.heartbeat.doubt:
                (verdict,) = await worker.store.run(
                    worker.store.extend,
                    [attempt.held],
                    worker.lease_for,
                    late=True,
                    now=worker.clock.now(),
                )
                if verdict is Verdict.APPLIED:
                    attempt.deadline = max(attempt.deadline, sent + worker.lease_for)
        except Exception:  # the settlement will fail for the same reason
            return
        finally:
            attempt.in_transaction = False

    def is_stores_error(self, error: BaseException) -> bool:
        """Whether a handler was left because the store did not give a transaction, or did not
        commit it: its job is not to blame, though the error may have passed through its code."""
        cause: BaseException | None = error
        while cause is not None and cause is not self._store_error:
            cause = cause.__cause__
        return cause is not None

    def _note(self, error: BaseException, is_the_stores: Callable[[Exception], bool]) -> None:
        if isinstance(error, Exception) and is_the_stores(error):
            self._store_error = error

    async def renew(self) -> None:
        """Extend the lease now. Raises JobInterrupted if it is lost."""
        if self.open:
            return  # the row is locked: the lease cannot be lost
        attempt, worker = self._attempt, self._worker
        sent = worker.clock.monotonic()
        try:
            (verdict,) = await worker.store.run(
                worker.store.extend, [attempt.held], worker.lease_for, now=worker.clock.now()
            )
        except Exception as error:
            self._note(error, _is_the_stores)
            raise
        if verdict is not Verdict.APPLIED:
            raise await self._refused(verdict, None)
        attempt.deadline = max(attempt.deadline, sent + worker.lease_for)
        worker.reporter.renewed(attempt)

    async def _refused(self, verdict: Verdict, tx: Any) -> JobInterrupted:
        """Note why this worker does not hold the job any more; the error to raise."""
        attempt, store = self._attempt, self._worker.store
        ids = [attempt.claimed.id]
        if tx is None:
            (record,) = await store.run(store.get, ids)
        else:
            (record,) = await store.run_in(tx, store.get, ids)
        if attempt.interruption is None:
            attempt.interruption = reason_for(verdict, record)
        return JobInterrupted(attempt.claimed.id, attempt.interruption)


class Permits:
    """One for each transaction that the store can give at once. A handler that needs a further one
    waits here, with its lease renewed, and not at the store, where waiting ends in an error. The
    handler that asks first gets a permit first. Lives on one loop."""

    def __init__(self, count: int | None) -> None:
        """None: the store gives as many transactions as are asked for."""
        self._free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Wait for a permit; it must be given back."""
        if self._free is None:
            return
        if self._free:
            self._free -= 1
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting.append(given)
        try:
            await given
        except asyncio.CancelledError:
            if not given.cancelled():  # it was given at the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        if self._free is None:
            return
        while self._waiting:
            given = self._waiting.popleft()
            if not given.done():
                given.set_result(None)
                return
        self._free += 1


class _Preparation(AbstractAsyncContextManager[Any]):
    def __init__(self, transactions: AttemptTransactions) -> None:
        self._transactions = transactions
        self._manager: Manager | None = None

    async def __aenter__(self) -> Any:
        self._manager, tx = await self._transactions.enter(preparing=True)
        return tx

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool | None:
        manager, self._manager = self._manager, None
        if manager is None:
            return None
        try:
            return await manager.__aexit__(kind, error, trace)
        finally:
            self._transactions.leave()


def _is_no_refusal(error: Exception) -> bool:
    """Of the errors that committing raises, those of a store that is away, busy, or in which
    another transaction was in the way."""
    return is_transient(error) or (isinstance(error, StoreError) and not is_refusal(error))


def _is_the_stores(error: Exception) -> bool:
    """Of the errors that opening a transaction raises, all but those that say what the app or the
    job has done wrong."""
    return isinstance(error, StoreError) or not isinstance(error, HeadwayError)
