"""A job that was lost more than once runs by itself: it may be one that kills its worker."""

from __future__ import annotations

import asyncio

from headway import Headway
from headway.stores.memory import MemoryStore


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
