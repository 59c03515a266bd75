"""Isolated job types, in a module that child processes can import."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from headway.domain.errors import Unrecoverable
from headway.domain.request import Continuation
from headway.domain.schedule import After
from headway.engine.codec import JsonCodec
from headway.engine.context import Job
from headway.engine.decorators import JobDecorator
from headway.engine.registry import Registry
from headway.ports.running import current_attempt

registry = Registry()
job = JobDecorator(registry, JsonCodec())


@job(isolate=True)
def pid() -> int:
    return os.getpid()


@job(isolate=True)
async def whoami(job: Job[str], greeting: str) -> str:
    await asyncio.sleep(0)
    running = current_attempt.get()
    assert running is not None
    return f"{greeting} {job.blockers[0]}, {job.attempt} {running.claimed.id == job.id}"


@job
async def name() -> str:
    return "world"


@job(isolate=True, max_attempts=1)
def fail(how: str) -> None:
    match how:
        case "raise":
            raise KeyError("gone")
        case "unrecoverable":
            raise Unrecoverable("never")
        case "system exit":
            sys.exit(3)
        case "exit":
            os._exit(7)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case _:
            raise AssertionError(how)


@job(isolate=True, max_attempts=1, timeout=2)
def hang(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


@job(isolate=True, max_attempts=1)
def hang_forever(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


@job(isolate=True)
def large(size: int) -> str:
    return "x" * size


@job(isolate=True)
def go_on(job: Job, number: int) -> Continuation[int]:
    if number == 0:
        job.reschedule(After(hours=1))
    return job.continue_with(double.request(number))


@job(isolate=True)
def double(number: int) -> int:
    return number * 2


@job(isolate=True, max_attempts=1)
def want_a_transaction(job: Job) -> None:
    job.complete()


@job(isolate=True)
def says_how_far(job: Job, until: str) -> str:
    """Says more than anyone wants to hear, then waits until it is told to end."""
    for step in range(2_000):
        job.progress(step / 4_000, f"step {step}")
    job.progress(0.5, "half way")
    while not Path(until).exists():
        time.sleep(0.01)
    return "done"
