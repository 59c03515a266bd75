"""Jobs move between stores with all that belongs to them, and whatever is cut off is finished."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headway import After, Every, Headway, Job, JobState
from headway.admin import transfer
from headway.admin.transfer import Copier, Mover
from headway.errors import DuplicateJob, InvalidOption
from headway.notifiers.local import LocalNotifier
from headway.ports.store import Store
from headway.ports.transfer import BatchOutcome, Transfer
from headway.stores.mongodb import MongoStore
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.servers.postgres import PostgresServer

Make = Callable[[str], Headway]

ROUTES = [
    "sqlite-postgres",
    "postgres-sqlite",
    pytest.param("sqlite-mongodb", marks=pytest.mark.long),
    pytest.param("mongodb-sqlite", marks=pytest.mark.long),
]


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
    def transfer(self) -> Transfer:
        transfer = self.app.store.transfer
        assert transfer is not None
        return transfer

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
    return Mover(source.transfer, target.transfer, notifier=target.app.notifier, **options)


async def move_all(mover: Mover) -> int:
    """One pass."""
    moved, cursor = 0, None
    while True:
        step = await mover.step(cursor)
        moved, cursor = moved + step.arrived, step.cursor
        if cursor is None:
            return moved


async def same(source: Store, target: Store) -> bool:
    """Whether the mover takes them for one store."""
    assert source.transfer is not None
    assert target.transfer is not None
    try:
        await Mover(source.transfer, target.transfer, notifier=LocalNotifier()).check()
    except InvalidOption:
        return True
    return False


async def test_a_tick_that_both_stores_fired_is_kept_once(places: tuple[Place, Place]) -> None:
    source, target = places
    since = datetime.now(UTC) - timedelta(hours=1)
    for place, name in ((source, "here"), (target, "there")):
        await place.app.schedules.put("hourly", Every(hours=1), place.work.request(name))
        (fired,) = await place.app.schedules.backfill("hourly", since, at_most=1)
    alone = await source.app.start(source.work.request("alone"))
    move = mover(places)
    assert await move.schedules_left() == 1
    await move_all(move)
    assert await source.everything() == {}
    assert set(await target.everything()) == {fired.id, alone.id}
    await target.app.worker().run(drain=True)
    assert sorted(target.ran) == ["alone", "there"]
    assert await move.resume() == 0


async def test_a_tick_that_both_stores_fired_and_others_wait_for_is_an_error(
    places: tuple[Place, Place],
) -> None:
    source, target = places
    since = datetime.now(UTC) - timedelta(hours=1)
    for place in (target, source):
        await place.app.schedules.put("hourly", Every(hours=1), place.work.request("tick"))
        (fired,) = await place.app.schedules.backfill("hourly", since, at_most=1)
    after = await source.app.start(source.gather.request("after").using(blockers=[fired]))
    move = mover(places)
    with pytest.raises(DuplicateJob):
        await move_all(move)
    store = target.app.store
    await store.run(store.delete_jobs, [fired.id])
    assert await move.resume() == 2
    await target.app.worker().run(drain=True)
    assert sorted(target.ran) == ["after", "tick"]
    assert set(await target.everything()) == {fired.id, after.id}


async def test_one_postgres_database_has_many_names(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    other_name = postgres_server.create_database()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create role somebody superuser login")
    try:
        own = PostgresStore(postgres_url)
        await own.migrate()
        for name in (
            make_conninfo(postgres_url),
            make_conninfo(postgres_url, application_name="mover"),
            postgres_url.replace("127.0.0.1", "localhost"),
            postgres_url.replace("postgres@", "somebody@"),
        ):
            assert await same(own, PostgresStore(name)), name
        schema = PostgresStore(postgres_url, schema="other")
        database = PostgresStore(postgres_server.url(other_name))
        for other in (schema, database):
            await other.migrate()
            assert not await same(own, other), other
    finally:
        postgres_server.drop_database(other_name)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("drop role somebody")


@pytest.mark.usefixtures("dropped_sockets")
@pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")
async def test_one_mongodb_database_has_many_names(
    mongo_replica_set: MongoReplicaSet, mongo_url: str
) -> None:
    own = MongoStore(mongo_url)
    await own.migrate()
    for name in (
        mongo_url.replace("127.0.0.1", "localhost"),
        mongo_url.replace("replicaSet=rs0", "directConnection=true"),
        mongo_url + "&appName=mover",
    ):
        assert await same(own, MongoStore(name)), name
    schema = MongoStore(mongo_url, schema="other")
    database = MongoStore(mongo_replica_set.url(mongo_replica_set.new_database()))
    for other in (schema, database):
        await other.migrate()
        assert not await same(own, other), other


async def test_one_sqlite_file_may_hold_two_stores(sqlite_path: Path) -> None:
    own, other = SqliteStore(sqlite_path), SqliteStore(sqlite_path, prefix="other_")
    for store in (own, other):
        await store.migrate()
    assert await same(own, SqliteStore(str(sqlite_path)))
    assert not await same(own, other)
    copied = SqliteStore(shutil.copy(sqlite_path, sqlite_path.with_name("copied.db")))
    assert not await same(own, copied)


async def test_different_stores_are_told_apart(places: tuple[Place, Place]) -> None:
    await mover(places).check()


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
    await source.app.start(source.work.request("waiting"), key="tenant-7")
    before = {
        id: job for id, job in (await source.everything()).items() if job.state != "completed"
    }
    attempts = {id: await source.app.attempts(id) for id in before}
    assert sorted(job.state for job in before.values()) == ["failed", "pending", "pending"]

    assert await move_all(mover(places)) == 3

    assert await target.everything() == before
    assert {id: await target.app.attempts(id) for id in before} == attempts
    assert {job.state for job in (await source.everything()).values()} == {JobState.COMPLETED}


async def test_keys_are_copied(places: tuple[Place, Place]) -> None:
    source, target = places
    started = await source.app.start(source.work.request("done"), key="tenant-7")
    await source.app.worker().run(drain=True)
    assert await copy_all(places) == (1, 0)
    assert (await target.everything())[started.id].key == "tenant-7"


async def test_limits_stay_and_do_not_keep_a_queue_from_being_paused(
    places: tuple[Place, Place],
) -> None:
    source, target = places
    for app, running in ((source.app, 1), (target.app, 2)):
        app.queue("mail", running=running)
        app.queue("default", running=running)
        await app.worker(queues=["mail", "default"]).run(drain=True)
    await source.app.pause("mail")
    await source.app.pause("default")
    await target.app.pause("default")

    assert await mover(places).pause_queues() == ["mail"]

    store = target.app.store
    states = {state.name: state for state in await store.run(store.queue_states)}
    assert states["mail"].paused_at is not None
    assert states["mail"].effective.running == 2


async def test_history_moves_when_asked_for(places: tuple[Place, Place]) -> None:
    source, target = places
    await source.app.start_many([source.work.request(str(n)) for n in range(20)])
    await source.app.worker().run(drain=True)
    before = await source.everything()

    assert await move_all(mover(places)) == 0
    assert await move_all(mover(places, history=True)) == 20

    assert await target.everything() == before
    assert await source.everything() == {}


async def copy_all(places: tuple[Place, Place]) -> tuple[int, int]:
    """One pass; how many jobs were copied, and how many completed ones were not."""
    source, target = places
    copier = Copier(source.transfer, target.transfer)
    copied, left, cursor = 0, 0, None
    while True:
        step = await copier.step(cursor)
        copied, left, cursor = copied + step.arrived, left + step.waiting, step.cursor
        if cursor is None:
            return copied, left


async def test_completed_jobs_are_copied(places: tuple[Place, Place]) -> None:
    source, target = places
    await source.app.start_many([source.work.request(str(n)) for n in range(300)])
    done = await source.app.start(source.work.request("done"))
    failed = await source.app.start(source.fail.request("failed"))
    await source.app.worker().run(drain=True)
    waiting = await source.app.start(source.work.request("open"))
    last = await source.app.start(source.gather.request("last").using(blockers=[done, waiting]))
    before = await source.everything()
    can_run = {done.id, failed.id, waiting.id, last.id}

    assert await copy_all(places) == (300, 1)
    assert await copy_all(places) == (0, 1)

    assert await source.everything() == before
    assert await target.everything() == {id: before[id] for id in before.keys() - can_run}
    assert await target.app.worker().run(drain=True) is None
    assert len(await target.everything()) == 300


async def test_copied_jobs_can_be_moved(places: tuple[Place, Place]) -> None:
    """A job that waits for a copied one takes it along: the copy stays, and nothing is lost."""
    source, target = places
    done = await source.app.start(source.work.request("done"))
    await source.app.worker().run(drain=True)
    assert await copy_all(places) == (1, 0)
    last = await source.app.start(source.gather.request("last").using(blockers=[done]))

    assert await move_all(mover(places)) == 2

    assert await source.everything() == {}
    await target.app.worker().run(drain=True)
    assert await target.app.wait(target.app.sequence(last.id, target.gather)) == "done"


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


async def test_a_job_that_ties_others_to_a_running_one_meanwhile(
    places: tuple[Place, Place],
) -> None:
    source, target = places
    running, go_on = asyncio.Event(), asyncio.Event()

    @source.app.job
    async def slow() -> str:
        running.set()
        await go_on.wait()
        return "slow"

    class Interrupted(Mover):
        """A job is started when the first group has turned out to be running."""

        started = False

        async def _send(self, root_ids: Sequence[str]) -> int:
            try:
                return await super()._send(root_ids)
            except transfer._Unsettled as unsettled:
                if unsettled.without and not self.started:
                    self.started = True
                    both = source.gather.request("both").using(blockers=[first, alone])
                    await source.app.start(both)
                raise

    first = await source.app.start(slow.request())
    await source.app.start(source.gather.request("last").using(blockers=[first]))
    alone = await source.app.start(source.work.request("alone").using(schedule=After(hours=1)))
    worker = asyncio.create_task(source.app.worker().run())
    await running.wait()

    one = Interrupted(source.transfer, target.transfer, notifier=target.app.notifier)
    async with asyncio.timeout(20):
        step = await one.step()

    assert one.started
    assert (step.arrived, step.waiting) == (0, 2)
    assert len(await source.everything()) == 4
    go_on.set()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


async def test_an_outcome_is_kept_until_its_batch_has_arrived(
    places: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places
    arrive = Mover._arrive
    said: list[BatchOutcome] = []

    async def look(batch: str) -> None:
        change = source.transfer.set_outcome
        said.append(await source.app.store.run(change, batch, BatchOutcome.CANCELLED))

    async def arrive_and_look(self: Mover, batch: str) -> int:
        await look(batch)
        arrived = await arrive(self, batch)
        await look(batch)  # nothing is written of it any more: it is cancelled, to no effect
        return arrived

    monkeypatch.setattr(Mover, "_arrive", arrive_and_look)
    await source.app.start_many([source.work.request(str(n)) for n in range(3)])
    assert await move_all(mover(places)) == 3
    assert said == [BatchOutcome.MOVED, BatchOutcome.CANCELLED]
    assert await mover(places).resume() == 0
    assert len(await target.everything()) == 3


@pytest.mark.parametrize("place", ["staged", "moved out", "moved in"])
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
        if place == "staged":
            patched.setattr(transfer, "_move_out", die)
        elif place == "moved out":
            patched.setattr(transfer, "_move_in", die)
        else:
            patched.setattr(Mover, "_arrive", _arrive_and(Killed))
        with pytest.raises(Killed):
            await mover(places).step()
    there = {**await source.everything(), **await target.everything()}
    assert there == ({} if place == "moved out" else before)  # only on the stage

    again = mover(places)
    arrived = await again.resume()
    assert arrived == (30 if place == "moved out" else 0)
    assert await target.app.store.run(target.transfer.staged_batches, 10) == []
    await move_all(again)
    assert await source.everything() == {}
    assert await target.everything() == before


def _arrive_and(error: type[BaseException]) -> Any:
    real = Mover._arrive

    async def arrive(self: Mover, batch: str) -> int:
        await real(self, batch)
        raise error

    return arrive
