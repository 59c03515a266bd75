"""The app that worker processes run in tests; the environment names its database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time

from headway import Fixed, Headway, Job, Unrecoverable

app = Headway(os.environ["SHOP_DSN"])
log = logging.getLogger("shop")


@app.job
async def add(a: int, b: int) -> int:
    return a + b


@app.job
async def stay(job: Job, seconds: float) -> str:
    """Says which execution it was, so that a stale one would show in the row."""
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


@app.job(queue="money")
async def charge(cents: int, card: str) -> str:
    log.info("charging")
    return f"receipt for {card}"


@app.job(max_attempts=2, retry=Fixed(0))
async def refuse(card: str) -> None:
    raise ValueError("refused")


@app.job
def thread() -> None:
    log.info("in a thread")


@app.job(isolate=True)
def process() -> None:
    log.info("in a process")


@app.job
async def block_loop(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - the mistake that is looked for
