"""Queues with limits and their jobs, and the main of a worker process that may die in a claim."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway import After, Headway, Job, Rate
from headway.ports.statement import Operation
from headway.ports.store import Store
from proof.tools.work import SOON, WorkerLog

QUEUES: dict[str, dict[str, Any]] = {
    "capped": {"running": 4},
    "keyed": {"per_key": 1},
    "rated": {"rate": Rate(10, per=1.0, burst=4)},
    "fair": {"running": 4, "fair": True},
    "mixed": {"running": 5, "per_key": 2, "rate": Rate(60, per=2.0, burst=20), "fair": True},
}
KEYS = 6
"""Keys of `keyed` and `mixed`."""
SMALL = 20
"""Keys of `fair` with one job at a time, beside the one with a backlog."""
BIG = "big"
IN_CLAIMS = ("running_keys", "claim", "claim_keys", "save_queue")
"""The steps of a claim after which a worker may be struck, while the queue is locked."""


class LimitedWork:
    """The app, its queues and job types. `log` is None for those who only start jobs."""

    def __init__(self, dsn: str, log: WorkerLog | None = None) -> None:
        self.app = app = Headway(dsn, migrate=False)
        for name, limits in QUEUES.items():
            app.queue(name, **limits)

        def note(what: str, job: Job) -> None:
            if log is not None:
                log.note(what, job)

        @app.job(max_losses=10_000, max_attempts=50, retry=SOON)
        async def limited(job: Job, seconds: float) -> None:
            note("start", job)
            await asyncio.sleep(seconds)
            note("end", job)

        @app.job(max_losses=10_000, max_attempts=50, retry=SOON)
        async def spending(job: Job, weight: int) -> None:
            note("start", job)
            job.spent(weight)
            note("end", job)

        @app.job(max_losses=10_000, max_attempts=50, retry=SOON)
        async def holding(job: Job, seconds: float, held: float, chance: float) -> None:
            """Sometimes has its queue or its key wait for so long."""
            note("start", job)
            await asyncio.sleep(seconds)
            note("end", job)
            if random.random() < chance:
                job.hold(After(seconds=held), key=random.random() < 0.5)

        self.limited, self.spending, self.holding = limited, spending, holding


async def run_limited_worker(dsn: str, logs: Path, settings: dict[str, Any]) -> None:
    """Until SIGTERM. `killed_in_claims` and `frozen_in_claims`: how often it is struck there.
    `noted`: whether its handlers write a log."""
    chances = {
        signal.SIGKILL: settings.pop("killed_in_claims", 0.0),
        signal.SIGSTOP: settings.pop("frozen_in_claims", 0.0),
    }
    work = LimitedWork(dsn, WorkerLog(logs) if settings.pop("noted", True) else None)
    random.seed()  # the fork has the state of its parent
    if any(chances.values()):
        _strike_in_claims(work.app.store, chances)
    async with work.app:
        worker = work.app.worker(queues=[*QUEUES], **settings)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.request_stop)
        await worker.run()


def _strike_in_claims(store: Store, chances: dict[signal.Signals, float]) -> None:
    def struck(step: Callable[..., Operation[Any]]) -> Callable[..., Operation[Any]]:
        def strike(*args: Any, **options: Any) -> Operation[Any]:
            answer = yield from step(*args, **options)
            for number, chance in chances.items():
                if random.random() < chance:
                    os.kill(os.getpid(), number)
            return answer

        return strike

    for name in IN_CLAIMS:
        setattr(store, name, struck(getattr(store, name)))
