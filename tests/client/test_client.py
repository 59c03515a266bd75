"""The client's verbs, on every store."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headway import After, At, Dedup, Every, Headway, JobState
from headway.domain.events import (
    JobCompleted,
    JobCreated,
    JobUnblocked,
    SequenceCompleted,
    SequenceCreated,
)
from headway.domain.failure import encode_failure
from headway.domain.views import ShownState
from headway.errors import (
    DuplicateJob,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    InvalidRequest,
    JobNotFound,
    ResultCancelled,
    ResultFailed,
    ResultTimeout,
    ScheduleNotFound,
    SequencesNeeded,
    StoreClosed,
    WrongState,
)
from headway.jobs.ids import new_id
from headway.notifiers.none import NoNotifier
from headway.ports.notifications import ANY_TYPE, JobsScheduled, OwnershipLost, SequenceEnded
from headway.records import Failure
from tests.support.shop import Receipt, Shop

BLOCKED, PENDING, RUNNING = JobState.BLOCKED, JobState.PENDING, JobState.RUNNING
COMPLETED, FAILED, CANCELLED = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED


async def states(app: Headway) -> dict[str, JobState]:
    return {job.type: job.state for job in (await app.list()).jobs}


# Starting


async def test_start_stores_a_job_and_tells_of_it(shop: Shop):
    sequence = await shop.app.start(shop.charge.request(7, cents=9))
    job = await shop.app.get(sequence)
    assert (job.id, job.type, job.queue, job.state) == (sequence.id, "charge", "money", PENDING)
    assert job.input == '{"order_id":7,"cents":9}'
    assert (job.sequence_id, job.root_id, job.origin_id) == (job.id, job.id, None)
    assert not sequence.deduplicated
    assert shop.ear.heard == [JobsScheduled("money", "charge", 1, job.run_at)]
    assert shop.events == [
        SequenceCreated(job.id, "charge", "money"),
        JobCreated(job.id, "charge", "money", job.id),
    ]


async def test_options_of_a_start(shop: Shop):
    moment = datetime.now(UTC) + timedelta(hours=1)
    given = UUID(int=5)
    sequence = await shop.app.start(
        shop.charge.request(7),
        schedule=At(moment),
        queue="slow",
        priority=3,
        max_attempts=None,
        max_losses=1,
        timeout=2.5,
        id=given,
    )
    job = await shop.app.get(given)
    assert job.id == sequence.id == str(given)
    assert (job.queue, job.priority, job.max_attempts) == ("slow", 3, None)
    assert (job.max_losses, job.timeout, job.run_at) == (1, 2.5, moment)
    assert shop.ear.heard == [JobsScheduled("slow", "charge", 1, moment)]


async def test_start_many_is_announced_once_per_queue_and_type(shop: Shop):
    requests = [shop.charge.request(n).using(schedule=After(seconds=n)) for n in range(50)]
    sequences = await shop.app.start_many([*requests, shop.place.request(1)])
    assert len({sequence.id for sequence in sequences}) == 51
    first = await shop.app.get(sequences[0])
    charged, placed = shop.ear.heard
    assert charged == JobsScheduled("money", "charge", 50, first.run_at)
    assert isinstance(placed, JobsScheduled)
    assert (placed.type, placed.count) == ("place", 1)
    assert await shop.app.start_many([]) == []


async def test_blockers_are_started_with_the_job(shop: Shop):
    existing = await shop.app.start(shop.charge.request(1))
    shipping = await shop.app.start(shop.ship.request(1).using(blockers=(shop.charge.request(2),)))
    other = await shop.app.start(shop.ship.request(2).using(blockers=(existing,)), queue="money")
    job = await shipping.get()
    (blocker_id,) = job.blockers
    blocker = await shop.app.get(blocker_id)
    assert (job.state, blocker.state, blocker.root_id) == (BLOCKED, PENDING, shipping.id)
    assert (await other.get()).blockers == (existing.id,)
    assert JobsScheduled("default", "ship", 1) not in shop.ear.heard
    assert await shop.work('{"number":1}') == 2
    assert (await shipping.get()).state is (await other.get()).state is PENDING


async def test_nothing_is_written_when_a_request_is_refused(shop: Shop):
    start: Any = shop.app.start
    taken = await shop.app.start(shop.charge.request(1))
    shop.ear.heard.clear()
    with pytest.raises(InvalidRequest, match="'ship' declares 1 blockers and was given 0"):
        await start(shop.ship.request(1))
    with pytest.raises(InvalidRequest, match="'confirm' can only continue a sequence"):
        await start(shop.confirm.request(1))
    with pytest.raises(InvalidRequest, match="start takes a request"):
        await start("charge", queue="x")
    with pytest.raises(InvalidOption, match="there is no option 'colour'"):
        await start(shop.charge.request(1), colour="red")
    with pytest.raises(DuplicateJob, match=f"a job with id {taken.id} exists already"):
        await shop.app.start_many(
            [shop.charge.request(2), shop.charge.request(3).using(id=taken.id)]
        )
    absent = shop.app.sequence(new_id(), shop.charge)
    with pytest.raises(JobNotFound, match=f"there is no job {absent.id}"):
        await shop.app.start(shop.ship.request(1).using(blockers=(absent,)))
    assert len((await shop.app.list()).jobs) == 1
    assert shop.ear.heard == []


async def test_deduplication_hands_out_the_sequence_that_exists(shop: Shop):
    request = shop.ship.request(1).using(dedup=Dedup("order-1"))
    first = await shop.app.start(request.using(blockers=(shop.charge.request(1),)))
    shop.ear.heard.clear()
    shop.events.clear()
    second = await shop.app.start(request.using(blockers=(shop.charge.request(2),)))
    assert (second.id, second.deduplicated, first.deduplicated) == (first.id, True, False)
    assert len((await shop.app.list()).jobs) == 2
    assert shop.ear.heard == []
    assert shop.events == []


async def test_an_idempotency_key_outlives_completion(shop: Shop):
    first = await shop.app.start(shop.charge.request(1), idempotency_key="1")
    await shop.work('{"number":1}')
    again, other = await shop.app.start_many(
        [
            shop.charge.request(2).using(idempotency_key="1"),
            shop.charge.request(2).using(dedup=Dedup("1")),
        ]
    )
    assert (again.id, again.deduplicated) == (first.id, True)
    assert not other.deduplicated
    assert await again.result() == Receipt(1)


# In the caller's transaction


async def test_a_rolled_back_start_never_happened(shop: Shop):
    async def start_and_fail() -> None:
        async with shop.app.store.begin() as tx:
            sequence = await shop.app.start(shop.charge.request(1), tx=tx)
            assert (await shop.app.get(sequence, tx=tx)).type == "charge"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await start_and_fail()
    assert (await shop.app.list()).jobs == []
    assert shop.ear.heard == []
    assert shop.events == []


async def test_a_committed_start_is_told_after_the_commit_if_that_can_be_seen(shop: Shop):
    async with shop.app.store.begin() as tx:
        sequence = await shop.app.start(shop.charge.request(1), tx=tx)
        assert shop.ear.heard == []
        assert shop.events == []
    assert (await shop.app.get(sequence)).state is PENDING
    if shop.app.store.name.startswith("memory"):
        assert len(shop.ear.heard) == 1
        assert [type(event) for event in shop.events] == [SequenceCreated, JobCreated]


async def test_a_connection_of_the_users_own(shop: Shop, sqlite_path: Path):
    if not shop.app.store.name.startswith("SQLite"):
        return  # tests of the other stores' connections are theirs
    connection = sqlite3.connect(sqlite_path)
    connection.execute("create table orders (id integer)")
    with connection:
        connection.execute("insert into orders values (7)")
        sequence = await shop.app.start(shop.charge.request(7), tx=connection)
    connection.close()
    assert (await shop.app.get(sequence)).state is PENDING


# Reading


async def test_get_and_attempts(shop: Shop):
    absent = new_id()
    with pytest.raises(JobNotFound, match="it never existed, was deleted, or was pruned"):
        await shop.app.get(absent)
    sequence = await shop.app.start(shop.charge.request(1))
    assert await shop.app.attempts(sequence) == []
    await shop.fail(encode_failure(Failure("ValueError", "no")))
    (attempt,) = await shop.app.attempts(sequence.id)
    assert attempt.outcome == "failed"


async def test_list_filters_and_pages(shop: Shop):
    sequences = await shop.app.start_many([shop.charge.request(n) for n in range(5)])
    await shop.app.start(shop.place.request(1))
    newest_first = [sequence.id for sequence in reversed(sequences)]
    found: list[str] = []
    cursor = None
    while True:
        page = await shop.app.list(type=shop.charge, cursor=cursor, limit=2)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == newest_first
    assert len((await shop.app.list(state="pending", queue=["money", "other"])).jobs) == 5
    assert (await shop.app.list(state=[FAILED, "completed"])).jobs == []
    assert len((await shop.app.list(type=["charge", shop.place])).jobs) == 6
    assert [j.id for j in (await shop.app.list(sequence=sequences[0])).jobs] == [sequences[0].id]
    later = (await shop.app.start(shop.charge.request(9), schedule=After(hours=1))).id
    assert [job.id for job in (await shop.app.list(state="scheduled")).jobs] == [later]
    assert len((await shop.app.list(state="pending")).jobs) == 7, "scheduled ones are pending too"
    assert len((await shop.app.list(state=["scheduled", "pending"])).jobs) == 7
    both = await shop.app.list(state=[ShownState.SCHEDULED, FAILED])
    assert [job.id for job in both.jobs] == [later]
    with pytest.raises(InvalidOption, match="there is no state 'done'; there are blocked, sched"):
        await shop.app.list(state="done")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="a page holds 1 to 1000 jobs, not 0"):
        await shop.app.list(limit=0)


async def test_list_by_schedule(shop: Shop):
    for name in ("vat", "stock"):
        await shop.app.schedules.put(name, Every(hours=1), shop.charge.request(1))
    vat, stock = [await shop.app.schedules.trigger(name) for name in ("vat", "stock")]
    await shop.app.start(shop.charge.request(1))
    assert [job.id for job in (await shop.app.list(schedule="vat")).jobs] == [vat.id]
    both = await shop.app.list(schedule="stock", state="pending", type=shop.charge)
    assert [job.id for job in both.jobs] == [stock.id]
    assert (await shop.app.list(schedule="nothing")).jobs == []
    with pytest.raises(InvalidName, match="a schedule must be a string, not After"):
        await shop.app.list(schedule=After(hours=1))  # type: ignore[arg-type]


async def test_counts_queues_and_workers(shop: Shop):
    await shop.app.start_many([shop.charge.request(n) for n in range(3)])
    (count,) = await shop.app.counts()
    assert (count.queue, count.type, count.state, count.count) == ("money", "charge", PENDING, 3)
    await shop.app.pause("money")
    (queue,) = await shop.app.queues()
    assert queue.name == "money"
    assert queue.paused_at is not None
    assert await shop.claim() == []
    await shop.app.resume("money")
    assert len(await shop.claim()) == 3
    assert await shop.app.workers() == []


# Changing


async def test_retry_gives_a_dead_letter_another_chance_with_another_input(shop: Shop):
    app = shop.app
    sequence, other = await app.start_many([shop.charge.request(1), shop.charge.request(2)])
    with pytest.raises(WrongState, match="only failed and cancelled jobs can be retried"):
        await app.retry(sequence)
    await shop.fail(encode_failure(Failure("ValueError", "no")))
    shop.ear.heard.clear()

    with pytest.raises(InvalidPayload, match="at order_id: expected int, got str"):
        await app.retry(sequence, input={"order_id": "x"})
    with pytest.raises(InvalidRequest, match="it cannot be given the input of a 'place'"):
        await app.retry(sequence, input=shop.place.request(1))
    assert (await sequence.get()).state is FAILED
    assert shop.ear.heard == []

    await app.retry(sequence, input={"order_id": 8})
    job = await sequence.get()
    assert (job.state, job.attempts, job.input) == (PENDING, 0, '{"order_id":8}')
    assert shop.ear.heard == [JobsScheduled("money", "charge", 1)]
    await app.retry([other.id], input=shop.charge.request(9))
    assert (await other.get()).input == '{"order_id":9}'
    assert len(await app.attempts(sequence)) == 1


async def test_retry_is_all_or_none(shop: Shop):
    failed = await shop.app.start(shop.charge.request(1))
    await shop.fail("{}")
    fine = await shop.app.start(shop.charge.request(2))
    with pytest.raises(WrongState, match=f"job {fine.id} is pending; only failed"):
        await shop.app.retry([failed, fine])
    with pytest.raises(JobNotFound):
        await shop.app.retry([failed.id, new_id()])
    assert (await failed.get()).state is FAILED


async def test_cancel_ends_sequences_and_tells_who_runs_them(shop: Shop):
    running = await shop.app.start(shop.charge.request(1))
    (claimed,) = await shop.claim()
    waiting = await shop.app.start(shop.charge.request(2))
    shop.ear.heard.clear()
    await shop.app.cancel([running, waiting])
    assert shop.ear.heard == [
        JobsScheduled("money", ANY_TYPE, 1, claimed.run_at),
        OwnershipLost(running.id, "cancelled", "tester"),
        SequenceEnded(running.id),
        SequenceEnded(waiting.id),
    ]
    await shop.app.cancel(running)  # it is
    with pytest.raises(ResultCancelled, match=f"sequence {running.id} was cancelled"):
        await running.result()
    done = await shop.app.start(shop.charge.request(3))
    await shop.work(None)
    with pytest.raises(WrongState, match="a job that has ended cannot be cancelled"):
        await shop.app.cancel(done)


async def test_trigger_runs_scheduled_jobs_now_all_or_none(shop: Shop):
    later = [shop.charge.request(n).using(schedule=After(days=1)) for n in range(2)]
    sequences = await shop.app.start_many(later)
    blocked = await shop.app.start(shop.ship.request(1).using(blockers=(sequences[0],)))
    with pytest.raises(WrongState, match="is blocked; only pending jobs can be triggered"):
        await shop.app.trigger([*sequences, blocked])
    assert await shop.claim() == []
    shop.ear.heard.clear()
    await shop.app.trigger(sequences)
    assert shop.ear.heard == [JobsScheduled("money", "charge", 2)]
    assert len(await shop.claim()) == 2


async def test_deleting_takes_the_whole_tree_and_refuses_while_others_wait(shop: Shop):
    app = shop.app
    shipping = await app.start(shop.ship.request(1).using(blockers=(shop.charge.request(1),)))
    (blocker_id,) = (await shipping.get()).blockers
    blocker = app.sequence(blocker_id, shop.charge)
    other = await app.start(shop.ship.request(2).using(blockers=(blocker,)))
    await shop.claim()

    with pytest.raises(InvalidRequest, match=f"delete {shipping.id} to delete all that belongs"):
        await app.delete_sequences(blocker)
    with pytest.raises(SequencesNeeded, match=other.id) as raised:
        await app.delete_sequences(shipping)
    assert raised.value.dependents == (other.id,)
    with pytest.raises(JobNotFound):
        await app.delete_sequences([new_id(), shipping])

    shop.ear.heard.clear()
    gone = await app.delete_sequences([shipping, other])
    assert set(gone) == {shipping.id, blocker_id, other.id}
    assert OwnershipLost(blocker_id, "not_found", "tester") in shop.ear.heard
    assert SequenceEnded(shipping.id) in shop.ear.heard
    assert (await app.list()).jobs == []


async def test_deleting_cascades_on_request(shop: Shop):
    charging = await shop.app.start(shop.charge.request(1))
    shipping = await shop.app.start(shop.ship.request(1).using(blockers=(charging,)))
    assert set(await shop.app.delete_sequences(charging, cascade=True)) == {
        charging.id,
        shipping.id,
    }


async def test_a_record_names_its_job_and_its_sequence(shop: Shop):
    app = shop.app
    blocker = await app.start(shop.charge.request(1))
    sequence = await app.start(shop.ship.request(1).using(blockers=(blocker,)))
    record = await app.get(sequence)
    assert await app.get(record) == await app.current(record) == record
    assert [job.id for job in await app.blockers(record)] == [blocker.id]
    assert await app.attempts(record) == []
    assert await app.progress(record) is None
    await app.cancel(record)
    await app.retry([record, sequence.id])
    await app.trigger(await app.get(blocker))
    async with app.complete_sequence(await app.get(blocker), shop.charge) as completion:
        await completion.continue_with(shop.confirm.request(2))
    last = await app.current(blocker)
    assert (last.position, last.id) != (0, blocker.id)
    assert app.sequence(last).id == blocker.id
    assert {job.id for job in (await app.list(sequence=last)).jobs} == {blocker.id, last.id}
    assert {job.id for job in (await app.list(root=last)).jobs} >= {blocker.id, last.id}
    async with app.complete_sequence(last) as completion:
        await completion.complete(Receipt(5))
    assert await app.sequence(last, shop.charge).result() == Receipt(5)
    gone = await app.delete_sequences(await app.get(blocker), cascade=True)
    assert set(gone) == {blocker.id, last.id, sequence.id}


# Without a worker


async def test_completing_from_outside(shop: Shop):
    app = shop.app
    sequence = await app.start(shop.charge.request(1))
    dependent = await app.start(shop.ship.request(1).using(blockers=(sequence,)))
    (claimed,) = await shop.claim()
    shop.ear.heard.clear()
    shop.events.clear()
    async with app.complete_sequence(sequence) as completion:
        assert completion.job.state is RUNNING
        await completion.complete(Receipt(5))
        assert shop.ear.heard == []
    job = await sequence.get()
    assert (job.state, job.output, job.worker) == (COMPLETED, '{"number":5}', None)
    assert await sequence.result() == Receipt(5)
    freed = await dependent.get()
    assert freed.state is PENDING
    assert shop.ear.heard == [
        JobsScheduled("money", ANY_TYPE, 1, claimed.run_at),
        JobsScheduled("default", "ship", 1, freed.run_at),
        OwnershipLost(claimed.id, "already_completed", "tester"),
        SequenceEnded(sequence.id),
    ]
    assert shop.events == [
        JobCompleted(claimed.id, "charge", "money", claimed.id, None, 1, None),
        SequenceCompleted(claimed.id, "charge", "money", None),
        JobUnblocked(dependent.id, "ship", "default"),
    ]

    with pytest.raises(WrongState, match="its sequence has ended and cannot be completed again"):
        async with app.complete_sequence(sequence.id):
            pytest.fail("not reached")


async def test_completing_in_several_steps(shop: Shop):
    app = shop.app
    sequence = await app.start(shop.place.request(1))
    async with app.complete_sequence(sequence.id, shop.place) as completion:
        await completion.continue_with(
            shop.confirm_blocked.request(2).using(blockers=(shop.charge.request(1),))
        )
        assert (completion.job.type, completion.job.state) == ("confirm_blocked", BLOCKED)
        await completion.continue_with(shop.confirm.request(3))
    job = await sequence.get()
    assert (job.type, job.position, job.origin_id is not None) == ("confirm", 2, True)
    assert await states(app) == {
        "place": COMPLETED,
        "confirm_blocked": COMPLETED,
        "confirm": PENDING,
        "charge": PENDING,
    }
    created = [event.type for event in shop.events if isinstance(event, JobCreated)]
    assert created == ["place", "charge", "confirm_blocked", "confirm"]
    async with app.complete_sequence(sequence) as completion:
        await completion.complete(Receipt(1))
        with pytest.raises(WrongState, match="it was completed just now"):
            await completion.complete(Receipt(2))
    assert await sequence.result() == Receipt(1)


async def test_only_looking_changes_nothing(shop: Shop):
    sequence = await shop.app.start(shop.charge.request(1))
    before = await sequence.get()
    async with shop.app.complete_sequence(sequence) as completion:
        assert completion.job == before
    assert await sequence.get() == before


async def test_completing_checks_types(shop: Shop):
    sequence = await shop.app.start(shop.charge.request(1))
    with pytest.raises(InvalidRequest, match="is at a job of type 'charge', not 'place'"):
        async with shop.app.complete_sequence(sequence.id, shop.place):
            pytest.fail("not reached")
    wrong: Any = {"number": "five"}
    with pytest.raises(InvalidPayload, match="at number: expected int, got str"):
        async with shop.app.complete_sequence(sequence) as completion:
            await completion.complete(wrong)
    with pytest.raises(JobNotFound):
        async with shop.app.complete_sequence(new_id()):
            pytest.fail("not reached")
    assert (await sequence.get()).state is PENDING


async def test_an_error_while_completing_rolls_everything_back(shop: Shop):
    sequence = await shop.app.start(shop.place.request(1))
    shop.ear.heard.clear()

    async def complete_and_fail() -> None:
        async with shop.app.complete_sequence(sequence) as completion:
            await completion.continue_with(shop.confirm.request(3))
            await completion.complete(Receipt(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await complete_and_fail()
    assert await states(shop.app) == {"place": PENDING}
    assert shop.ear.heard == []


async def test_completing_in_the_callers_transaction(shop: Shop):
    sequence = await shop.app.start(shop.charge.request(1))

    async def complete_and_fail() -> None:
        async with shop.app.store.begin() as tx:
            async with shop.app.complete_sequence(sequence, tx=tx) as completion:
                await completion.complete(Receipt(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await complete_and_fail()
    assert (await sequence.get()).state is PENDING
    async with (
        shop.app.store.begin() as tx,
        shop.app.complete_sequence(sequence, tx=tx) as completion,
    ):
        await completion.complete(Receipt(1))
    assert (await sequence.get()).state is COMPLETED


# Waiting


async def test_a_result_that_is_there_is_given_at_once(shop: Shop):
    sequence = await shop.app.start(shop.charge.request(1))
    await shop.work('{"number":3}')
    assert await sequence.result(timeout=0) == Receipt(3)
    assert await shop.app.sequence(sequence.id, shop.charge).result() == Receipt(3)
    assert await shop.app.sequence(sequence.id).result() == {"number": 3}
    assert await shop.app.wait(sequence) == Receipt(3)


async def test_a_waiter_is_woken_by_a_notification(shop: Shop):
    shop.app._poll_every = 60
    sequence = await shop.app.start(shop.charge.request(1))
    waiting = asyncio.create_task(sequence.result(timeout=60))
    await shop.ear.listening.wait()
    async with shop.app.complete_sequence(sequence) as completion:
        await completion.complete(Receipt(4))
    assert await waiting == Receipt(4)
    assert not len(shop.ear._subscribers)


async def test_waiting_without_notifications_looks_again(sqlite_path: Path):
    app = Headway(f"sqlite:///{sqlite_path}", notifier=NoNotifier())
    shop = Shop(f"sqlite:///{sqlite_path}")

    async with app, shop.app:
        sequence = await app.start(shop.charge.request(1))
        waiting = asyncio.create_task(sequence.result(timeout=60))
        await shop.work('{"number":3}')
        assert await waiting == Receipt(3)


async def test_waiting_ends_with_the_reason(shop: Shop):
    app = shop.app
    with pytest.raises(JobNotFound):
        await app.sequence(new_id()).result(timeout=1)
    sequence = await app.start(shop.charge.request(1))
    with pytest.raises(ResultTimeout, match=r"is still pending after 0\.01 seconds") as late:
        await sequence.result(timeout=0.01)
    assert isinstance(late.value, TimeoutError)
    with pytest.raises(InvalidOption, match="a timeout must be 0 seconds or more"):
        await sequence.result(timeout=-1)
    await shop.fail(encode_failure(Failure("ValueError", "no money", "Traceback…")))
    with pytest.raises(ResultFailed, match=r"\(charge\): ValueError: no money") as failed:
        await sequence.result()
    assert failed.value.failure.traceback == "Traceback…"
    assert (failed.value.job_id, failed.value.type) == (sequence.id, "charge")


async def test_waiting_notices_that_a_sequence_is_deleted(shop: Shop):
    sequence = await shop.app.start(shop.charge.request(1))
    waiting = asyncio.create_task(sequence.result(timeout=60))
    await shop.ear.listening.wait()
    await shop.app.delete_sequences(sequence)
    with pytest.raises(JobNotFound):
        await waiting


# Trouble


async def test_a_broken_notifier_harms_nobody_and_is_logged_once(
    sqlite_path: Path, caplog: pytest.LogCaptureFixture
):
    class Broken(NoNotifier):
        async def publish(self, notifications: Any) -> None:
            raise ConnectionError("gone")

        async def subscribe(self, *args: Any, **kwargs: Any) -> Any:
            raise ConnectionError("gone")

    shop = Shop("memory://")
    app = Headway(shop.app.store, notifier=Broken())
    async with app:
        with caplog.at_level(logging.WARNING, logger="headway"):
            await app.start(shop.charge.request(1))
            sequence = await app.start(shop.charge.request(1))
        assert [record.message for record in caplog.records] == [
            "notifications cannot be published; workers find jobs by polling meanwhile"
        ]
        await shop.work('{"number":3}')
        assert await sequence.result(timeout=60) == Receipt(3)


async def test_an_observer_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture):
    class Rude:
        def observe(self, event: Any) -> None:
            raise ValueError("no")

    shop = Shop("memory://")
    async with Headway(shop.app.store, observers=[Rude()]) as app:
        assert (await app.start(shop.charge.request(1))).id


async def test_a_closed_store_says_so():
    shop = Shop("memory://")
    with pytest.raises(StoreClosed, match=r"open it before use, .*: `async with app:`"):
        await shop.app.start(shop.charge.request(1))


async def test_a_name_that_this_code_declares_cannot_be_put() -> None:
    """Also before a worker has stored the declaration, which could not be stored any more."""
    app = Headway("memory://")

    @app.job(schedule=Every(hours=1))
    async def beat() -> None: ...

    async with app:
        with pytest.raises(InvalidRequest, match="schedule 'beat' is declared in code"):
            await app.schedules.put("beat", Every(hours=2), beat.request())
        with pytest.raises(InvalidRequest, match="schedule 'beat' is declared in code"):
            app.sync.schedules.put("beat", Every(hours=2), beat.request())
        assert await app.schedules.list() == []
        app.sync.close()


async def test_wrong_names_and_limits_of_schedules_are_refused() -> None:
    app = Headway("memory://")

    @app.job
    async def beat() -> None: ...

    async with app:
        await app.schedules.put("beat", Every(hours=1), beat.request())
        assert await app.schedules.runs("beat") == []
        with pytest.raises(ScheduleNotFound):
            await app.schedules.runs("beta")
        with pytest.raises(InvalidRequest, match="a schedule name must be a string, not int"):
            await app.schedules.list(after=5)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="limit"):
            await app.schedules.list(limit="5")  # type: ignore[arg-type]
