"""The promises of providers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from headway.app import Headway
from headway.domain.job import JobState
from headway.domain.request import Dedup
from headway.domain.retry import Fixed
from headway.domain.schedule import After
from headway.errors import ConfigurationError
from headway.jobs.job import Job
from headway.testing.conformance.provider.fixture import Bench, Subject

Check = Callable[[Bench], None]

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


class Case(msgspec.Struct, frozen=True):
    """One promise. `function` raises if it is broken."""

    name: str
    function: Check
    fits: Callable[[Subject], bool]


CASES: list[Case] = []


def _case(fits: Callable[[Subject], bool] = lambda _: True) -> Callable[[Check], Check]:
    def declare(function: Check) -> Check:
        CASES.append(Case(getattr(function, "__name__", repr(function)), function, fits))
        return function

    return declare


def _nests(subject: Subject) -> bool:
    return subject.savepoint is not None


def _is_awaited(subject: Subject) -> bool:
    return subject.awaited


def _has_unsafe(subject: Subject) -> bool:
    return subject.unsafe is not None


@_case()
def a_commit_makes_the_job_visible_and_wakes(bench: Bench) -> None:
    bench.quiet()
    with bench.transaction() as tx:
        id = bench.start(bench.kept.request(), tx)
        assert bench.sleeper.sleeps_on(), "somebody was woken before the commit"
        assert bench.job(id) is None, "the job was seen before the commit"
    assert bench.sleeper.is_woken(), "the commit woke nobody"
    assert bench.is_pending(id)


@_case()
def a_rollback_leaves_nothing_and_wakes_nobody(bench: Bench) -> None:
    bench.quiet()
    with bench.rolled_back(bench.transaction()) as tx:
        id = bench.start(bench.undone.request(), tx)
    assert bench.sleeper.sleeps_on(), "somebody was woken for what was rolled back"
    assert bench.job(id) is None


@_case()
def the_users_writes_share_its_fate(bench: Bench) -> None:
    with bench.transaction() as tx:
        bench.execute(tx, "create table orders (id integer)")
    with bench.rolled_back(bench.transaction()) as tx:
        bench.execute(tx, "insert into orders values (1)")
        bench.start(bench.undone.request(), tx)
    with bench.transaction() as tx:
        bench.execute(tx, "insert into orders values (2)")
        id = bench.start(bench.kept.request(), tx)
        bench.execute(tx, "insert into orders values (3)")
    with bench.transaction() as tx:
        assert bench.execute(tx, "select id from orders order by id") == [(2,), (3,)]
    assert bench.is_pending(id)


@_case(_nests)
def a_savepoint_rolled_back_takes_only_its_own(bench: Bench) -> None:
    bench.quiet()
    with bench.transaction() as tx:
        before = bench.start(bench.kept.request("before"), tx)
        with bench.rolled_back(bench.savepoint(tx)):
            inner = bench.start(bench.undone.request(), tx)
        after = bench.start(bench.kept.request("after"), tx)
    assert bench.sleeper.is_woken(), "the commit woke nobody"
    assert bench.is_pending(before)
    assert bench.is_pending(after)
    assert bench.job(inner) is None
    bench.quiet()
    assert not bench.sleeper.was_told_of("undone")


@_case(_nests)
def a_released_savepoint_waits_for_the_transaction(bench: Bench) -> None:
    bench.quiet()
    with bench.transaction() as tx:
        with bench.savepoint(tx):
            with bench.savepoint(tx):
                innermost = bench.start(bench.kept.request("innermost"), tx)
            inner = bench.start(bench.kept.request("inner"), tx)
        assert bench.sleeper.sleeps_on(), "somebody was woken by a savepoint"
        assert bench.job(inner) is None
    assert bench.sleeper.is_woken(), "the commit woke nobody"
    assert bench.is_pending(inner)
    assert bench.is_pending(innermost)


@_case(_nests)
def a_released_savepoint_is_undone_with_what_is_around_it(bench: Bench) -> None:
    with bench.transaction() as tx, bench.rolled_back(bench.savepoint(tx)), bench.savepoint(tx):
        inner = bench.start(bench.undone.request(), tx)
    with bench.rolled_back(bench.transaction()) as tx, bench.savepoint(tx):
        other = bench.start(bench.undone.request(), tx)
    bench.quiet()
    assert not bench.sleeper.was_told_of("undone")
    assert bench.job(inner) is None
    assert bench.job(other) is None


@_case()
def the_connection_is_left_as_it_was_found(bench: Bench) -> None:
    with bench.transaction() as tx:
        bench.execute(tx, "select 1")
        before = bench.look(tx)
        id = bench.start(bench.kept.request(), tx)
        for _ in range(6):  # psycopg prepares what is executed for the sixth time
            bench.start(bench.kept.request(), tx)
        bench.do("start_many", [bench.kept.request(text) for text in ODD], tx=tx)
        bench.do("cancel", id, tx=tx)
        after = bench.look(tx)
        assert after == before, f"{before!r} has become {after!r}"
        assert bench.execute(tx, "select 1") == [(1,)]


@_case()
def every_text_arrives_as_it_was(bench: Bench) -> None:
    with bench.transaction() as tx:
        started = bench.do("start_many", [bench.kept.request(text) for text in ODD], tx=tx)
    jobs = [bench.job(each.id) for each in started]
    texts = [msgspec.json.decode(job.input)["text"] for job in jobs if job is not None]
    assert texts == ODD


@_case()
def every_verb_works_in_the_transaction(bench: Bench) -> None:
    later = After(hours=1)
    with bench.transaction() as tx:
        first = bench.start(bench.kept.request(), tx, dedup=Dedup("once"), schedule=later)
        twin = bench.do("start", bench.kept.request(), tx=tx, dedup=Dedup("once"))
        assert twin.deduplicated
        assert twin.id == first
        assert bench.do("get", first, tx=tx).state is JobState.PENDING
        assert bench.do("current", first, tx=tx).id == first
        bench.do("trigger", first, tx=tx)
        second, third = bench.do("start_many", [bench.kept.request()] * 2, tx=tx)
        bench.do("cancel", second, tx=tx)
        bench.do("retry", second, tx=tx)
        assert bench.do("delete_sequences", [third.id], tx=tx) == [third.id]
    job = bench.job(first)
    assert job is not None
    assert job.run_at - job.created_at < timedelta(hours=1)
    assert bench.is_pending(second.id)
    assert bench.job(third.id) is None


@_case(_has_unsafe)
def a_connection_that_cannot_be_rolled_back_is_refused(bench: Bench) -> None:
    unsafe = bench.subject.unsafe
    assert unsafe is not None
    with bench.entered(unsafe()) as tx:
        try:
            id = bench.start(bench.undone.request(), tx)
        except ConfigurationError:
            return
    raise AssertionError(f"job {id} was started without a transaction")


@_case(_is_awaited)
def a_handlers_writes_are_committed_with_its_completion(bench: Bench) -> None:
    subject = bench.subject
    transactions: Any = subject.transaction
    app = Headway(subject.url, transactions=transactions, providers=subject.providers)

    @app.job(retry=Fixed(0))
    async def place(job: Job, number: int) -> str:
        async with job.prepare() as tx:
            await _execute(subject, tx, "select 1")
        tx = await job.complete()
        await _execute(subject, tx, f"insert into placed values ({number}, {job.attempt})")
        await app.start(bench.kept.request(f"attempt {job.attempt}"), tx=tx)
        if job.attempt == 1:
            raise ConnectionError("the first time it does not work")
        return "placed"

    with bench.transaction() as tx:
        bench.execute(tx, "create table placed (number integer, attempt integer)")

    async def work() -> str:
        async with app:
            sequence = await app.start(place.request(7))
            await app.worker().run(drain=True)
            return await sequence.result(timeout=5)

    assert bench.wait_for(work()) == "placed"
    with bench.transaction() as tx:
        assert bench.execute(tx, "select number, attempt from placed") == [(7, 2)]


async def _execute(subject: Subject, tx: Any, sql: str) -> None:
    await subject.execute(tx, sql)
