"""How far handlers say they are: kept about once a second, whatever kind of handler says it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headway import Headway, Job
from headway.domain.events import WorkerRecovered, WorkerTroubled
from headway.domain.orders import ProgressReport
from headway.domain.views import Progress
from headway.errors import InvalidRequest, StoreUnreachable
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore
from headway.worker.background import progress
from tests.support.shop import Shop
from tests.support.worker_harness import WorkerHarness, eventually
from tests.worker.isolation import jobs


class Listening(MemoryStore):
    """Remembers what was reported."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[list[ProgressReport]] = []
        self.away = 0
        """How many reports fail before one is taken."""

    def save_progress(self, reports: Any, *, now: Any = None) -> Operation[None]:
        self.reports.append(list(reports))
        if self.away:
            self.away -= 1
            raise StoreUnreachable("memory", "a test")
        yield from super().save_progress(reports, now=now)


@pytest.fixture
async def harness() -> AsyncIterator[WorkerHarness]:
    harness = WorkerHarness(Listening())
    await harness.store.open()
    yield harness
    await harness.store.close()


@pytest.fixture(autouse=True)
def often(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is long, where it does not matter that it is one."""
    if "a_second" not in request.node.name:
        monkeypatch.setattr(progress, "EVERY", 0.05)


async def heard(harness: WorkerHarness, job_id: str) -> Progress:
    """What the store knows, once it knows something."""
    store = harness.store
    found: list[Progress | None] = []

    async def known() -> bool:
        found[:] = await store.run(store.progress, [job_id])
        return found[0] is not None

    await eventually(known)
    assert found[0] is not None
    return found[0]


async def test_a_chatty_handler_is_heard_once_a_second(harness: WorkerHarness) -> None:
    enough = asyncio.Event()

    @harness.job
    async def chatty(job: Job) -> None:
        for step in range(10_000):
            job.progress(step / 10_000, f"step {step}")
        job.progress(0.75, "nearly")
        await enough.wait()

    (job_id,) = await harness.start(chatty.request())
    async with harness.working():
        found = await heard(harness, job_id)
        assert (found.fraction, found.note) == (0.75, "nearly")
        enough.set()
    assert isinstance(harness.store, Listening)
    assert len(harness.store.reports) == 1


async def test_only_what_changed_is_told_again(harness: WorkerHarness) -> None:
    said, enough = asyncio.Event(), asyncio.Event()

    @harness.job
    async def slow(job: Job, n: int) -> None:
        job.progress(0.1, "began")
        if n == 1:
            await said.wait()
            job.progress(0.2, "went on")
        await enough.wait()

    ids = await harness.start(slow.request(0), slow.request(1))
    store = harness.store
    assert isinstance(store, Listening)
    async with harness.working():
        for job_id in ids:
            await heard(harness, job_id)
        said.set()

        async def told_again() -> bool:
            return any(report.note == "went on" for reports in store.reports for report in reports)

        await eventually(told_again)
        enough.set()
    first, *_, last = store.reports
    assert {report.job_id for report in first} == set(ids)
    assert [report.note for report in last] == ["went on"]


async def test_a_handler_in_a_thread_is_heard(harness: WorkerHarness) -> None:
    enough = threading.Event()

    @harness.job
    def blocking(job: Job) -> None:
        job.progress(0.5, "half way")
        enough.wait(10)

    (job_id,) = await harness.start(blocking.request())
    async with harness.working():
        found = await heard(harness, job_id)
        enough.set()
    assert (found.fraction, found.note) == (0.5, "half way")


async def test_an_isolated_handler_is_heard(harness: WorkerHarness, tmp_path: Path) -> None:
    harness.registry = jobs.registry
    until = tmp_path / "until"
    (job_id,) = await harness.start(jobs.says_how_far.request(str(until)))
    async with harness.working():
        await heard(harness, job_id)

        async def half_way() -> bool:
            return (await heard(harness, job_id)).note == "half way"

        await eventually(half_way)
        until.touch()


async def test_a_store_that_is_away_is_told_later(harness: WorkerHarness) -> None:
    store = harness.store
    assert isinstance(store, Listening)
    store.away = 1
    enough = asyncio.Event()

    @harness.job
    async def slow(job: Job) -> None:
        job.progress(0.5, "half way")
        await enough.wait()

    (job_id,) = await harness.start(slow.request())
    async with harness.working():
        assert (await heard(harness, job_id)).note == "half way"
        enough.set()
        await harness.event(WorkerTroubled, part="progress")
        await harness.event(WorkerRecovered, part="progress")


async def test_jobs_that_say_nothing_cost_nothing(harness: WorkerHarness) -> None:
    @harness.job
    async def silent() -> None: ...

    await harness.start(*[silent.request() for _ in range(20)])
    await harness.drain()
    assert isinstance(harness.store, Listening)
    assert harness.store.reports == []


async def test_what_cannot_be_stored_is_made_storable(harness: WorkerHarness) -> None:
    enough = asyncio.Event()

    @harness.job
    async def odd(job: Job) -> None:
        job.progress(1, "\0 \ud800 " + "x" * 5_000)
        await enough.wait()

    (job_id,) = await harness.start(odd.request())
    async with harness.working():
        found = await heard(harness, job_id)
        enough.set()
    assert found.fraction == 1.0
    assert "\0" not in found.note
    assert len(found.note.encode()) < 1_000


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
async def test_a_fraction_is_between_0_and_1(harness: WorkerHarness, fraction: float) -> None:
    raised: list[Exception] = []

    @harness.job(max_attempts=1)
    async def wrong(job: Job) -> None:
        try:
            job.progress(fraction)
        except InvalidRequest as error:
            raised.append(error)

    await harness.start(wrong.request())
    await harness.drain()
    assert len(raised) == 1


@pytest.mark.parametrize("store_url", ["sqlite", "postgres"], indirect=True)
async def test_clients_see_it(store_url: str) -> None:
    shop = Shop(store_url, migrate=True)
    app: Headway = shop.app
    enough = asyncio.Event()

    @app.job
    async def resize(job: Job) -> None:
        job.progress(0.4, "resizing")
        await enough.wait()

    async with app:
        sequence = await app.start(resize.request())
        assert await app.progress(sequence) is None
        worker = app.worker(queues=["default"])
        await worker.start()

        async def told() -> bool:
            return await app.progress(sequence) is not None

        await eventually(told)
        found = (await app.questions.job(sequence.id)).progress
        assert found is not None
        assert (found.fraction, found.note) == (0.4, "resizing")
        assert await in_thread(lambda: app.sync.progress(sequence)) == found
        enough.set()
        await sequence.result(timeout=60)
        await worker.stop()
        assert await app.progress(sequence) == found
    app.sync.close()


async def in_thread(call: Callable[[], Any]) -> Any:
    return await asyncio.to_thread(call)
