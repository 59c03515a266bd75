"""Stores the progress that handlers report: for all jobs of a worker in one statement, about once a
second, and only what has changed. A handler that reports more often costs no more.

Runs on the worker's loop and not with the heartbeat: progress must not delay the renewal of leases.
"""

from __future__ import annotations

import asyncio

from headway.domain.failure import storable
from headway.domain.orders import ProgressReport
from headway.worker.attempt import Attempt
from headway.worker.environment import WorkerEnvironment
from headway.worker.failure_streak import sleep_unless

EVERY = 1.0
MAX_NOTE = 500
"""Characters of a message that are stored."""


class ProgressWriter:
    def __init__(self, environment: WorkerEnvironment) -> None:
        self._store = environment.store
        self._clock = environment.clock
        self._held = environment.held
        self._failures = environment.failures("progress")
        self._kept: dict[Attempt, tuple[float, str]] = {}
        """The progress that is stored, of running attempts."""

    async def run(self, stopped: asyncio.Event) -> None:
        pause = EVERY
        while not await sleep_unless(stopped, pause):
            pause = EVERY
            try:
                await self._keep()
            except Exception as error:
                pause += self._failures.failed(error)
            else:
                self._failures.ended()

    async def _keep(self) -> None:
        said = {
            attempt: attempt.progress
            for attempt in self._held
            if attempt.progress is not None and attempt.settlement is None
        }
        reports = [
            ProgressReport(
                attempt.claimed.id,
                attempt.claimed.lease.token,
                progress[0],
                storable(progress[1], MAX_NOTE),
            )
            for attempt, progress in said.items()
            if self._kept.get(attempt) is not progress
        ]
        if reports:
            await self._store.run(self._store.save_progress, reports, now=self._clock.now())
        self._kept = said
