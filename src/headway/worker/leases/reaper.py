"""Gives back jobs whose leases have expired. Every worker has a reaper; the store lets only one of
them settle each job.

Jobs of the worker itself whose leases ran out during an outage are given back first, uncharged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from random import random

from headway.after_commit.effects import Effects
from headway.after_commit.publisher import Publisher
from headway.domain.events import JobDeadLettered, JobReaped, SequenceFailed
from headway.domain.failure import decode_failure
from headway.domain.lease import Verdict
from headway.domain.lifecycle import after_absence, after_expiry
from headway.domain.settlement import Lose, Release, Settlement
from headway.worker.attempt import LEASE_EXPIRED, Attempt
from headway.worker.environment import WorkerEnvironment
from headway.worker.failure_streak import sleep_unless
from headway.worker.leases.store_outage import Outage

MOST_AT_ONCE = 100


class Reaper:
    def __init__(
        self, environment: WorkerEnvironment, publisher: Publisher, outage: Outage
    ) -> None:
        self._publisher = publisher
        self._outage = outage
        self._store = environment.store
        self._clock = environment.clock
        self._every = environment.settings.reap_interval()
        self._failures = environment.failures("reaper")

    async def run(self, stopped: asyncio.Event) -> None:
        pause = self._every * random()
        while not await sleep_unless(stopped, pause):
            pause = self._every * (0.5 + random() / 2)  # at least this often, and not all at once
            try:
                found = await self.reap()
            except Exception as error:
                pause = max(pause, self._failures.failed(error))
                if self._outage.excused:  # nobody waits for us for longer than its grace
                    pause = min(pause, self._outage.grace / 3)
            else:
                self._failures.ended()
                if found >= MOST_AT_ONCE:
                    pause = 0.0

    async def reap_all(self) -> None:
        """Rounds, until no lease is left that has expired."""
        while await self.reap() >= MOST_AT_ONCE:
            pass

    async def reap(self) -> int:
        """One round; how many leases were found to have expired."""
        await self.give_back_own()
        now = self._clock.now()
        expired = await self._store.run(self._store.expired, MOST_AT_ONCE, now=now)
        if not expired or self._outage.recent:  # their workers may give them back uncharged
            return 0
        # A store that does not leave out what is locked would charge it as soon as it is let go.
        completing = self._outage.completing()
        lost = [job for job in expired if job.id not in completing]
        if not lost:
            return 0
        losses = [after_expiry(job) for job in lost]
        settled = await self._store.run(self._store.settle, losses, now=now)
        effects = Effects()
        for job, loss, verdict in zip(lost, losses, settled.verdicts, strict=True):
            if verdict is not Verdict.APPLIED:
                continue  # another reaper was faster, or the lease was renewed after all
            effects.take(job, LEASE_EXPIRED)
            facts = (job.id, job.type, job.queue, job.sequence_id)
            effects.events.append(JobReaped(*facts, job.worker, job.lease_version, dead=loss.dead))
            if loss.dead:
                effects.end(job)
                failure = decode_failure(loss.error)
                effects.events.append(JobDeadLettered(*facts, failure, job.attempts + 1))
                effects.events.append(
                    SequenceFailed(job.sequence_id, job.sequence_type, job.queue, None)
                )
            else:
                effects.schedule(job.queue, job.type, job.created_at)
        self._publisher.publish_soon(effects)
        return len(expired)

    async def give_back_own(self) -> None:
        """Leases of this worker that ran out because the store was away; their jobs are not charged
        for it."""
        still_valid: list[Attempt] = []
        effects = Effects()
        for attempt, verdict in await self._settle_own(self._outage.excused, _lose):
            if verdict is not Verdict.HELD:
                self._given_back(attempt, verdict, attempt.claimed.created_at, effects)
            elif self._outage.is_over(attempt):  # else its handler still has to end
                still_valid.append(attempt)
        self._publisher.publish_soon(effects)
        effects = Effects()
        for attempt, verdict in await self._settle_own(still_valid, _release):
            if verdict is not Verdict.EXPIRED:
                self._given_back(attempt, verdict, attempt.claimed.run_at, effects)
        self._publisher.publish_soon(effects)

    async def _settle_own(
        self, attempts: Sequence[Attempt], how: Callable[[Attempt], Settlement]
    ) -> list[tuple[Attempt, Verdict]]:
        if not attempts:
            return []
        settlements = [how(attempt) for attempt in attempts]
        settled = await self._store.run(self._store.settle, settlements, now=self._clock.now())
        return list(zip(attempts, settled.verdicts, strict=True))

    def _given_back(
        self, attempt: Attempt, verdict: Verdict, run_at: datetime, effects: Effects
    ) -> None:
        self._outage.settled(attempt)
        if verdict is not Verdict.APPLIED:  # another worker has it, or it has ended
            return
        job = attempt.claimed
        effects.schedule(job.queue, job.type, run_at)
        if attempt.queue_slots.permits:
            effects.free_permit(job.queue, run_at)
        facts = (job.id, job.type, job.queue, job.sequence_id, attempt.worker, job.lease.version)
        effects.events.append(JobReaped(*facts, dead=False, charged=False))


def _lose(attempt: Attempt) -> Lose:
    return after_absence(attempt.claimed, attempt.worker)


def _release(attempt: Attempt) -> Release:
    return Release(attempt.claimed.id, attempt.claimed.lease.token)
