"""Gives back jobs whose worker has not renewed its lease. Every worker does it, at once with the
others: the store lets only one of them have each job."""

from __future__ import annotations

import asyncio
from random import random

from headway.domain.events import JobDeadLettered, JobReaped, SequenceFailed
from headway.domain.failure import decode_failure
from headway.domain.job import JobRecord
from headway.domain.lease import Verdict
from headway.domain.lifecycle import after_expiry
from headway.domain.settlement import Lose
from headway.engine.announcing import Announcer
from headway.engine.execution import LEASE_EXPIRED
from headway.engine.observing import Observers
from headway.engine.trouble import Trouble, sleep_unless
from headway.ports.clock import Clock
from headway.ports.store import Store

MOST_AT_ONCE = 100


class Reaper:
    def __init__(
        self,
        worker: str,
        store: Store,
        clock: Clock,
        observers: Observers,
        announcer: Announcer,
        every: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._observers = observers
        self._announcer = announcer
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
        now = self._clock.now()
        expired = await self._store.run(self._store.expired, MOST_AT_ONCE, now=now)
        if not expired:
            return 0
        losses = [after_expiry(job) for job in expired]
        settled = await self._store.run(self._store.settle, losses, now=now)
        for job, loss, verdict in zip(expired, losses, settled.verdicts, strict=True):
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

    def _tell(self, job: JobRecord, loss: Lose) -> None:
        facts = (job.id, job.type, job.queue, job.sequence_id)
        observe = self._observers.observe
        observe(JobReaped(*facts, job.worker, job.lease_version, dead=loss.dead))
        if loss.dead:
            observe(JobDeadLettered(*facts, decode_failure(loss.error)))
            observe(SequenceFailed(job.sequence_id, job.sequence_type, job.queue, None))
