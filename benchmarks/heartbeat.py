"""How late the heartbeat is while a handler blocks the event loop, and whether its lease survives.

    python -m benchmarks.heartbeat              # a lease of 3 s, handlers that block for 9 s
    python -m benchmarks.heartbeat --lease 30   # the default lease: takes eight minutes

Each job is run by a real worker on a SQLite file. It is completed if its lease was renewed in time,
and lost if it was not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from headway import Headway
from headway.domain.lease import Held, Verdict
from headway.errors import ResultFailed
from headway.ports.statement import Operation

if "HEARTBEAT_FOLDER" not in os.environ:  # it is in the child process of `isolate=True`
    os.environ["HEARTBEAT_FOLDER"] = tempfile.mkdtemp(prefix="headway-heartbeat-")
FOLDER = os.environ["HEARTBEAT_FOLDER"]
app = Headway(f"sqlite:///{Path(FOLDER) / 'heartbeat.db'}")


@app.job(max_losses=1)
async def sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - blocking the loop is the point


@app.job(max_losses=1)
async def loop(seconds: float) -> None:
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        number = number * 3 % 7 + 1


@app.job(max_losses=1)
async def sums(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(20_000_000))


@app.job(max_losses=1)
async def regex(letters: int) -> None:
    backtrack(letters)


@app.job(max_losses=1, isolate=True)
def regex_isolated(letters: int) -> None:
    backtrack(letters)


def backtrack(letters: int) -> float:
    """One call that keeps the interpreter to itself; one more letter doubles the time."""
    began = time.monotonic()
    re.fullmatch(r"(a|aa)+", "a" * letters + "b")
    return time.monotonic() - began


def letters_for(seconds: float) -> int:
    """How many letters keep the regular expression busy for that long."""
    letters = 20
    while (took := backtrack(letters)) < 0.2:
        letters += 1
    while took < seconds:
        letters += 1
        took *= 1.618
    return letters


class Renewals:
    """Notes when the worker renews leases."""

    def __init__(self, worked: Headway) -> None:
        self.moments: list[float] = []
        self._extend = worked.store.extend
        setattr(worked.store, "extend", self.extend)  # noqa: B010 - a method, for once

    def extend(
        self, held: list[Held], lease_for: float, *, now: datetime | None = None
    ) -> Operation[list[Verdict]]:
        verdicts = yield from self._extend(held, lease_for, now=now)
        self.moments.append(time.monotonic())
        return verdicts

    def latest(self, began: float, ended: float, every: float) -> float:
        """The longest time without a renewal, beyond the time between two."""
        moments = [began, *(each for each in self.moments if began <= each <= ended), ended]
        gaps = [after - before for before, after in itertools.pairwise(moments)]
        return max(0.0, max(gaps) - every)


async def measure(request: Any, lease: float, name: str) -> None:
    renewals = Renewals(app)
    async with app:
        worker = app.worker(lease_for=lease, concurrency=1)
        sequence = await app.start(request)
        began = time.monotonic()
        await worker.start()
        with contextlib.suppress(ResultFailed):
            await sequence.result()
        ended = time.monotonic()
        state = (await sequence.get()).state
        await worker.stop()
    outcome = "lost" if state == "failed" else str(state)
    late = renewals.latest(began, ended, lease / 3)
    print(f"{name:<28} {ended - began:>7.1f} s {late:>10.2f} s   {outcome}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lease", type=float, default=3.0)
    lease: float = parser.parse_args().lease
    print(f"leases of {lease:g} s, renewed every {lease / 3:g} s")
    print(f"{'the handler':<28} {'took':>9} {'renewed late by':>12}   the job")
    letters = letters_for(lease * 3)
    requests: list[tuple[str, Callable[[], Any]]] = [
        ("time.sleep", lambda: sleep.request(lease * 3)),
        ("a loop in Python", lambda: loop.request(lease * 3)),
        ("sum(range(20_000_000))", lambda: sums.request(lease * 3)),
        ("a backtracking regex", lambda: regex.request(letters)),
        ("the same, isolate=True", lambda: regex_isolated.request(letters)),
    ]
    for name, make in requests:
        asyncio.run(measure(make(), lease, name))


if __name__ == "__main__":
    try:
        main()
    finally:
        shutil.rmtree(FOLDER)
