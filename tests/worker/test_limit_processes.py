"""Permits that pass from one process to another, with the notifiers of SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import time
from typing import Any

import pytest

from headway import Headway, JobState
from headway.domain.limits.queue_limits import LimitsOverride
from headway.limits.changes import override
from tests.support.processes import running
from tests.support.stores import store_urls
from tests.support.worker_harness import eventually
from tests.worker import limited_jobs

POLL = 30.0
SOON = 2.0
"""Seconds, on a busy machine; far below the pause between polls."""
LEASE = 2.0

WORKER = f"""
import asyncio, sys
from tests.worker.limited_jobs import app

async def main():
    async with app:
        await app.worker(
            worker_id=sys.argv[1], queues=["capped"], poll_every={POLL}, concurrency=4,
            lease_for={LEASE}, grace=20.0,
        ).run()

asyncio.run(main())
"""

store_url = store_urls("sqlite", "postgres")

pytestmark = pytest.mark.slow


class Processes:
    """Worker processes, and the app of the test, which has no worker."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self.url = url
        self.folder = folder
        self._stack = stack
        self.app = Headway(url, registry=limited_jobs.app.registry, migrate=True)

    def worker(self, name: str) -> subprocess.Popen[str]:
        folder = self.folder / name
        folder.mkdir()
        process = running("-c", WORKER, name, folder=folder, env={"LIMITED_DSN": self.url})
        return self._stack.enter_context(process)

    async def start(self, name: str) -> str:
        started = await self.app.start(limited_jobs.stay.request(str(self.folder / f"end {name}")))
        return started.id

    def end(self, name: str) -> float:
        (self.folder / f"end {name}").touch()
        return time()

    async def until(self, id: str, state: JobState, worker: str | None = None) -> Any:
        async def reached() -> bool:
            record = await self.app.get(id)
            return record.state is state and worker in (None, record.worker)

        await eventually(reached)
        return await self.app.get(id)

    async def until_refused(self) -> None:
        async def refused() -> bool:
            state = await self.app.store.run(self.app.store.queue_state, "capped")
            return state is not None and state.refused

        await eventually(refused)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
async def processes(store_url: str, tmp_path: Path, stack: ExitStack) -> AsyncIterator[Processes]:
    processes = Processes(store_url, tmp_path, stack)
    async with processes.app as app:
        await app.store.run(override, app.store, "capped", LimitsOverride(running=1))
        yield processes


async def _known(app: Headway, count: int) -> bool:
    return len(await app.store.run(app.store.workers)) == count


async def test_a_permit_is_used_at_once_whoever_has_it(processes: Processes) -> None:
    for name in ("one", "two"):
        processes.worker(name)
    await eventually(lambda: _known(processes.app, 2))
    names = list("abcdef")
    ids = [await processes.start(name) for name in names]
    await processes.until(ids[0], JobState.RUNNING)
    for name, id, next_ in zip(names, ids, ids[1:], strict=False):
        ended = processes.end(name)
        await processes.until(id, JobState.COMPLETED)
        record = await processes.until(next_, JobState.RUNNING)
        assert time() - ended < SOON
        assert record.worker in {"one", "two"}
    processes.end("f")
    await processes.until(ids[-1], JobState.COMPLETED)


async def test_a_permit_of_a_process_that_stops_goes_to_another(processes: Processes) -> None:
    first = processes.worker("one")
    a = await processes.start("a")
    await processes.until(a, JobState.RUNNING, "one")
    processes.worker("two")
    await eventually(lambda: _known(processes.app, 2))
    b = await processes.start("b")
    await processes.until_refused()
    first.send_signal(signal.SIGINT)
    await asyncio.sleep(0.2)  # it claims nothing more
    ended = processes.end("a")
    await processes.until(b, JobState.RUNNING, "two")
    assert time() - ended < SOON
    processes.end("b")
    await processes.until(b, JobState.COMPLETED)


async def test_a_permit_of_a_process_that_was_killed_is_free_when_its_lease_has_ended(
    processes: Processes,
) -> None:
    first = processes.worker("one")
    a = await processes.start("a")
    await processes.until(a, JobState.RUNNING, "one")
    processes.worker("two")
    await eventually(lambda: _known(processes.app, 2))
    b = await processes.start("b")
    await processes.until_refused()
    os.kill(first.pid, signal.SIGKILL)
    killed = time()
    processes.end("a")
    processes.end("b")
    await processes.until(b, JobState.COMPLETED)
    await processes.until(a, JobState.COMPLETED)
    assert time() - killed < 2 * LEASE + SOON
    record = await processes.app.get(a)
    assert (record.attempts, record.losses) == (0, 1)
