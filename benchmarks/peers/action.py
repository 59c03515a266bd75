"""One action in a queue's own environment: `python -m benchmarks.peers.action ACTION [NUMBER…]`.

Producer, worker and watcher never share a process. The answer goes, as JSON, into the file that
the location names.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.peers.contract import Peer
from benchmarks.peers.location import Location
from benchmarks.peers.probe import Probe

QUIET = 0.3
"""Seconds without a handler after which the store is asked."""
NEAR = 300
"""Jobs before the end from where on the store is asked all the time."""


def find(location: Location, module: str) -> Peer:
    found = importlib.import_module(f"benchmarks.peers.queues.{module}_peer")
    return next(each for each in found.PEERS if each.name == location.peer)(location)


async def finished(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(round(share * (len(values) - 1)), len(values) - 1)]


def describe(peer: Peer) -> dict[str, Any]:
    return {
        "title": peer.title,
        "store": peer.store,
        "durability": peer.durability,
        "bulk": peer.bulk,
        "metrics": peer.metrics,
        "settings": {use: dict(values) for use, values in asdict(peer.settings).items() if values},
        "versions": {package: version(package) for package in peer.packages},
    }


def set_up(peer: Peer) -> dict[str, Any]:
    making = peer.set_up()  # outside of an event loop unless it asks for one: some object
    if inspect.isawaitable(making):
        run(finished(making), fast=False)
    return {}


def settle(peer: Peer) -> dict[str, Any]:
    peer.settle()
    return {}


async def start_singly(peer: Peer, seconds: float) -> dict[str, Any]:
    await finished(peer.open())
    is_async = inspect.iscoroutinefunction(peer.start_one)
    for n in range(20):
        await finished(peer.start_one(n))
    count, began = 0, time.perf_counter()
    end = began + seconds
    while time.perf_counter() < end:
        if is_async:
            await peer.start_one(count)
        else:
            peer.start_one(count)
        count += 1
    took = time.perf_counter() - began
    await finished(peer.close())
    return {"rate": count / took, "count": count, "seconds": took}


async def start_bulk(peer: Peer, count: float, limit: float) -> dict[str, Any]:
    """All of them, or as many as are started within the limit."""
    await finished(peer.open())
    started, began = 0, time.perf_counter()
    while started < count and time.perf_counter() - began < limit:
        numbers = range(started, min(started + peer.step, int(count)))
        await finished(peer.start_many(numbers))
        started = numbers.stop
    took = time.perf_counter() - began
    await finished(peer.close())
    return {"rate": started / took, "count": started, "seconds": took, "limited": started < count}


def watch(peer: Peer, probe: Probe, count: int, limit: float) -> dict[str, Any]:
    """From the first handler until the store has all jobs as finished and all handlers ran."""
    peer.remaining()  # connects, which takes longer than some queues need for everything
    probe.open_gate()
    began = time.monotonic()
    empty_at = 0.0
    while True:
        seen, now = probe.read(), time.monotonic()
        if not seen.count:
            if now - began > max(limit, 30):
                raise RuntimeError(f"no job had begun within {max(limit, 30):.0f} s")
            time.sleep(0.002)
            continue
        if now - seen.first > limit:
            done = min(count - peer.remaining(), seen.count)
            took = time.monotonic() - seen.first
            return {"rate": done / took, "count": done, "seconds": took, "limited": True}
        quiet = now - seen.last > QUIET
        near = seen.count >= count - NEAR
        if not empty_at and (near or quiet) and peer.remaining() <= 0:
            empty_at = time.monotonic()
        if empty_at and (seen.count >= count or quiet):
            # A store that lets go of a job before it runs is done when the last handler began.
            took = max(empty_at, seen.last) - seen.first
            return {"rate": count / took, "count": count, "seconds": took, "handlers": seen.count}
        time.sleep(0.004 if near else 0.02)


async def first_job(peer: Peer, probe: Probe) -> None:
    """Jobs until one is seen to run: then the worker is there."""
    probe.open_gate()
    deadline = time.monotonic() + 30
    await finished(peer.start_one(0))
    while not probe.read().count:
        if time.monotonic() > deadline:
            raise RuntimeError("no job had begun within 30 s")
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)


async def latency(peer: Peer, probe: Probe, count: int, gap: float) -> dict[str, Any]:
    """Milliseconds from the call that starts a job to its handler, one job every `gap` seconds."""
    await finished(peer.open())
    await first_job(peer, probe)
    is_async = inspect.iscoroutinefunction(peer.start_one)
    called = [0.0] * count
    next_at = time.monotonic() + 0.1
    late = 0
    for n in range(1, count):
        wait = next_at - time.monotonic()
        if wait < 0:
            late += 1
        elif is_async:
            await asyncio.sleep(wait)
        else:
            time.sleep(wait)  # noqa: ASYNC251 - nothing else runs here
        called[n] = time.monotonic()
        await finished(peer.start_one(n))
        next_at += gap
    deadline = time.monotonic() + 10
    while not all(times := probe.times()) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    await finished(peer.close())
    waits = [(times[n] - called[n]) * 1000 for n in range(1, count) if times[n]]
    if not waits:
        raise RuntimeError("none of the jobs has begun")
    return {
        "p50": percentile(waits, 0.5),
        "p95": percentile(waits, 0.95),
        "p99": percentile(waits, 0.99),
        "count": len(waits),
        "missing": count - 1 - len(waits),
        "late": late,
    }


async def results(peer: Peer, probe: Probe, count: int, limit: float) -> dict[str, Any]:
    """Milliseconds from the call that starts a job to its result, one job after the other."""
    await finished(peer.open())
    await first_job(peer, probe)
    for n in range(1, 4):
        await finished(peer.wait(await finished(peer.start_one(n))))
    took: list[float] = []
    end = time.monotonic() + limit
    for n in range(4, count):
        began = time.perf_counter()
        await finished(peer.wait(await finished(peer.start_one(n))))
        took.append((time.perf_counter() - began) * 1000)
        if time.monotonic() > end:
            break
    await finished(peer.close())
    return {"p50": percentile(took, 0.5), "p95": percentile(took, 0.95), "count": len(took)}


def run(main: Coroutine[Any, Any, Any], *, fast: bool) -> Any:
    if not fast:
        return asyncio.run(main)
    import uvloop  # noqa: PLC0415 - not everybody's

    return uvloop.run(main)


def work(peer: Peer, probe: Probe) -> None:
    probe.wait_at_gate()
    running = peer.run_worker()
    if inspect.isawaitable(running):
        run(finished(running), fast=bool(peer.chosen.get("uvloop")))


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    module, action, *given = sys.argv[1:]
    numbers = [float(each) for each in given]
    location = Location.from_environment()
    peer = find(location, module)
    probe = Probe(location)
    actions: dict[str, Callable[[], Any]] = {
        "describe": lambda: describe(peer),
        "set_up": lambda: set_up(peer),
        "settle": lambda: settle(peer),
        "start_singly": lambda: start_singly(peer, *numbers),
        "start_bulk": lambda: start_bulk(peer, *numbers),
        "watch": lambda: watch(peer, probe, int(numbers[0]), numbers[1]),
        "latency": lambda: latency(peer, probe, int(numbers[0]), numbers[1]),
        "results": lambda: results(peer, probe, int(numbers[0]), numbers[1]),
        "work": lambda: work(peer, probe),
    }
    answer = actions[action]()
    if inspect.iscoroutine(answer):
        answer = run(answer, fast=bool(peer.chosen.get("uvloop")))
    if location.answer:
        Path(location.answer).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
