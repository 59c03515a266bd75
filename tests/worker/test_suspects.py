"""A job that was lost more than once runs by itself: it may be one that kills its worker."""

from __future__ import annotations

import asyncio

from headway import Headway, Job
from headway.domain.events import Event, JobReleased
from headway.stores.memory import MemoryStore
from headway.worker.settings import WorkQueue


class Counting:
    """Counts the jobs that are given back."""

    def __init__(self) -> None:
        self.released = 0

    def observe(self, event: Event) -> None:
        self.released += isinstance(event, JobReleased)


async def test_a_suspect_runs_alone_and_the_others_go_on_afterwards() -> None:
    store = MemoryStore()
    app = Headway(store)
    running: set[int] = set()
    company: dict[int, set[int]] = {}

    @app.job
    async def work(number: int) -> int:
        running.add(number)
        company[number] = running - {number}
        await asyncio.sleep(0.01)
        running.discard(number)
        for other in running:
            company[other].add(number)
        return number

    async with app:
        started = await app.start_many([work.request(number) for number in range(30)])
        suspects = {3, 4, 20}
        for number in suspects:
            store._rows[started[number].id].losses = 2
        await app.worker(concurrency=10).run(drain=True)
        states = {(await app.get(sequence)).state for sequence in started}
    assert states == {"completed"}
    assert all(not company[number] for number in suspects)
    assert max(map(len, company.values())) > 0


async def test_a_suspect_that_takes_long_does_not_keep_others_waiting() -> None:
    store = MemoryStore()
    app = Headway(store)
    ended = asyncio.Event()

    @app.job
    async def long() -> None:
        await ended.wait()

    @app.job
    async def short() -> None:
        ended.set()

    async with app:
        first = await app.start(long.request())
        store._rows[first.id].losses = 3
        await app.start(short.request())
        async with asyncio.timeout(60):
            await app.worker(concurrency=2).run(drain=True)
        assert (await app.get(first)).state == "completed"


async def test_a_suspect_waits_for_the_running_ones_but_not_for_long_ones() -> None:
    store = MemoryStore()
    app = Headway(store)
    begun = asyncio.Event()
    ended = asyncio.Event()

    @app.job
    async def long() -> None:
        begun.set()
        await ended.wait()

    @app.job
    async def suspect() -> None:
        ended.set()

    async with app:
        await app.start(long.request())
        worker = app.worker(concurrency=2)
        await worker.start()
        await begun.wait()
        later = await app.start(suspect.request())
        store._rows[later.id].losses = 2
        async with asyncio.timeout(60):
            await ended.wait()
        await worker.stop()


async def test_healthy_jobs_go_on_among_many_suspects() -> None:
    store, watch = MemoryStore(), Counting()
    app = Headway(store, observers=[watch])
    begun: list[str] = []

    @app.job
    async def suspect() -> None:
        begun.append("suspect")
        await asyncio.sleep(0.05)

    @app.job
    async def healthy() -> None:
        begun.append("healthy")
        await asyncio.sleep(0.01)

    async with app:
        started = await app.start_many([suspect.request() for _ in range(20)])
        for sequence in started:
            store._rows[sequence.id].losses = 2
        started += await app.start_many([healthy.request() for _ in range(20)])
        async with asyncio.timeout(30):
            await app.worker(concurrency=10).run(drain=True)
        states = {(await app.get(sequence)).state for sequence in started}
    assert states == {"completed"}
    second = [place for place, kind in enumerate(begun) if kind == "suspect"][1]
    assert "healthy" in begun[:second], "healthy jobs have their turn after each suspect"
    assert watch.released <= 30, "suspects are not claimed again and again"


async def test_a_worker_runs_one_suspect_at_a_time() -> None:
    store, watch = MemoryStore(), Counting()
    app = Headway(store, observers=[watch])
    running: set[str] = set()
    most = 0
    claimed = asyncio.Event()

    @app.job
    async def suspect(job: Job) -> None:
        nonlocal most
        running.add(job.id)
        most = max(most, len(running))
        await claimed.wait()
        running.discard(job.id)

    @app.job
    async def healthy() -> None:
        claimed.set()

    async with app:
        started = await app.start_many([suspect.request() for _ in range(5)])
        for sequence in started:
            store._rows[sequence.id].losses = 2
        started.append(await app.start(healthy.request()))
        async with asyncio.timeout(30):
            await app.worker(concurrency=10).run(drain=True)
        states = {(await app.get(sequence)).state for sequence in started}
    assert (states, most) == ({"completed"}, 1)
    assert watch.released <= 20


async def test_a_suspect_that_finds_no_slot_does_not_keep_others_from_theirs() -> None:
    store = MemoryStore()
    app = Headway(store)
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.job(queue="narrow")
    async def long() -> None:
        begun.set()
        await ended.wait()

    @app.job(queue="wide")
    async def short() -> None:
        ended.set()

    lanes = [WorkQueue("narrow", limit=1), WorkQueue("wide")]
    async with app:
        first = await app.start(long.request())
        worker = app.worker(queues=lanes, concurrency=3)
        await worker.start()
        await begun.wait()
        second = await app.start(long.request())
        store._rows[second.id].losses = 2
        await app.start(short.request())
        async with asyncio.timeout(20):
            await app.wait(first)
            await app.wait(second)
        await worker.stop()
