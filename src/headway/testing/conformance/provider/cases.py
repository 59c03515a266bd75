"""The promises of providers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from headway.app import Headway
from headway.domain.due_time import After
from headway.domain.job import JobState
from headway.domain.request import Dedup
from headway.domain.retry import Fixed
from headway.domain.schedules.timetable import Every
from headway.errors import ConfigurationError
from headway.jobs.job import Job
from headway.testing.conformance.case import Cases
from headway.testing.conformance.provider.fixture import ProviderFixture, Subject

ODD = [
    "it's",
    'a "quote"',
    "back\\slash",
    "100 % of %s and %(1)s",
    "$1 ?1 :one",
    "{a,b}",
    "",
    "null",
    "two\nlines",
    "żółć 🙂",
]


case = Cases[ProviderFixture, [Subject]]()


def _nests(subject: Subject) -> bool:
    return subject.savepoint is not None


def _is_awaited(subject: Subject) -> bool:
    return subject.awaited


def _has_unsafe(subject: Subject) -> bool:
    return subject.unsafe is not None


@case
def a_commit_makes_the_job_visible_and_wakes(fixture: ProviderFixture) -> None:
    fixture.quiet()
    with fixture.transaction() as tx:
        id = fixture.start(fixture.kept.request(), tx)
        assert fixture.idle_worker.sleeps_on(), "somebody was woken before the commit"
        assert fixture.job(id) is None, "the job was seen before the commit"
    assert fixture.idle_worker.is_woken(), "the commit woke nobody"
    assert fixture.is_pending(id)


@case
def a_rollback_leaves_nothing_and_wakes_nobody(fixture: ProviderFixture) -> None:
    fixture.quiet()
    with fixture.rolled_back(fixture.transaction()) as tx:
        id = fixture.start(fixture.undone.request(), tx)
    assert fixture.idle_worker.sleeps_on(), "somebody was woken for what was rolled back"
    assert fixture.job(id) is None


@case
def the_users_writes_share_its_fate(fixture: ProviderFixture) -> None:
    with fixture.transaction() as tx:
        fixture.execute(tx, "create table orders (id integer)")
    with fixture.rolled_back(fixture.transaction()) as tx:
        fixture.execute(tx, "insert into orders values (1)")
        fixture.start(fixture.undone.request(), tx)
    with fixture.transaction() as tx:
        fixture.execute(tx, "insert into orders values (2)")
        id = fixture.start(fixture.kept.request(), tx)
        fixture.execute(tx, "insert into orders values (3)")
    with fixture.transaction() as tx:
        assert fixture.execute(tx, "select id from orders order by id") == [(2,), (3,)]
    assert fixture.is_pending(id)


@case
def a_schedule_shares_the_fate_of_the_transaction(fixture: ProviderFixture) -> None:
    name, do = "hourly", fixture.do_schedules
    with fixture.rolled_back(fixture.transaction()) as tx:
        do("put", name, Every(hours=1), fixture.undone.request(), tx=tx)
        assert do("get", name, tx=tx).type == "undone"
    assert fixture.schedule(name) is None
    with fixture.transaction() as tx:
        do("put", name, Every(hours=1), fixture.kept.request("it's"), jitter=5, tx=tx)
        assert fixture.schedule(name) is None, "the schedule was seen before the commit"
    put = fixture.schedule(name)
    assert put is not None
    assert (put.type, put.timetable) == ("kept", Every(hours=1))
    with fixture.transaction() as tx:
        do("pause", name, tx=tx)
        do("resume", name, tx=tx)
        started = do("trigger", name, tx=tx)
        since = put.next_at - timedelta(hours=3)
        (tick, _) = do("backfill", name, since, put.next_at - timedelta(hours=1), at_most=2, tx=tx)
        assert [run.sequence_id for run in do("runs", name, tx=tx)] == [started.id]
        assert [each.name for each in do("list", tx=tx)] == [name]
        assert fixture.job(started.id) is None, "the job was seen before the commit"
    assert fixture.is_pending(started.id)
    assert fixture.is_pending(tick.id)
    with fixture.rolled_back(fixture.transaction()) as tx:
        do("delete", name, tx=tx)
    assert fixture.schedule(name) is not None
    with fixture.transaction() as tx:
        do("delete", name, tx=tx)
    assert fixture.schedule(name) is None


@case.only(_nests)
def a_savepoint_rolled_back_takes_only_its_own(fixture: ProviderFixture) -> None:
    fixture.quiet()
    with fixture.transaction() as tx:
        before = fixture.start(fixture.kept.request("before"), tx)
        with fixture.rolled_back(fixture.savepoint(tx)):
            inner = fixture.start(fixture.undone.request(), tx)
        after = fixture.start(fixture.kept.request("after"), tx)
    assert fixture.idle_worker.is_woken(), "the commit woke nobody"
    assert fixture.is_pending(before)
    assert fixture.is_pending(after)
    assert fixture.job(inner) is None
    fixture.quiet()
    assert not fixture.idle_worker.was_told_of("undone")


@case.only(_nests)
def a_released_savepoint_waits_for_the_transaction(fixture: ProviderFixture) -> None:
    fixture.quiet()
    with fixture.transaction() as tx:
        with fixture.savepoint(tx):
            with fixture.savepoint(tx):
                innermost = fixture.start(fixture.kept.request("innermost"), tx)
            inner = fixture.start(fixture.kept.request("inner"), tx)
        assert fixture.idle_worker.sleeps_on(), "somebody was woken by a savepoint"
        assert fixture.job(inner) is None
    assert fixture.idle_worker.is_woken(), "the commit woke nobody"
    assert fixture.is_pending(inner)
    assert fixture.is_pending(innermost)


@case.only(_nests)
def a_released_savepoint_is_undone_with_what_is_around_it(fixture: ProviderFixture) -> None:
    with (
        fixture.transaction() as tx,
        fixture.rolled_back(fixture.savepoint(tx)),
        fixture.savepoint(tx),
    ):
        inner = fixture.start(fixture.undone.request(), tx)
    with fixture.rolled_back(fixture.transaction()) as tx, fixture.savepoint(tx):
        other = fixture.start(fixture.undone.request(), tx)
    fixture.quiet()
    assert not fixture.idle_worker.was_told_of("undone")
    assert fixture.job(inner) is None
    assert fixture.job(other) is None


@case
def the_connection_is_left_as_it_was_found(fixture: ProviderFixture) -> None:
    with fixture.transaction() as tx:
        fixture.execute(tx, "select 1")
        before = fixture.look(tx)
        id = fixture.start(fixture.kept.request(), tx)
        for _ in range(6):  # psycopg prepares what is executed for the sixth time
            fixture.start(fixture.kept.request(), tx)
        fixture.do("start_many", [fixture.kept.request(text) for text in ODD], tx=tx)
        fixture.do("cancel", id, tx=tx)
        after = fixture.look(tx)
        assert after == before, f"{before!r} has become {after!r}"
        assert fixture.execute(tx, "select 1") == [(1,)]


@case
def every_text_arrives_as_it_was(fixture: ProviderFixture) -> None:
    with fixture.transaction() as tx:
        started = fixture.do("start_many", [fixture.kept.request(text) for text in ODD], tx=tx)
    jobs = [fixture.job(each.id) for each in started]
    texts = [msgspec.json.decode(job.input)["text"] for job in jobs if job is not None]
    assert texts == ODD


@case
def every_verb_works_in_the_transaction(fixture: ProviderFixture) -> None:
    later = After(hours=1)
    with fixture.transaction() as tx:
        first = fixture.start(fixture.kept.request(), tx, dedup=Dedup("once"), schedule=later)
        twin = fixture.do("start", fixture.kept.request(), tx=tx, dedup=Dedup("once"))
        assert twin.deduplicated
        assert twin.id == first
        assert fixture.do("get", first, tx=tx).state is JobState.PENDING
        assert fixture.do("current", first, tx=tx).id == first
        fixture.do("trigger", first, tx=tx)
        second, third = fixture.do("start_many", [fixture.kept.request()] * 2, tx=tx)
        fixture.do("cancel", second, tx=tx)
        fixture.do("retry", second, tx=tx)
        assert fixture.do("delete_sequences", [third.id], tx=tx) == [third.id]
    job = fixture.job(first)
    assert job is not None
    assert job.run_at - job.created_at < timedelta(hours=1)
    assert fixture.is_pending(second.id)
    assert fixture.job(third.id) is None


@case.only(_has_unsafe)
def a_connection_that_cannot_be_rolled_back_is_refused(fixture: ProviderFixture) -> None:
    unsafe = fixture.subject.unsafe
    assert unsafe is not None
    with fixture.entered(unsafe()) as tx:
        try:
            id = fixture.start(fixture.undone.request(), tx)
        except ConfigurationError:
            return
    raise AssertionError(f"job {id} was started without a transaction")


@case.only(_is_awaited)
def a_handlers_writes_are_committed_with_its_completion(fixture: ProviderFixture) -> None:
    subject = fixture.subject
    transactions: Any = subject.transaction
    app = Headway(subject.url, transactions=transactions, providers=subject.providers)

    @app.job(retry=Fixed(0))
    async def place(job: Job, number: int) -> str:
        async with job.prepare() as tx:
            await _execute(subject, tx, "select 1")
        tx = await job.complete()
        await _execute(subject, tx, f"insert into placed values ({number}, {job.attempt})")
        await app.start(fixture.kept.request(f"attempt {job.attempt}"), tx=tx)
        if job.attempt == 1:
            raise ConnectionError("the first time it does not work")
        return "placed"

    with fixture.transaction() as tx:
        fixture.execute(tx, "create table placed (number integer, attempt integer)")

    async def work() -> str:
        async with app:
            sequence = await app.start(place.request(7))
            await app.worker().run(drain=True)
            return await sequence.result(timeout=5)

    assert fixture.wait_for(work()) == "placed"
    with fixture.transaction() as tx:
        assert fixture.execute(tx, "select number, attempt from placed") == [(7, 2)]


async def _execute(subject: Subject, tx: Any, sql: str) -> None:
    await subject.execute(tx, sql)
