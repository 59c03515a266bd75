"""Isolated job types, in a module that child processes can import."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from headway.domain.due_time import After, At
from headway.domain.request import Continuation, Dedup, SequenceReference
from headway.errors import Unrecoverable
from headway.jobs.codec import JsonCodec
from headway.jobs.decorators import JobDecorator
from headway.jobs.job import Job
from headway.jobs.registry import Registry
from headway.ports.current_attempt import current_attempt

registry = Registry()
job = JobDecorator(registry, JsonCodec())


@job(isolate=True)
def pid() -> int:
    return os.getpid()


@job(isolate=True)
def tick(job: Job) -> tuple[str | None, datetime | None]:
    return job.schedule, job.scheduled_for


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


@job(isolate=True, max_attempts=1, timeout=0.001)
def out_of_time() -> None:
    time.sleep(60)


def start_sleeper(path: str, *, close_fds: bool = True) -> subprocess.Popen[bytes]:
    """A process that the handler does not wait for. Its id is in the file when it runs."""
    sleeper = subprocess.Popen(["sleep", "600"], close_fds=close_fds)
    Path(path).write_text(str(sleeper.pid))
    return sleeper


@job(isolate=True, max_attempts=1)
def leave_a_process(path: str, how: str) -> None:
    match how:
        case "return":
            start_sleeper(path)
        case "crash":  # the sleeper has all descriptors that its parent has
            start_sleeper(path, close_fds=False)
            os.kill(os.getpid(), signal.SIGKILL)
        case "fork and crash":
            if (pid := os.fork()) == 0:
                time.sleep(600)
            Path(path).write_text(str(pid))
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            start_sleeper(path)
            time.sleep(600)
        case _:
            raise AssertionError(how)


@job(isolate=True)
def stop_a_process(path: str, fork: bool) -> int:
    if not fork:
        sleeper = start_sleeper(path)
        sleeper.terminate()
        return sleeper.wait()
    ready, running = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(running, b".")
        time.sleep(600)
    os.read(ready, 1)
    os.kill(pid, signal.SIGTERM)
    return -os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@job(isolate=True, max_attempts=1)
def say_the_unspeakable(job: Job, until: str) -> None:
    job.progress(0.5, "half \udc80")
    log = logging.getLogger("unspeakable")
    log.warning("odd \udc80 %s", {1, 2} - {2}, extra={"paths": {(1, 2): Path("/")}, "many": 2**70})
    log.warning("plain", extra={"kept": {"a": [1, None, True, 1.5]}, "path": Path("/x")})
    while not Path(until).exists():
        time.sleep(0.01)
    raise LookupError("never \udc80")


@job(isolate=True)
def go_on_with_everything(job: Job, known: str) -> Continuation[str]:
    first = name.request().using(
        priority=3,
        schedule=At(datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
        dedup=Dedup("key", scope="any", window=timedelta(days=1, microseconds=7)),
    )
    request = gather.request("x").using(
        blockers=[first, SequenceReference(known), name.request().using(schedule=After(seconds=0))],
        priority=-4,
        max_attempts=None,
        max_losses=9,
        timeout=30.5,
        id="01a1ddf9-eb4e-7466-a684-f7abe7b3714b",
    )
    return job.continue_with(request)


@job(isolate=True)
def gather(job: Job[*tuple[str, ...]], text: str) -> str:
    return text + "".join(job.blockers)


@job(isolate=True, max_attempts=1)
def go_on_wrongly(job: Job) -> Continuation[Any]:
    return job.continue_with(gather.request("x").using(blockers=[7]))  # type: ignore[list-item]


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


@job(isolate=True, max_attempts=1, timeout=20)
def fork(how: str) -> int:
    """The exit code of a process that leaves the handler in one way or another."""
    child = os.fork()
    if child == 0:
        match how:
            case "return":
                return -1
            case "exit":
                sys.exit(0)
            case "exit with 3":
                sys.exit(3)
            case "exit with words":
                sys.exit("no")
            case _:
                raise ValueError(how)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@job(isolate=True, max_attempts=1, timeout=60)
def log_from_forks(size: int) -> int:
    forks = 3
    for _ in range(forks):
        if os.fork() == 0:
            for _ in range(10):
                logging.getLogger("forked").warning("x" * size)
            os._exit(0)
    return sum(os.wait()[1] for _ in range(forks))
