"""The same verbs without an event loop."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway import Dedup, Headway, JobState, SyncClient
from headway.domain.events import JobCreated, SequenceCreated
from headway.domain.failure import encode_failure
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Complete, Fail
from headway.errors import (
    InvalidPayload,
    InvalidRequest,
    JobNotFound,
    ResultFailed,
    ResultTimeout,
    SequencesNeeded,
    StoreClosed,
    WrongState,
)
from headway.jobs.ids import new_id
from headway.ports.notifications import JobsScheduled, OwnershipLost, SequenceEnded
from headway.records import Failure
from tests.support.shop import Receipt, Shop


@pytest.fixture(params=["memory", "sqlite"])
def shop(request: pytest.FixtureRequest, sqlite_path: Path) -> Iterator[Shop]:
    shop = Shop("memory://" if request.param == "memory" else f"sqlite:///{sqlite_path}")
    yield shop
    shop.app.sync.close()


@pytest.fixture
def client(shop: Shop) -> SyncClient:
    return shop.app.sync


def claim(client: SyncClient) -> list[Any]:
    store = client._store
    order = ClaimOrder(
        worker="tester",
        token=new_id(),
        lease_for=30,
        queues=(QueueShare("default", 9), QueueShare("money", 9)),
        types=("charge", "ship", "place"),
        limit=9,
    )
    return store.run_sync(store.claim, order)


def work(client: SyncClient, output: str | None) -> None:
    done = [Complete(job.id, job.lease.token, output) for job in claim(client)]
    client._store.run_sync(client._store.settle, done)


def test_start_and_read(shop: Shop, client: SyncClient):
    sequence = client.start(shop.charge.request(1), dedup=Dedup("1"))
    assert client.start(shop.charge.request(2), dedup=Dedup("1")).deduplicated
    job = client.get(sequence)
    assert sequence.get() == job == client.current(sequence)
    assert shop.ear.heard == [JobsScheduled("money", "charge", 1, job.run_at)]
    assert [type(event) for event in shop.events] == [SequenceCreated, JobCreated]
    assert [found.id for found in client.list(type="charge").jobs] == [sequence.id]
    assert [count.count for count in client.counts()] == [1]
    assert client.attempts(sequence) == []
    assert client.workers() == []
    client.pause("money")
    assert claim(client) == []
    client.resume("money")
    assert [queue.name for queue in client.queues()] == ["money"]
    assert len(claim(client)) == 1


def test_blockers_and_many(shop: Shop, client: SyncClient):
    charging = client.start_many([shop.charge.request(n) for n in range(3)])
    shipping = client.start(shop.ship.request(1).using(blockers=(charging[0],)))
    assert shipping.get().state is JobState.BLOCKED
    work(client, '{"number":4}')
    assert shipping.get().state is JobState.PENDING
    assert charging[0].result() == Receipt(4)
    assert client.wait(client.sequence(charging[1].id, shop.charge)) == Receipt(4)
    with pytest.raises(SequencesNeeded):
        client.delete_sequences(charging)
    assert len(client.delete_sequences(charging, cascade=True)) == 4
    assert client.start_many([]) == []


def test_waiting(shop: Shop, client: SyncClient):
    sequence = client.start(shop.charge.request(1))
    with pytest.raises(ResultTimeout):
        sequence.result(timeout=0.02)
    with pytest.raises(JobNotFound):
        client.sequence(new_id()).result()
    finisher = threading.Thread(target=work, args=(client, '{"number":2}'))
    finisher.start()
    assert sequence.result(timeout=60) == Receipt(2)
    finisher.join()


def test_retrying_and_cancelling(shop: Shop, client: SyncClient):
    sequence = client.start(shop.charge.request(1))
    (job,) = claim(client)
    failure = encode_failure(Failure("ValueError", "no"))
    client._store.run_sync(client._store.settle, [Fail(job.id, job.lease.token, failure)])
    with pytest.raises(ResultFailed, match="ValueError: no"):
        sequence.result()
    client.retry(sequence, input={"order_id": 3})
    assert sequence.get().input == '{"order_id":3}'
    client.trigger(sequence)
    client.cancel(sequence)
    with pytest.raises(WrongState):
        client.trigger(sequence)
    assert sequence.get().state is JobState.CANCELLED


def test_refusals_write_nothing(shop: Shop, client: SyncClient):
    start: Any = client.start
    with pytest.raises(InvalidRequest, match="declares 1 blockers"):
        start(shop.ship.request(1))
    with pytest.raises(InvalidRequest, match="can only continue a sequence"):
        start(shop.confirm.request(1))
    assert client.list().jobs == []


def test_completing_without_a_transaction_is_a_step_at_a_time(shop: Shop, client: SyncClient):
    sequence = client.start(shop.place.request(1))
    claim(client)
    shop.ear.heard.clear()
    with client.complete_sequence(sequence.id, shop.place) as completion:
        completion.continue_with(shop.confirm.request(2))
        assert completion.job.type == "confirm"
        assert shop.ear.heard[-1] == OwnershipLost(sequence.id, "already_completed", "tester")
        stale = client.complete_sequence(sequence)
        completion.complete(Receipt(7))
    assert shop.ear.heard[-1] == SequenceEnded(sequence.id)
    assert sequence.result() == Receipt(7)
    with pytest.raises(WrongState, match="cannot be completed again"):
        stale.complete(Receipt(8))
    with pytest.raises(WrongState):
        client.complete_sequence(sequence)
    assert sequence.result() == Receipt(7)


def test_completing_is_refused_when_the_sequence_has_moved(shop: Shop, client: SyncClient):
    sequence = client.start(shop.place.request(1))
    stale = client.complete_sequence(sequence)
    client.complete_sequence(sequence).continue_with(shop.confirm.request(2))
    with pytest.raises(InvalidRequest, match="has gone on to job"):
        stale.complete(Receipt(1))
    wrong: Any = "seven"
    with pytest.raises(InvalidPayload):
        client.complete_sequence(sequence).complete(wrong)


def test_the_users_own_connection(sqlite_path: Path):
    shop = Shop(f"sqlite:///{sqlite_path}")
    with shop.app.sync as client:
        connection = sqlite3.connect(sqlite_path)
        client.start(shop.charge.request(1), tx=connection)
        connection.rollback()
        assert client.list().jobs == []
        sequence = client.start(shop.charge.request(1), tx=connection)
        connection.commit()
        with client.complete_sequence(sequence, tx=connection) as completion:
            completion.complete(Receipt(3))
        connection.rollback()
        assert client.get(sequence).state is JobState.PENDING
        with client.complete_sequence(sequence, tx=connection) as completion:
            completion.complete(Receipt(3))
        connection.commit()
        connection.close()
        assert sequence.result() == Receipt(3)


def test_it_opens_when_asked_for_and_closes_when_told(sqlite_path: Path):
    app = Headway(f"sqlite:///{sqlite_path}")
    before = threading.active_count()
    client = app.sync
    assert app.sync is client
    assert client.list().jobs == []
    client.close()
    client.close()
    assert threading.active_count() == before
    with pytest.raises(StoreClosed):
        client.list()
    with app.sync as again:
        assert again.list().jobs == []
    assert threading.active_count() == before


def test_an_app_that_cannot_be_opened_leaves_nothing_behind(tmp_path: Path):
    app = Headway(f"sqlite:///{tmp_path}/missing/file.db")
    before = threading.active_count()
    with pytest.raises(Exception, match="cannot use SQLite file"):
        _ = app.sync
    assert threading.active_count() == before


async def test_both_at_once_on_one_memory_store():
    shop = Shop("memory://")
    async with shop.app as app:
        with app.sync as client:
            sequence = client.start(shop.charge.request(1))
            assert (await app.get(sequence)).id == sequence.id
        assert (await app.get(sequence)).id == sequence.id


def test_a_record_names_its_job_and_its_sequence(shop: Shop, client: SyncClient) -> None:
    blocker = client.start(shop.charge.request(1))
    sequence = client.start(shop.ship.request(1).using(blockers=(blocker,)))
    record = client.get(sequence)
    assert client.get(record) == client.current(record) == record
    assert [job.id for job in client.blockers(record)] == [blocker.id]
    assert client.attempts(record) == []
    assert client.progress(record) is None
    client.cancel(record)
    client.retry([record])
    with client.complete_sequence(client.get(blocker), shop.charge) as completion:
        completion.continue_with(shop.confirm.request(2))
    last = client.current(blocker)
    assert client.sequence(last).id == blocker.id
    assert {job.id for job in client.list(sequence=last).jobs} == {blocker.id, last.id}
    gone = client.delete_sequences(client.get(blocker), cascade=True)
    assert set(gone) == {blocker.id, last.id, sequence.id}
