"""What a worker does not do when time is short, and what it does not wait for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headway import Headway, Job
from headway.stores.memory import MemoryStore
from headway.worker.leases.heartbeat import Heartbeat


class SlowAnswers(MemoryStore):
    """Answers its first claim that gives something when the lease is all but over."""

    seconds = 0.0

    async def run(self, operation: Any, /, *args: Any, **kwargs: Any) -> Any:
        answer = await super().run(operation, *args, **kwargs)
        if operation == self.claim and answer and self.seconds:
            seconds, self.seconds = self.seconds, 0.0
            await asyncio.sleep(seconds)
        return answer


async def test_a_job_whose_lease_is_nearly_over_is_not_begun() -> None:
    store = SlowAnswers()
    app = Headway(store)
    versions: list[int] = []

    @app.job
    async def work(job: Job) -> None:
        versions.append(job.lease.version)

    async with app:
        sequence = await app.start(work.request())
        store.seconds = 0.95
        worker = app.worker(lease_for=1.0, reap_every=0.1, poll_every=0.1)
        await worker.start()
        await sequence.result(timeout=60)
        await worker.stop()
    assert versions == [2]


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_only_row_locks_wait_for_a_renewal(
    kind: str, sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite a renewal that is under way waits for the transaction, not the other way round."""
    waited: list[Heartbeat] = []

    async def pass_by(self: Heartbeat) -> None:
        waited.append(self)

    monkeypatch.setattr(Heartbeat, "pass_by", pass_by)
    app = Headway("memory://" if kind == "memory" else f"sqlite:///{sqlite_path}")

    @app.job
    async def work(job: Job) -> None:
        await job.complete()

    async with app:
        await app.start(work.request())
        await app.worker().run(drain=True)
    assert bool(waited) is (kind == "memory")
