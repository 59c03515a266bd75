"""Stores the outcomes of attempts: those that arrive during one commit go into the next together.

A store that is away, busy or full is tried again until it answers or the lease has run out: then
another worker may have the job. After an error, outcomes are stored one by one, so that one that
cannot be stored harms no other. Only if the store refuses the data, the job is dead-lettered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.after_commit.effects import Effects, creation
from headway.after_commit.publisher import Publisher
from headway.domain.failure import encode_failure
from headway.domain.job import ClaimedJob, NewJob
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
from headway.runtime.store_errors import is_refusal, is_transient
from headway.worker.attempt import ERROR, LEASE_EXPIRED, Attempt, reason_for
from headway.worker.attempt_events import Known, Reporter
from headway.worker.claims.claim_timing import ClaimTiming
from headway.worker.environment import WorkerEnvironment
from headway.worker.handler_transactions import CompletedTransaction
from headway.worker.leases.store_outage import Outage
from headway.worker.tracebacks import describe

MOST_AT_ONCE = 500
MOST_BEHIND = 2_000
"""Outcomes that wait to be committed when no more jobs are claimed."""


class Committer:
    """One commit is under way at a time. Lives on one loop."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        schedule: ClaimTiming,
        publisher: Publisher,
        reporter: Reporter,
        outage: Outage,
        scheduled_ended: Callable[[str], None],
    ) -> None:
        """`scheduled_ended` is told of sequences that a schedule started, by its name."""
        self._schedule = schedule
        self._scheduled_ended = scheduled_ended
        self._publisher = publisher
        self._reporter = reporter
        self._outage = outage
        self._held = environment.held
        self._store = environment.store
        self._clock = environment.clock
        self._observers = environment.observers
        self.failures = environment.failures("committer")
        self._outcomes: list[Attempt] = []
        self._waiter: asyncio.Future[None] | None = None
        self._closing = False

    def put(self, attempt: Attempt) -> None:
        """Take over an attempt that has its settlement."""
        self._outcomes.append(attempt)
        if len(self._outcomes) >= MOST_BEHIND:
            self._schedule.committer_behind = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

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
                self._note_backlog()
                await self._commit(batch)
                self._note_backlog()
                await asyncio.sleep(0)  # a store that never waits must not keep the loop

    def _note_backlog(self) -> None:
        self._schedule.committer_behind = len(self._outcomes) >= MOST_BEHIND
        self._schedule.look_again()

    def completed_in(self, transaction: CompletedTransaction, attempt: Attempt) -> None:
        """The handler's own transaction, which has been committed, settled the attempt."""
        effects = Effects()
        for job, answer in zip(transaction.blockers, transaction.stored, strict=True):
            if not (answer.deduplicated or answer.blocked or answer.id != job.id):
                effects.schedule_by(job.queue, job.type, job.schedule, attempt.claimed.run_at)
        if self._observers.active:
            effects.events += creation(transaction.blockers, transaction.stored)
        self._after([attempt], transaction.settled, transaction.known, effects)
        self._schedule.look_again()

    def lost(self, attempt: Attempt, reason: str) -> None:
        """This worker does not hold the job any more: nothing of the attempt is recorded."""
        self._held.discard(attempt)
        if attempt.queue_slots.permits and reason != LEASE_EXPIRED:  # else it is still running
            effects = Effects()
            effects.free_permit(attempt.claimed.queue, attempt.claimed.run_at)
            self._publisher.publish_soon(effects)
        if reason == LEASE_EXPIRED:
            self._outage.excuse(attempt)
        self._reporter.lost(attempt, reason)

    async def _commit(self, batch: list[Attempt]) -> None:
        """Store a batch; what cannot be stored now goes into the next one, after a pause."""
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
        """Store one by one, up to the first that cannot be stored now; the rest, that one last."""
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
        self._after(batch, settled, await self._ask_around(batch), Effects())

    async def _settle(self, batch: list[Attempt]) -> Settled:
        return await self._store.run(
            self._store.settle,
            [attempt.settlement for attempt in batch if attempt.settlement is not None],
            now=self._clock.now(),
        )

    async def _dead_letter(self, attempt: Attempt, error: Exception) -> bool:
        """The store refuses this outcome: fail the job with that reason. False if that cannot be
        stored now either."""
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
        attempt.exception = None
        self._after([attempt], settled, await self._ask_around([attempt]), Effects())
        return True

    async def _find_reasons(self, batch: list[Attempt], settled: Settled) -> None:
        """Why outcomes were refused: the verdicts alone do not say. Asked for observers only."""
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
        except Exception:
            return
        for (attempt, verdict), record in zip(refused, records, strict=True):
            attempt.interruption = reason_for(verdict, record)

    def _still_ours(self, batch: list[Attempt]) -> list[Attempt]:
        now = self._clock.monotonic()
        for attempt in [each for each in batch if each.deadline <= now]:
            self.lost(attempt, LEASE_EXPIRED)
        return [each for each in batch if each.deadline > now]

    async def _ask_around(self, batch: list[Attempt]) -> Known:
        """Read the jobs that events need besides the outcomes: for nearly all outcomes, none."""
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

    def _after(
        self, batch: list[Attempt], settled: Settled, known: Known, effects: Effects
    ) -> None:
        """The outcomes are stored: let go of the jobs, and publish what that changed."""
        applied = batch
        if settled.verdicts.count(Verdict.APPLIED) != len(batch):
            answers = list(zip(batch, settled.verdicts, strict=True))
            applied = [attempt for attempt, verdict in answers if verdict.ok]
            for attempt, verdict in answers:
                if not verdict.ok:
                    self.lost(attempt, attempt.interruption or ERROR)
        self._held.difference_update(applied)
        for attempt in applied:
            if attempt.queue_slots.permits:
                effects.free_permit(attempt.claimed.queue, attempt.claimed.run_at)
            match attempt.settlement:
                case Complete(successor=None) | Fail():
                    effects.ended.append(attempt.claimed.sequence_id)
                    if attempt.claimed.schedule is not None:
                        self._scheduled_ended(attempt.claimed.schedule)
                case None:
                    pass
                case settlement:
                    _schedule_again(attempt.claimed, settlement, effects)
        self._reporter.settled(applied, known, effects.events)
        if settled.freed:
            effects.free(settled.freed, watched=self._observers.active)
        self._publisher.publish_soon(effects)


def _schedule_again(claimed: ClaimedJob, settlement: Settlement, effects: Effects) -> None:
    """The job, or the one that follows it, can be claimed now or later. A successor may be blocked;
    then a hint does no harm."""
    queue, type_, since = claimed.queue, claimed.type, claimed.run_at
    match settlement:
        case Complete(successor=NewJob() as successor):
            effects.schedule_by(successor.queue, successor.type, successor.schedule, since)
        case Retry():
            effects.schedule_in(queue, type_, settlement.delay, since)
        case Reschedule():
            effects.schedule_by(queue, type_, settlement.schedule, since)
        case Release():
            effects.schedule(queue, type_, since)
        case Complete() | Fail() | Lose():
            pass
