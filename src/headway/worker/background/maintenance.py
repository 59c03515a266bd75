"""Housekeeping, in every worker and safe when many do it: prunes finished sequences, forgets dead
workers and old audit rows, and reports job types that no worker runs."""

from __future__ import annotations

import asyncio
from random import random

from headway.domain.events import JobsPruned, TypesUnattended
from headway.domain.job import JobState
from headway.worker.environment import WorkerEnvironment
from headway.worker.failure_streak import sleep_unless

FEWEST, MOST = 200, 5_000
"""Sequences that one statement prunes."""
LONGEST = 0.2
"""Seconds that such a statement may take; where one writer keeps all others waiting, a tenth."""
SHORTEST_PAUSE = 0.005
LOOK_FOR_UNATTENDED_EVERY = 300.0
REMIND_EVERY = 3600.0


class Maintenance:
    def __init__(self, environment: WorkerEnvironment) -> None:
        self._settings = environment.settings
        self._rules = environment.settings.prune_rules()
        self._store = environment.store
        self._clock = environment.clock
        self._observers = environment.observers
        self._failures = environment.failures("maintenance")
        self._looked = -LOOK_FOR_UNATTENDED_EVERY
        self._pointed_out: dict[str, float] = {}

    async def run(self, stopped: asyncio.Event) -> None:
        every = self._settings.maintain_every
        pause = every * random()  # workers that start together do not all do it at once
        while not await sleep_unless(stopped, pause):
            pause = every * (0.75 + random() / 2)
            try:
                await self.maintain(stopped)
            except Exception as error:
                self._failures.failed(error)
            else:
                self._failures.ended()

    async def maintain(self, stopped: asyncio.Event) -> None:
        """One round."""
        await self._store.run(
            self._store.delete_workers,
            unseen_for=self._settings.forget_workers_after,
            now=self._clock.now(),
        )
        await self._store.run(
            self._store.prune_audit, self._settings.forget_audit_after, now=self._clock.now()
        )
        await self._prune(stopped)
        now = self._clock.monotonic()
        if now - self._looked >= LOOK_FOR_UNATTENDED_EVERY and not stopped.is_set():
            self._looked = now
            await self._point_out_unattended(now)

    async def _prune(self, stopped: asyncio.Event) -> None:
        """Until nothing is left to prune."""
        count = 0
        most = FEWEST
        one_writer = self._store.capabilities.one_writer
        longest, rest = (LONGEST / 10, 1.0) if one_writer else (LONGEST, 0.25)
        for rule in self._rules:
            while not stopped.is_set():
                began = self._clock.monotonic()
                pruned = await self._store.run(self._store.prune, rule, most, now=self._clock.now())
                took = self._clock.monotonic() - began
                count += pruned
                if not pruned:
                    break
                if took < longest / 2:
                    most = min(2 * most, MOST)
                elif took > longest:
                    most = max(most // 2, FEWEST)
                await sleep_unless(stopped, max(took * rest, SHORTEST_PAUSE))
        if count:
            self._observers.observe(JobsPruned(self._settings.worker_id, count))

    async def _point_out_unattended(self, now: float) -> None:
        tallies = await self._store.run(self._store.tally, now=self._clock.now())
        waiting = {each.type for each in tallies if each.state is JobState.PENDING}
        if not waiting:
            return
        workers = await self._store.run(self._store.workers)
        attended = {type_ for worker in workers for type_ in worker.types}
        unattended = sorted(
            type_
            for type_ in waiting - attended
            if now - self._pointed_out.get(type_, -REMIND_EVERY) >= REMIND_EVERY
        )
        if unattended:
            self._pointed_out.update(dict.fromkeys(unattended, now))
            self._observers.observe(TypesUnattended(tuple(unattended)))
