"""Whether a worker lives and works, and its endpoint."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headway.after_commit.observer_group import Observers
from headway.domain import events
from headway.domain.views import Health
from headway.observers.worker_endpoint import WorkerEndpoint
from headway.worker.loop_watch import LoopWatch, find_place
from tests.support.observed_app import PATIENCE, ObservedApp
from tests.support.shop_processes import get


async def test_a_worker_is_ready_while_it_works() -> None:
    observed = ObservedApp("memory://")
    async with observed.app:
        worker = observed.worker()
        assert worker.health == Health(
            live=True, ready=False, problems=("the worker does not run",)
        )
        await worker.start()
        assert worker.health == Health(live=True, ready=True)
        worker.request_stop()
        assert worker.health.problems == ("the worker is stopping",)
        await worker.stop()
        assert not worker.health.ready


async def test_a_store_that_fails_makes_it_unready_and_that_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observed = ObservedApp("memory://")
    store = observed.app.store
    async with observed.app, observed.working(poll_every=0.05) as worker:
        claim = store.claim

        def fail(*_: object, **__: object) -> None:
            raise OSError("gone")

        monkeypatch.setattr(store, "claim", fail)
        await observed.until(events.StoreFailed, 2, part="fetcher")
        health = worker.health
        assert (health.live, health.ready) == (True, False)
        assert "the fetcher has failed" in health.problems[0]
        assert len(observed.seen(events.WorkerTroubled, part="fetcher")) == 1
        monkeypatch.setattr(store, "claim", claim)
        await observed.until(events.WorkerRecovered, part="fetcher")
        assert worker.health.ready


def when(condition: Callable[[], object], then: Callable[[], object]) -> threading.Thread:
    """Do it from another thread, which looks until the condition holds."""

    def look() -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.01)
        then()

    thread = threading.Thread(target=look)
    thread.start()
    return thread


async def test_a_blocked_loop_makes_it_unready_and_then_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observed = ObservedApp("memory://")
    seen: list[Health] = []
    over = threading.Event()

    @observed.app.job
    async def block() -> None:
        over.wait(PATIENCE)

    def look() -> None:
        seen.append(worker.health)
        with monkeypatch.context() as patch:
            patch.setattr("headway.worker.worker_run.LATE", 0.0)
            seen.append(worker.health)
            patch.setattr("headway.worker.worker_run.STUCK", 0.0)
            seen.append(worker.health)
        over.set()

    async with observed.app as app, observed.working() as worker:
        await app.start(block.request())
        looking = when(lambda: observed.seen(events.LoopBlocked, type="block"), look)
        await observed.until(events.LoopResumed, type="block")
        assert worker.health.ready
    looking.join()
    assert [(each.live, each.ready) for each in seen] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    assert "the event loop has been blocked" in seen[-1].problems[0]


async def test_the_line_is_the_users_own_even_deep_in_a_library() -> None:
    observed = ObservedApp("memory://")
    reading, writing = os.pipe()

    @observed.app.job
    async def careless() -> None:
        until_its_end = "import sys; sys.stdin.read()"
        subprocess.run([sys.executable, "-c", until_its_end], stdin=reading, check=True)

    async with observed.app as app, observed.working():
        job = await app.start(careless.request())
        looking = when(
            lambda: observed.seen(events.LoopBlocked, type="careless"), lambda: os.close(writing)
        )
        await observed.until(events.LoopResumed, type="careless")
    looking.join()
    os.close(reading)
    (blocked,) = observed.seen(events.LoopBlocked, type="careless")
    lines = Path(__file__).read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "subprocess.run(" in line)
    assert blocked.where.startswith(f"{__file__}:{number} in ")
    assert blocked.where.endswith("careless")
    assert (blocked.job_id, blocked.type) == (job.id, "careless")
    (resumed,) = observed.seen(events.LoopResumed, type="careless")
    assert resumed.seconds >= blocked.seconds
    assert resumed.where == blocked.where


async def test_a_callback_that_blocks_is_named_too() -> None:
    observed = ObservedApp("memory://")
    over = threading.Event()

    def dawdle() -> None:
        over.wait(PATIENCE)

    def named() -> list[Any]:
        return [each for each in observed.seen(events.LoopBlocked) if each.where.endswith("dawdle")]

    async with observed.app, observed.working():
        looking = when(named, over.set)
        asyncio.get_running_loop().call_soon(dawdle)
        while not over.is_set():
            await asyncio.sleep(0)
    looking.join()
    (blocked,) = named()
    assert blocked.where.startswith(f"{__file__}:")
    assert blocked.job_id is None


async def test_an_idle_loop_is_not_blocked() -> None:
    observed = ObservedApp("memory://")
    async with observed.app, observed.working() as worker:
        await asyncio.sleep(1.2)
        assert worker.health.ready
    assert observed.seen(events.LoopBlocked) == []
    assert find_place(None) is None


async def test_without_observers_there_is_no_thread_but_the_lag_is_known() -> None:
    watch = LoopWatch("w", Observers())
    assert watch.lag == 0.0
    watch.start()
    time.sleep(0.3)  # noqa: ASYNC251
    assert watch.lag >= 0.19
    await asyncio.sleep(0)
    watch.stop()
    assert watch.lag == 0.0
    watch.stop()


def test_the_endpoint() -> None:
    health = Health(live=False, ready=False, problems=("it is stuck", "and tired"))
    endpoint = WorkerEndpoint("127.0.0.1", 0, lambda: health)
    endpoint.stop()
    endpoint.start()
    try:
        url = f"http://127.0.0.1:{endpoint.port}"
        assert get(f"{url}/livez") == (503, "it is stuck\nand tired\n")
        assert get(f"{url}/readyz?verbose") == (503, "it is stuck\nand tired\n")
        assert get(f"{url}/metrics")[0] == 404
    finally:
        endpoint.stop()
    endpoint.stop()
