"""An app for the tests of the command; its database is named by the environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time

from headway import Headway, Job, Unrecoverable

app = Headway(os.environ["CLI_DSN"])


@app.job
async def add(a: int, b: int) -> int:
    return a + b


@app.job
async def stay(job: Job, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"{os.getpid()}:{job.lease.version}"


@app.job
async def hold(job: Job, seconds: float) -> str:
    """The first execution runs until it is told why it must stop; the next one so many seconds."""
    try:
        await asyncio.sleep(seconds if job.losses else 60)
    finally:
        if not job.losses:
            sys.stderr.write(f"told {job.interruption}\n")
            sys.stderr.flush()
    return "done"


@app.job(queue="slow")
def block(seconds: float) -> None:
    time.sleep(seconds)


@app.job
async def ignore(seconds: float) -> None:
    """Goes on, however often it is cancelled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


@app.job
async def fail(why: str) -> None:
    raise Unrecoverable(why)
