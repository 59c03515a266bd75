"""The work that is measured: a no-op job with a payload of about 0.1 kB, sequences of it, and jobs
that schedules start."""

from __future__ import annotations

import time

from headway import Continuation, Headway, Job
from headway.cli.bench import work
from headway.cli.bench.work import TEXT

__all__ = ["TEXT", "Work"]


class Work(work.Work):
    def __init__(self, dsn: str, notifier: str | None = None) -> None:
        super().__init__(Headway(dsn, notifier=notifier, migrate=True))

        @self.app.job
        async def step(job: Job, left: int, text: str) -> Continuation[None] | None:
            return job.continue_with(step.request(left - 1, text)) if left else None

        @self.app.job
        async def ticked(job: Job) -> float:
            """Seconds since the tick."""
            now = time.time()
            assert job.scheduled_for is not None
            return now - job.scheduled_for.timestamp()

        self.step = step
        self.ticked = ticked
