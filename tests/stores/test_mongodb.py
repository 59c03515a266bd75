"""What is MongoDB's own: its sessions, its plans, its conflicts, and its ways of failing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pymongo
import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from headway import Dedup, Headway
from headway.domain.job import JobState, NewJob
from headway.domain.lease import Held, Verdict
from headway.domain.lifecycle import after_expiry
from headway.domain.queries import JobFilter
from headway.domain.settlement import Complete, Fail, Retry
from headway.errors import ConfigurationError, SchemaMissing, SchemaOutdated, StoreUnreachable
from headway.notifiers.mongodb import MongoNotifier
from headway.ports.notifications import JobsScheduled, Notification
from headway.stores.mongodb import MongoStore
from headway.stores.mongodb.find import SCAN
from headway.stores.mongodb.statistics import READ_WHOLE
from headway.testing.conformance.store.kit import (
    ERROR,
    add,
    at,
    attempts_of,
    claim,
    complete,
    everything,
    insert,
    new_job,
    new_token,
    order,
    read,
    running,
    state_of,
    successor_of,
)
from tests.support.servers.mongodb import MongoReplicaSet, MongoServer
from tests.support.stores import opened

Client = AsyncMongoClient[dict[str, Any]]


@pytest.fixture
async def store(mongo_url: str) -> AsyncIterator[MongoStore]:
    async with opened(MongoStore(mongo_url)) as store:
        yield store


@pytest.fixture
async def client(mongo_url: str) -> AsyncIterator[Client]:
    """The user's own."""
    async with Client(mongo_url) as client:
        yield client


@contextmanager
def failing(replica_set: MongoReplicaSet, *commands: str, **how: Any) -> Iterator[None]:
    """The next such command of the store fails in this way."""
    with pymongo.MongoClient(replica_set.url("admin")) as admin:
        data = {"failCommands": list(commands), "appName": "headway", **how}
        admin.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=data)
        try:
            yield
            left = admin.admin.command("configureFailPoint", "failCommand", mode="off")
            assert left["count"] >= 1, "nothing failed"
        finally:
            admin.admin.command("configureFailPoint", "failCommand", mode="off")


async def test_nothing_scans_the_collection(store: MongoStore, client: Client) -> None:
    await insert(store, *[new_job(queue=f"q{number % 5}") for number in range(2_000)])
    database = client.get_default_database()
    await database.command("profile", 2)
    jobs = await claim(store, "q0", "q1", limit=50)
    waiting = await add(store, blockers=(jobs[0].id,), dedup_key="k")
    await store.run(store.extend, [Held(job.id, job.lease.token) for job in jobs], 30.0, now=at(1))
    await complete(store, jobs[0])
    await complete(store, jobs[1], successor=successor_of(jobs[1], queue="q9"))
    await store.run(
        store.settle, [Complete(job.id, job.lease.token) for job in jobs[2:]], now=at(1)
    )
    await store.run(store.current, [jobs[1].id])
    await store.run(store.blocker_outputs, [waiting])
    await store.run(store.expired, 10, now=at(1))
    await database.command("profile", 0)
    seen = await database["system.profile"].find({"ns": {"$regex": r"headway\.job$"}}).to_list()
    assert len(seen) > 8
    for entry in seen:
        assert "COLLSCAN" not in entry.get("planSummary", ""), entry
        assert entry.get("docsExamined", 0) <= 150, entry
        assert entry.get("keysExamined", 0) <= 300, entry


async def test_questions_about_many_jobs_are_bounded(store: MongoStore, client: Client) -> None:
    many = READ_WHOLE + 2_000
    await insert(store, *[new_job(queue=f"q{number % 3}") for number in range(many - 2)])
    job = await running(store, type="odd")
    await store.run(store.settle, [Fail(job.id, job.lease.token, ERROR, "ab" * 6)], now=at(1))
    await running(store, type="odd")
    database = client.get_default_database()
    await database.command("profile", 2)
    tallies = await store.run(store.tally, now=at(1))
    assert sum(tally.count for tally in tallies if tally.state is JobState.PENDING) > many / 2
    assert not any(tally.exact for tally in tallies if tally.state is JobState.PENDING)
    few = {tally.state: (tally.count, tally.exact) for tally in tallies if tally.type == "odd"}
    assert few == {JobState.FAILED: (1, True), JobState.RUNNING: (1, True)}
    page = await store.run(store.find, JobFilter(types=("odd",), queues=("nowhere",)))
    assert page.jobs == []
    assert page.cursor is not None, "looking ended early, and says where"
    page = await store.run(store.find, JobFilter(states=(JobState.FAILED,)))
    assert ([found.id for found in page.jobs], page.cursor) == ([job.id], None)
    page = await store.run(store.find, JobFilter(states=(JobState.RUNNING,)))
    assert (len(page.jobs), page.cursor) == (1, None)
    await store.run(store.find, JobFilter(states=(JobState.PENDING,)))
    await store.run(store.count, JobFilter(fingerprints=("abab",)), 100)
    (failure,) = await store.run(store.failures, JobFilter(), 10)
    assert (failure.count, failure.exact) == (1, True)
    await store.run(store.ended, 10)
    await store.run(store.throughput, 60, 60.0, now=at(10))
    await database.command("profile", 0)
    seen = await database["system.profile"].find({"ns": {"$regex": r"headway\.job$"}}).to_list()
    assert len(seen) > 8
    for entry in seen:
        assert "COLLSCAN" not in entry.get("planSummary", ""), entry
        assert entry.get("docsExamined", 0) <= SCAN, entry


async def test_a_claim_takes_three_round_trips_whatever_its_size(
    store: MongoStore, client: Client
) -> None:
    await insert(store, *[new_job() for _ in range(600)])
    counts: list[int] = []
    for limit in (1, 10, 200):
        before = await _commands(client)
        assert len(await claim(store, limit=limit)) == limit
        counts.append(await _commands(client) - before)
    assert counts == [3, 3, 3]


async def _commands(client: Client) -> int:
    status = await client.admin.command("serverStatus")
    metrics = status["metrics"]["commands"]
    return sum(metrics[name]["total"] for name in ("find", "aggregate", "update"))


async def test_a_job_that_a_transaction_has_changed_holds_up_no_claim(
    store: MongoStore, client: Client
) -> None:
    jobs = [new_job() for _ in range(5)]
    await insert(store, *jobs)
    async with store.begin() as tx:
        await store.run_in(tx, store.current, [jobs[2].id], lock=True)
        async with asyncio.timeout(20):  # and not the minute that a transaction may last
            taken = await claim(store, limit=3)
            taken += await claim(store, limit=3)
        assert {job.id for job in taken} == {job.id for job in jobs} - {jobs[2].id}
        before = await _commands(client)
        assert await claim(store, limit=3) == []
        assert await _commands(client) - before == 1, "it is not tried again at once"
    deadline = time.monotonic() + 10
    while not (late := await claim(store, limit=3)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
    assert [job.id for job in late] == [jobs[2].id]


async def test_a_reaper_passes_by_a_job_that_is_being_completed(store: MongoStore) -> None:
    held = await running(store)
    for _ in range(2):
        await running(store)
    async with store.begin() as tx, asyncio.timeout(10):
        lease = [Held(held.id, held.lease.token)]
        assert await store.run_in(tx, store.extend, lease, 3600, now=at(1)) == [Verdict.APPLIED]
        expired = await store.run(store.expired, 10, now=at(60))
        assert len(expired) == 3
        settled = await store.run(store.settle, [after_expiry(job) for job in expired], now=at(60))
        verdicts = dict(zip([job.id for job in expired], settled.verdicts, strict=True))
        assert verdicts.pop(held.id) is Verdict.MISMATCH
        assert set(verdicts.values()) == {Verdict.APPLIED}
        done = [Complete(held.id, held.lease.token)]
        settled = await store.run_in(tx, store.settle, done, now=at(61))
        assert settled.verdicts == [Verdict.APPLIED]
    assert await state_of(store, held.id) is JobState.COMPLETED


async def test_jobs_start_in_the_callers_session(store: MongoStore, client: Client) -> None:
    orders = client["elsewhere"]["orders"]
    await orders.drop()
    kept, undone = new_job(), new_job()
    async with client.start_session() as session:
        async with await session.start_transaction():
            await orders.insert_one({"_id": 7}, session=session)
            await store.run_in(session, store.insert, [kept])
            assert await everything(store) == []
        with pytest.raises(LookupError):
            async with await session.start_transaction():
                await orders.insert_one({"_id": 8}, session=session)
                await store.run_in(session, store.insert, [undone])
                raise LookupError
    assert [job.id for job in await everything(store)] == [kept.id]
    assert [document["_id"] async for document in orders.find()] == [7]


def test_jobs_start_in_a_blocking_callers_session(mongo_url: str) -> None:
    app = Headway(mongo_url, migrate=True)

    @app.job
    def charge(order: int) -> None: ...

    with app.sync as jobs, pymongo.MongoClient(mongo_url) as client:
        orders = client["elsewhere"]["blocking_orders"]
        orders.drop()
        with client.start_session() as session:
            with session.start_transaction():
                orders.insert_one({"_id": 7}, session=session)
                first = jobs.start(charge.request(7), tx=session)
            with pytest.raises(LookupError), session.start_transaction():
                jobs.start(charge.request(8), tx=session)
                raise LookupError
        assert [job.id for job in jobs.list().jobs] == [first.id]


def test_the_first_use_is_in_a_session_that_has_written(mongo_url: str) -> None:
    """Indexes cannot be made in a transaction, and one that is older than they cannot go on:
    MongoDB ends it at once, and `with_transaction` begins it again."""
    app = Headway(mongo_url, migrate=True)

    @app.job
    def charge(order: int) -> None: ...

    with pymongo.MongoClient(mongo_url) as client, client.start_session() as session:
        orders = client["elsewhere"]["first_orders"]
        orders.drop()

        def place(session: Any) -> None:
            orders.insert_one({"_id": 7}, session=session)
            app.sync.start(charge.request(7), tx=session)

        session.with_transaction(place)
    with app.sync as jobs:
        assert [job.type for job in jobs.list().jobs] == ["charge"]


async def test_a_start_in_the_callers_session_is_told_when_it_commits(
    mongo_url: str, client: Client
) -> None:
    app = Headway(mongo_url, migrate=True)

    @app.job
    async def charge(order: int) -> None: ...

    listener = MongoNotifier(mongo_url)
    await listener.open()
    heard: asyncio.Queue[Notification] = asyncio.Queue()
    await listener.subscribe(heard.put_nowait)
    async with app, client.start_session() as session:
        with pytest.raises(LookupError):
            async with await session.start_transaction():
                await app.start(charge.request(1), tx=session)
                raise LookupError
        async with await session.start_transaction():
            await app.start(charge.request(2), tx=session)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(heard.get(), 0.3)
        notification = await asyncio.wait_for(heard.get(), 10)
    assert isinstance(notification, JobsScheduled)
    assert (notification.queue, notification.type) == ("default", charge.name)
    assert heard.empty()
    await listener.close()


async def test_a_session_needs_a_transaction(store: MongoStore, client: Client) -> None:
    async with client.start_session() as session:
        with pytest.raises(ConfigurationError, match="session without an open transaction"):
            await store.run_in(session, store.insert, [new_job()])
    with pytest.raises(ConfigurationError, match="pass a session of pymongo"):
        await store.run_in(client, store.insert, [new_job()])


async def test_a_conflict_in_the_callers_transaction_is_the_callers(
    store: MongoStore, client: Client
) -> None:
    job = await read(store, await add(store))
    async with client.start_session() as session:
        await session.start_transaction()
        await store.run_in(session, store.get, [job.id])
        await store.run(store.cancel, [job.id], now=at(1))
        with pytest.raises(OperationFailure) as caught:
            await store.run_in(session, store.trigger, [job.id])
            await store.run_in(session, store.complete_without_lease, job.id, None, None)
        assert caught.value.has_error_label("TransientTransactionError")
        await session.abort_transaction()

        async def finish(session: Any) -> None:
            await store.run_in(session, store.retry, [job.id])
            await store.run_in(session, store.complete_without_lease, job.id, '"yes"', None)

        await session.with_transaction(finish)  # pymongo's own way of trying again
    assert (await read(store, job.id)).output == '"yes"'


async def test_of_16_callers_with_one_key_one_creates(mongo_url: str, client: Client) -> None:
    app = Headway(mongo_url, migrate=True)

    @app.job
    async def charge(order: int) -> None: ...

    async def start(number: int) -> tuple[str, bool]:
        async def body(session: Any) -> tuple[str, bool]:
            sequence = await app.start(charge.request(number), tx=session, dedup=Dedup("key"))
            return sequence.id, sequence.deduplicated

        async with client.start_session() as session:
            return await session.with_transaction(body)

    async with app:
        answers = await asyncio.gather(*map(start, range(16)))
        (created,) = [id for id, existed in answers if not existed]
        assert {id for id, _ in answers} == {created}
        assert [job.id for job in (await app.list()).jobs] == [created]


ANSWERS_LOST = {
    "insert": {"closeConnection": True},
    "update": {"closeConnection": True},
    "commitTransaction": {"writeConcernError": {"code": 91, "errmsg": "shutting down"}},
    "aggregate": {"errorCode": 11600},
    "find": {"errorCode": 189},
}


@pytest.mark.parametrize("command", ANSWERS_LOST)
async def test_what_fails_for_a_moment_is_tried_again(
    store: MongoStore, mongo_replica_set: MongoReplicaSet, command: str
) -> None:
    blocker = await running(store)
    await insert(store, *[new_job() for _ in range(3)])
    waiting = new_job(queue="waiting", blockers=(blocker.id,), dedup_key="key")
    with failing(mongo_replica_set, command, **ANSWERS_LOST[command]):
        await insert(store, new_job(), waiting)
        assert len(await claim(store, limit=2, now=at(1))) == 2
        settled = await store.run(
            store.settle, [Complete(blocker.id, blocker.lease.token)], now=at(1)
        )
    assert settled.verdicts[0].ok
    assert await state_of(store, waiting.id) is JobState.PENDING
    assert len(await everything(store)) == 6


async def test_what_was_done_before_the_answer_was_lost_is_known(
    store: MongoStore, mongo_replica_set: MongoReplicaSet
) -> None:
    lost = {"writeConcernError": {"code": 91, "errmsg": "shutting down"}}
    await insert(store, new_job(), new_job())
    with failing(mongo_replica_set, "update", **lost):
        one, two = await claim(store)
    assert {one.lease.version, two.lease.version} == {1}
    changes = [Complete(one.id, one.lease.token), Retry(two.id, two.lease.token, 0.0, ERROR)]
    with failing(mongo_replica_set, "update", **lost):
        settled = await store.run(store.settle, changes, now=at(1))
    assert settled.verdicts == [Verdict.APPLIED] * 2
    assert (await read(store, two.id)).attempts == 1
    with failing(mongo_replica_set, "update", **lost):
        assert await store.run(store.cancel, [two.id], now=at(2)) == [Verdict.APPLIED]


@pytest.mark.parametrize("command", ["insert", "commitTransaction"])
def test_so_it_is_for_blocking_callers(
    mongo_url: str, mongo_replica_set: MongoReplicaSet, command: str
) -> None:
    app = Headway(mongo_url, migrate=True)

    @app.job
    def charge(order: int) -> None: ...

    with app.sync as jobs, failing(mongo_replica_set, command, **ANSWERS_LOST[command]):
        jobs.start_many([charge.request(number) for number in range(3)])
        assert len(jobs.list().jobs) == 3


async def test_a_job_remembers_its_last_attempts(
    store: MongoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.stores.mongodb.settle.KEPT", 10)
    job_id = await add(store, max_attempts=None)
    for number in range(13):
        (job,) = await claim(store, now=at(number))
        failed = Retry(job_id, job.lease.token, 0.0, ERROR)
        await store.run(store.settle, [failed], now=at(number))
    attempts = await attempts_of(store, job_id)
    assert [attempt.version for attempt in attempts] == list(range(4, 14))
    assert (await read(store, job_id)).attempts == 13


async def test_text_is_never_taken_for_an_expression(store: MongoStore) -> None:
    tricky = "$input"
    job = await running(store, input=tricky)
    await claim(store, worker=tricky)
    await store.run(store.settle, [Retry(job.id, job.lease.token, 0.0, "$$ROOT")], now=at(1))
    (job,) = await claim(store, job.queue, worker="$_id", now=at(2))
    await complete(store, job, "$type", now=at(3))
    stored = await read(store, job.id)
    assert (stored.input, stored.output, stored.worker) == (tricky, "$type", "$_id")
    assert stored.last_error == "$$ROOT"
    first, second = [await running(store) for _ in range(2)]
    token = new_token()
    both = [new_job(queue="two"), new_job(queue="two")]
    await insert(store, *both)
    await claim(store, "two", token=token)
    done = [Complete(both[0].id, token, "$state"), Complete(both[1].id, token, "$token")]
    await store.run(store.settle, done, now=at(1))
    assert [(await read(store, job.id)).output for job in both] == ["$state", "$token"]
    await store.run(store.complete_without_lease, first.id, "$$NOW", None, now=at(1))
    await store.run(store.cancel, [second.id], now=at(1))
    await store.run(store.retry, [second.id], input="$queue", now=at(1))
    assert (await read(store, first.id)).output == "$$NOW"
    assert (await read(store, second.id)).input == "$queue"


async def test_the_servers_clock_counts(store: MongoStore) -> None:
    job = NewJob(id=new_job().id, type="work", input="[]")
    (inserted,) = await store.run(store.insert, [job])
    assert abs(time.time() - inserted.run_at.timestamp()) < 60
    (claimed,) = await store.run(store.claim, order())
    assert claimed.lease.until > inserted.run_at
    assert await store.run(store.expired, 10) == []


async def test_a_server_alone_is_refused() -> None:
    with MongoServer(replica_set="") as server:
        store = MongoStore(f"{server.url}/shop")
        for what in (store.open, store.migrate):
            with pytest.raises(ConfigurationError, match=r"is not a replica set.*rs\.initiate"):
                await what()


async def test_collections_are_made_by_migrating(mongo_url: str) -> None:
    store = MongoStore(mongo_url)
    with pytest.raises(SchemaMissing):
        await store.open()
    assert [step.applied_at for step in await store.migration_status()] == [None] * 4
    applied = await asyncio.gather(*[MongoStore(mongo_url).migrate() for _ in range(4)])
    assert sorted(chain.from_iterable(applied)) == [
        "0001_initial",
        "0002_schedules",
        "0003_limits",
        "0004_keys",
    ]
    assert None not in [step.applied_at for step in await store.migration_status()]
    await store.open()
    await store.close()


async def test_an_older_schema_names_the_command(mongo_url: str) -> None:
    store = MongoStore(mongo_url)
    await store.migrate()
    with pymongo.MongoClient[dict[str, Any]](mongo_url) as client:
        client.get_default_database()["headway.migration"].delete_one({"_id": 4})
    with pytest.raises(
        SchemaOutdated, match="is at version 3, this release needs 4; run `headway migrate up`"
    ):
        await store.open()
    assert await store.migrate() == ["0004_keys"]
    await store.open()
    await store.close()


async def test_schemas_live_side_by_side(mongo_url: str) -> None:
    stores = [MongoStore(mongo_url, schema=name) for name in ("shop", "bank")]
    for store in stores:
        await store.migrate()
        await store.open()
    await add(stores[0])
    assert [len(await everything(store)) for store in stores] == [1, 0]
    for store in stores:
        await store.close()


@pytest.mark.usefixtures("dropped_sockets")
async def test_a_server_that_is_not_there(mongo_url: str) -> None:
    secret = "hunter2"
    store = MongoStore(f"mongodb://me:{secret}@127.0.0.1:1/shop?serverSelectionTimeoutMS=200")
    assert store.name == "MongoDB database 'shop' at 127.0.0.1:1"
    started = time.monotonic()
    with pytest.raises(StoreUnreachable, match="is it running and is the DSN right") as caught:
        await store.open()
    assert time.monotonic() - started < 10
    assert secret not in str(caught.value) + repr(store)


@pytest.mark.parametrize("url", ["mongodb://me:a:b@host/x", "mongodb://host:port/x", "mongodb://"])
def test_a_url_that_cannot_be_read(url: str) -> None:
    with pytest.raises(ConfigurationError, match="the MongoDB URL cannot be read"):
        Headway(url)


@pytest.mark.long
@pytest.mark.usefixtures("dropped_sockets")
@pytest.mark.slow
async def test_a_server_that_goes_away_and_comes_back() -> None:
    with MongoReplicaSet() as replica_set:
        store = MongoStore(f"{replica_set.url('shop')}&serverSelectionTimeoutMS=1000")
        await store.migrate()
        await store.open()
        try:
            await add(store)
            store.run_sync(store.counts)
            replica_set.nodes[0].kill()
            started = time.monotonic()
            with pytest.raises(StoreUnreachable, match="is it running"):
                await store.run(store.counts)
            with pytest.raises(StoreUnreachable, match="is it running"):
                store.run_sync(store.counts)
            assert time.monotonic() - started < 20
            replica_set.nodes[0].start()
            (count,) = await store.run(store.counts)
            assert count.count == 1
            assert store.run_sync(store.counts) == [count]
        finally:
            await store.close()


def test_the_driver_is_needed_only_by_those_who_use_it() -> None:
    code = """
import sys
sys.modules["pymongo"] = None
from headway import Headway
from headway.errors import ConfigurationError
Headway("memory://")
try:
    Headway("mongodb://host/shop")
except ConfigurationError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'headway[mongodb]'" in said.stdout
