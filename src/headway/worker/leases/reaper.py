"""Gives back jobs whose worker has not renewed its lease. Every worker does it, at once with the
others: the store lets only one of them have each job.

A worker's own leases that ran out while the store was away are given back first, and uncharged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from random import random

from headway.after_commit.announcer import Announcer
from headway.after_commit.observers import Observers
from headway.domain.events import JobDeadLettered, JobReaped, SequenceFailed
from headway.domain.failure import decode_failure
from headway.domain.job import JobRecord
from headway.domain.lease import Verdict
from headway.domain.lifecycle import after_absence, after_expiry
from headway.domain.settlement import Lose, Release, Settlement
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.runtime.backoff import Trouble, sleep_unless
from headway.worker.attempt import LEASE_EXPIRED, Execution
from headway.worker.leases.outage import Absence

MOST_AT_ONCE = 100


class Reaper:
    def __init__(
        self,
        worker: str,
        store: Store,
        clock: Clock,
        observers: Observers,
        announcer: Announcer,
        absence: Absence,
        every: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._observers = observers
        self._announcer = announcer
        self._absence = absence
        self._every = every
        self._trouble = Trouble(worker, "reaper", observers)

    async def run(self, stopped: asyncio.Event) -> None:
        pause = self._every * random()
        while not await sleep_unless(stopped, pause):
            pause = self._every * (0.5 + random() / 2)  # at least this often, and not all at once
            try:
                found = await self.reap()
            except Exception as error:
                pause = max(pause, self._trouble.began(error))
                if self._absence.excused:  # nobody waits for us for longer than its grace
                    pause = min(pause, self._absence.grace / 3)
            else:
                self._trouble.over()
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
        if not expired or self._absence.recent:  # their holders may still say that it was not they
            return 0
        # A store that does not leave out what is locked would charge it as soon as it is let go.
        completing = self._absence.completing()
        lost = [job for job in expired if job.id not in completing]
        if not lost:
            return 0
        losses = [after_expiry(job) for job in lost]
        settled = await self._store.run(self._store.settle, losses, now=now)
        for job, loss, verdict in zip(lost, losses, settled.verdicts, strict=True):
            if verdict is not Verdict.APPLIED:
                continue  # another reaper was faster, or the lease was renewed after all
            self._announcer.lost(job.id, LEASE_EXPIRED, job.worker)
            if loss.dead:
                self._announcer.ended(job.sequence_id)
            else:
                self._announcer.scheduled(job.queue, job.type, job.created_at)
            self._tell(job, loss)
        self._announcer.send()
        return len(expired)

    async def give_back_own(self) -> None:
        """Those that ran out because the store was away; their jobs are not charged for it."""
        still_valid: list[Execution] = []
        excused = self._absence.excused
        for execution, verdict in await self._settle_own(excused, _lose):
            if verdict is not Verdict.HELD:
                self._given_back(execution, verdict, execution.claimed.created_at)
            elif self._absence.is_over(execution):  # else its handler still has to end
                still_valid.append(execution)
        for execution, verdict in await self._settle_own(still_valid, _release):
            if verdict is not Verdict.EXPIRED:
                self._given_back(execution, verdict, execution.claimed.run_at)
        self._announcer.send()

    async def _settle_own(
        self, executions: Sequence[Execution], how: Callable[[Execution], Settlement]
    ) -> list[tuple[Execution, Verdict]]:
        if not executions:
            return []
        settlements = [how(execution) for execution in executions]
        settled = await self._store.run(self._store.settle, settlements, now=self._clock.now())
        return list(zip(executions, settled.verdicts, strict=True))

    def _given_back(self, execution: Execution, verdict: Verdict, run_at: datetime) -> None:
        self._absence.settled(execution)
        if verdict is not Verdict.APPLIED:  # another worker has it, or it has ended
            return
        job = execution.claimed
        self._announcer.scheduled(job.queue, job.type, run_at)
        facts = (job.id, job.type, job.queue, job.sequence_id, execution.worker, job.lease.version)
        self._observers.observe(JobReaped(*facts, dead=False, charged=False))

    def _tell(self, job: JobRecord, loss: Lose) -> None:
        facts = (job.id, job.type, job.queue, job.sequence_id)
        observe = self._observers.observe
        observe(JobReaped(*facts, job.worker, job.lease_version, dead=loss.dead))
        if loss.dead:
            observe(JobDeadLettered(*facts, decode_failure(loss.error)))
            observe(SequenceFailed(job.sequence_id, job.sequence_type, job.queue, None))


def _lose(execution: Execution) -> Lose:
    return after_absence(execution.claimed, execution.worker)


def _release(execution: Execution) -> Release:
    return Release(execution.claimed.id, execution.claimed.lease.token)
