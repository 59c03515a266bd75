"""Isolated job types of queues with limits, in a module that child processes can import."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from headway import After, Headway, Job, Rate

app = Headway(
    os.environ.get("LIMITED_DSN", "memory://"), notifier=os.environ.get("LIMITED_NOTIFIER")
)
app.queue("rated", rate=Rate(10, per=3600, burst=10))


@app.job(queue="rated", isolate=True)
def spend(job: Job, weight: int) -> str | None:
    job.spent(weight)
    return job.key


@app.job(queue="plain", isolate=True)
def spend_in_vain(job: Job) -> None:
    job.spent(1)


@app.job(queue="plain", isolate=True)
def hold(job: Job, seconds: float, key: bool, mark: str) -> float:
    """Holds once: there is no mark then."""
    if not Path(mark).exists():
        Path(mark).touch()
        job.hold(After(seconds=seconds), key=key)
    return time.time()


@app.job(queue="capped")
async def stay(path: str) -> float:
    """Runs until the file exists; the time at which it began."""
    began = time.time()
    while not Path(path).exists():
        await asyncio.sleep(0.002)
    return began
