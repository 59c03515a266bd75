"""The work that is measured: a no-op job with a payload of about 0.1 kB."""

from __future__ import annotations

import time

from headway import Continuation, Headway, Job

TEXT = "x" * 100


class Work:
    def __init__(self, dsn: str, notifier: str | None = None) -> None:
        self.app = Headway(dsn, notifier=notifier, migrate=True)

        @self.app.job
        async def noop(n: int, text: str) -> None:
            pass

        @self.app.job
        async def clocked(sent: float) -> float:
            return time.monotonic() - sent

        @self.app.job
        async def step(job: Job, left: int, text: str) -> Continuation[None] | None:
            return job.continue_with(step.request(left - 1, text)) if left else None

        self.noop = noop
        self.step = step
        self.clocked = clocked
