"""Writes down how attempts ended: what comes in during one commit goes into the next together.

A store that is away, busy or full is tried again for as long as it takes, or until the lease has
run out, for then the job is somebody else's. An outcome that cannot be stored is set apart, so that
it harms no other. Only if the store says that the data is at fault, the job is dead-lettered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.after_commit.announcer import Announcer
from headway.after_commit.observers import Observers
from headway.domain.failure import encode_failure
from headway.domain.job import NewJob
from headway.domain.lease import Verdict
from headway.domain.settlement import (
    Complete,
    Fail,
    Lose,
    Release,
    Reschedule,
    Retry,
    Settled,
    Settlement,
)
from headway.errors import Failure
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.runtime.store_errors import is_refusal, is_transient
from headway.worker.attempt import ERROR, LEASE_EXPIRED, Attempt, reason_for
from headway.worker.backoff import FailureStreak
from headway.worker.leases.outage import Outage
from headway.worker.report import Known, Reporter
from headway.worker.tracebacks import describe
from headway.worker.transactions import CompletedTransaction

MOST_AT_ONCE = 500
MOST_BEHIND = 2_000
"""Outcomes that may wait to be committed before no more jobs are claimed."""


class Committer:
    """One commit is under way at a time. Lives on one loop."""

    def __init__(
        self,
        worker: str,
        store: Store,
        clock: Clock,
        observers: Observers,
        reporter: Reporter,
        announcer: Announcer,
        held: set[Attempt],
        outage: Outage,
        committed: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._observers = observers
        self._reporter = reporter
        self._announcer = announcer
        self._held = held
        self._outage = outage
        self._committed = committed
        self.failures = FailureStreak(worker, "committer", observers)
        self._outcomes: list[Attempt] = []
        self._waiter: asyncio.Future[None] | None = None
        self._closing = False

    def put(self, attempt: Attempt) -> None:
        """Take over an attempt that has its settlement."""
        self._outcomes.append(attempt)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    @property
    def behind(self) -> bool:
        """Whether jobs end faster than they can be committed."""
        return len(self._outcomes) >= MOST_BEHIND

    def close(self) -> None:
        """Let `run` return as soon as nothing is left to commit."""
        self._closing = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def run(self) -> None:
        while True:
            if not self._outcomes:
                if self._closing:
                    return
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
                self._waiter = None
            batch = self._outcomes[:MOST_AT_ONCE]
            del self._outcomes[:MOST_AT_ONCE]
            if batch:
                await self._commit(batch)
                self._committed()
                await asyncio.sleep(0)  # a store that never waits must not keep the loop

    def committed_elsewhere(self, attempt: Attempt, committed: CompletedTransaction) -> None:
        """An attempt settled itself, in its own transaction, which has been committed."""
        self._announcer.stored(committed.inserts, attempt.claimed.run_at)
        self._reporter.created(committed.inserts, committed.stored)
        self._after([attempt], committed.settled, committed.known)
        self._committed()

    def lost(self, attempt: Attempt, reason: str) -> None:
        """The job is not ours any more; nothing of what was done is recorded."""
        self._held.discard(attempt)
        if reason == LEASE_EXPIRED:
            self._outage.excuse(attempt)
        self._reporter.lost(attempt, reason)

    async def _commit(self, batch: list[Attempt]) -> None:
        """Store what can be stored now; the rest comes with the next batch, after a pause."""
        try:
            await self._write(batch)
        except Exception as error:
            pause = self.failures.failed(error)
            left = batch if is_transient(error) else await self._commit_each(batch, error)
            if left:
                await asyncio.sleep(pause)
                self._outcomes[:0] = self._still_ours(left)
                return
        self.failures.ended()

    async def _commit_each(self, batch: list[Attempt], error: Exception) -> list[Attempt]:
        """One by one, up to the first that cannot be stored now; what is left, that one last."""
        for number, attempt in enumerate(batch):
            if len(batch) > 1:
                try:
                    await self._write([attempt])
                    continue
                except Exception as own:
                    error = own
            if is_refusal(error) and await self._dead_letter(attempt, error):
                continue
            return [*batch[number + 1 :], attempt]
        return []

    async def _write(self, batch: list[Attempt]) -> None:
        settled = await self._settle(batch)
        await self._find_reasons(batch, settled)
        self._after(batch, settled, await self._ask_around(batch))

    async def _settle(self, batch: list[Attempt]) -> Settled:
        return await self._store.run(
            self._store.settle,
            [attempt.settlement for attempt in batch if attempt.settlement is not None],
            now=self._clock.now(),
        )

    async def _dead_letter(self, attempt: Attempt, error: Exception) -> bool:
        """The store does not take this outcome: say so in the job. False if not even that can be
        stored now."""
        claimed = attempt.claimed
        said = describe(error)
        reason = said.message.partition("\n")[0]  # databases quote rows in the other lines
        failure = Failure(said.type, f"the outcome could not be stored: {reason}")
        given_up = Fail(claimed.id, claimed.lease.token, encode_failure(failure))
        try:
            settled = await self._store.run(self._store.settle, [given_up], now=self._clock.now())
        except Exception:
            return False
        attempt.settlement = given_up
        attempt.failure = failure
        self._after([attempt], settled, await self._ask_around([attempt]))
        return True

    async def _find_reasons(self, batch: list[Attempt], settled: Settled) -> None:
        """Why outcomes were refused: the verdicts alone do not say."""
        refused = [
            (attempt, verdict)
            for attempt, verdict in zip(batch, settled.verdicts, strict=True)
            if not verdict.ok and not attempt.lost
        ]
        if not refused:
            return
        try:
            records = await self._store.run(
                self._store.get, [attempt.claimed.id for attempt, _ in refused]
            )
        except Exception:  # it is only asked for the sake of observers
            return
        for (attempt, verdict), record in zip(refused, records, strict=True):
            attempt.interruption = reason_for(verdict, record)

    def _still_ours(self, batch: list[Attempt]) -> list[Attempt]:
        now = self._clock.monotonic()
        for attempt in [each for each in batch if each.deadline <= now]:
            self.lost(attempt, LEASE_EXPIRED)
        return [each for each in batch if each.deadline > now]

    async def _ask_around(self, batch: list[Attempt]) -> Known:
        """What observers must know besides the outcomes: for nearly all jobs, nothing."""
        if not self._observers.active:
            return {}
        asks_for = self._reporter.asks_for
        ids = [id for each in batch for id in asks_for(each.claimed, each.settlement)]
        if not ids:
            return {}
        try:
            found = await self._store.run(self._store.get, ids)
        except Exception:
            return {}
        return {job.id: job for job in found if job is not None}

    def _after(self, batch: list[Attempt], settled: Settled, known: Known) -> None:
        """What was decided is stored: let go of the jobs and tell who wants to know."""
        applied = batch
        if settled.verdicts.count(Verdict.APPLIED) != len(batch):
            answers = list(zip(batch, settled.verdicts, strict=True))
            applied = [attempt for attempt, verdict in answers if verdict.ok]
            for attempt, verdict in answers:
                if not verdict.ok:
                    self.lost(attempt, attempt.interruption or ERROR)
        self._held.difference_update(applied)
        announcer = self._announcer
        for attempt in applied:
            match attempt.settlement:
                case Complete(successor=None):
                    announcer.ended(attempt.claimed.sequence_id)
                case None:
                    pass
                case settlement:
                    self._announce(attempt, settlement)
        if settled.freed:
            announcer.freed(settled.freed)
        announcer.send()
        self._reporter.settled(applied, known)
        if settled.freed:
            self._reporter.freed(settled.freed)

    def _announce(self, attempt: Attempt, settlement: Settlement) -> None:
        claimed = attempt.claimed
        announcer = self._announcer
        match settlement:
            case Complete(successor=None) | Fail():
                announcer.ended(claimed.sequence_id)
            case Complete(successor=NewJob() as successor):
                announcer.stored((successor,), claimed.run_at)
            case Retry():
                announcer.due_in(claimed.queue, claimed.type, settlement.delay, claimed.run_at)
            case Reschedule():
                announcer.due_by(claimed.queue, claimed.type, settlement.schedule, claimed.run_at)
            case Release():
                announcer.scheduled(claimed.queue, claimed.type, claimed.run_at)
            case Complete() | Lose():
                pass
