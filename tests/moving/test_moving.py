"""Jobs move between stores with all that belongs to them, and whatever is cut off is finished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from headway import After, Headway, Job, JobState
from headway.engine import moving
from headway.engine.moving import Mover
from headway.ports.moving import MovingStore

Make = Callable[[str], Headway]

ROUTES = ["sqlite-postgres", "postgres-sqlite", "sqlite-mongodb", "mongodb-sqlite"]


class Place:
    """A store with job types of its own on it."""

    def __init__(self, url: str) -> None:
        self.app = app = Headway(url, migrate=True)
        self.ran: list[str] = []

        @app.job
        async def work(name: str) -> str:
            self.ran.append(name)
            return name

        @app.job(max_attempts=1)
        async def fail(name: str) -> None:
            raise ValueError(name)

        @app.job
        async def gather(job: Job[*tuple[str, ...]], name: str) -> str:
            self.ran.append(name)
            return "+".join(job.blockers)

        self.work, self.fail, self.gather = work, fail, gather

    @property
    def store(self) -> MovingStore:
        store: Any = self.app.store
        return store

    async def everything(self) -> dict[str, Any]:
        page = await self.app.list(limit=1_000)
        return {job.id: job for job in page.jobs}


@pytest.fixture(params=ROUTES)
async def places(
    request: pytest.FixtureRequest, postgres_url: str, mongo_url: str, sqlite_path: Path
) -> AsyncIterator[tuple[Place, Place]]:
    urls = {
        "sqlite": f"sqlite:///{sqlite_path}",
        "postgres": postgres_url,
        "mongodb": mongo_url,
    }
    async with AsyncExitStack() as stack:
        made: list[Place] = []
        for name in request.param.split("-"):
            place = Place(urls[name])
            await stack.enter_async_context(place.app)
            made.append(place)
        yield made[0], made[1]


def mover(places: tuple[Place, Place], **options: Any) -> Mover:
    source, target = places
    return Mover(source.store, target.store, notifier=target.app.notifier, **options)


async def move_all(mover: Mover) -> int:
    """One pass."""
    moved, cursor = 0, None
    while True:
        step = await mover.step(cursor)
        moved, cursor = moved + step.moved, step.cursor
        if cursor is None:
            return moved


async def test_a_job_arrives_as_it_was(places: tuple[Place, Place]) -> None:
    source, target = places
    await source.app.start(source.work.request("now"))
    await source.app.start(
        source.work.request("later").using(
            schedule=After(hours=1), priority=7, idempotency_key="once"
        )
    )
    await source.app.start(source.fail.request("bad"))
    await source.app.worker(queues=["default"]).run(drain=True)
    await source.app.start(source.work.request("waiting"))
    before = {
        id: job for id, job in (await source.everything()).items() if job.state != "completed"
    }
    attempts = {id: await source.app.attempts(id) for id in before}
    assert sorted(job.state for job in before.values()) == ["failed", "pending", "pending"]

    assert await move_all(mover(places)) == 3

    assert await target.everything() == before
    assert {id: await target.app.attempts(id) for id in before} == attempts
    assert {job.state for job in (await source.everything()).values()} == {JobState.COMPLETED}


async def test_history_moves_when_asked_for(places: tuple[Place, Place]) -> None:
    source, target = places
    await source.app.start_many([source.work.request(str(n)) for n in range(20)])
    await source.app.worker().run(drain=True)
    before = await source.everything()

    assert await move_all(mover(places)) == 0
    assert await move_all(mover(places, history=True)) == 20

    assert await target.everything() == before
    assert await source.everything() == {}


async def test_what_waits_travels_with_what_it_waits_for(places: tuple[Place, Place]) -> None:
    source, target = places
    done = await source.app.start(source.work.request("done"))
    await source.app.worker().run(drain=True)
    open_ = await source.app.start(source.work.request("open"))
    last = await source.app.start(source.gather.request("last").using(blockers=[done, open_]))

    await move_all(mover(places))

    assert await source.everything() == {}
    await target.app.worker().run(drain=True)
    assert await target.app.wait(target.app.sequence(last.id, target.gather)) == "done+open"


async def test_moved_jobs_wake_the_targets_workers(places: tuple[Place, Place]) -> None:
    source, target = places
    started = await source.app.start(source.work.request("hello"))
    worker = asyncio.create_task(target.app.worker(poll_every=300.0, poll_when_told=300.0).run())
    first = await target.app.start(target.work.request("first"))
    assert await first.result(timeout=60) == "first"  # it works, and sleeps from now on
    await move_all(mover(places))
    assert (
        await target.app.wait(target.app.sequence(started.id, target.work), timeout=60) == "hello"
    )
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


async def test_a_group_in_which_a_job_runs_stays(places: tuple[Place, Place]) -> None:
    source, target = places
    running, go_on = asyncio.Event(), asyncio.Event()

    @source.app.job
    async def slow() -> str:
        running.set()
        await go_on.wait()
        return "slow"

    first = await source.app.start(slow.request())
    last = await source.app.start(source.gather.request("last").using(blockers=[first]))
    alone = await source.app.start(source.work.request("alone").using(schedule=After(hours=1)))
    worker = asyncio.create_task(source.app.worker().run())
    await running.wait()

    assert await move_all(mover(places)) == 1
    assert set(await source.everything()) == {first.id, last.id}
    assert set(await target.everything()) == {alone.id}

    go_on.set()
    assert await source.app.wait(last) == "slow"
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


@pytest.mark.parametrize("place", ["packed", "departed", "unpacked"])
async def test_a_mover_that_dies_is_cleaned_up_after(
    places: tuple[Place, Place], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places
    await source.app.start_many([source.work.request(str(n)) for n in range(30)])
    before = await source.everything()

    class Killed(Exception):
        pass

    def die(*args: Any) -> Any:
        raise Killed

    async def no_settling(self: Mover, batch: str) -> int:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Mover, "_settle", no_settling)
        if place == "packed":
            patched.setattr(moving, "_depart", die)
        elif place == "departed":
            patched.setattr(moving, "_unpack_and_put", die)
        else:
            patched.setattr(Mover, "_arrive", _arrive_and(Killed))
        with pytest.raises(Killed):
            await mover(places).step()
    there = {**await source.everything(), **await target.everything()}
    assert there == ({} if place == "departed" else before)  # in the luggage, then

    again = mover(places)
    arrived = await again.resume()
    assert arrived == (30 if place == "departed" else 0)
    assert await target.store.run(target.store.luggage, 10) == []
    await move_all(again)
    assert await source.everything() == {}
    assert await target.everything() == before


def _arrive_and(error: type[BaseException]) -> Any:
    real = Mover._arrive

    async def arrive(self: Mover, batch: str) -> int:
        await real(self, batch)
        raise error

    return arrive
