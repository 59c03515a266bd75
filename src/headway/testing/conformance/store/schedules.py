"""The verbs of schedules: what is put is read back, what is due is handed out and locked."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from headway.domain.due_time import At
from headway.domain.job import JobState, NewJob
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.schedule import (
    KEPT_RUNS,
    ScheduleAdvance,
    ScheduleRecord,
    ScheduleRun,
)
from headway.domain.schedules.timetable import Cron, Every
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases, at
from headway.testing.conformance.store.workers import worker

case = StoreCases("schedules")


class Undo(Exception):
    """Raised to leave a transaction without committing it."""


def full(name: str = "nightly", **fields: Any) -> ScheduleRecord:
    """A schedule whose every field has a value of its own."""
    given: dict[str, Any] = {
        "definition": kit.definition(
            Cron.stored("30 2 * * *", "Europe/Berlin"),
            overlap="queue_one",
            catch_up=CatchUp.all(days=2, at_most=7),
            jitter=2.5,
            type="report.vat",
            input='{"who":["„Bücher“ 𝄞",1e3,null]}',
            queue="reports",
            priority=-3,
            max_attempts=None,
            max_losses=2,
            timeout=0.25,
        ),
        "declaration": "0123abcd",
        "replaced": ("ffff", "eeee"),
        "next_at": at(0.000001),
        "waiting_tick": at(-60.000002),
        "paused_at": at(-1.000003),
        "last_tick": at(-120.000004),
        "last_at": at(-119.000005),
        "last_sequence_id": kit.new_id(),
        "fired": 2**40,
        "skipped": 3,
        "runs": 51,
        "created_at": at(-1000.000006),
        "changed_at": at(-999.000007),
    }
    return ScheduleRecord(name=name, **given | fields)


def run(number: int, **fields: Any) -> ScheduleRun:
    """The run of a tick, one second after another."""
    given: dict[str, Any] = {"tick": at(number), "at": at(number) + MICROSECOND}
    return ScheduleRun(**given | fields)


def advance(name: str = "nightly", **fields: Any) -> ScheduleAdvance:
    """Nothing was started; the next tick is in an hour."""
    given: dict[str, Any] = {
        "next_at": at(3_600),
        "waiting_tick": None,
        "started": None,
        "fired": 0,
        "skipped": 0,
        "first_run": 0,
        "runs": (),
    }
    return ScheduleAdvance(name=name, **given | fields)


async def due(
    store: Store, *declared: str, limit: int = 100, now: datetime = T0, ended: tuple[str, ...] = ()
) -> list[str]:
    """The names of the schedules that are due, in the order of the answer."""
    found = await store.run(store.due_schedules, declared, limit, ended=ended, now=now)
    return [record.name for record in found]


@case
async def a_schedule_is_read_back_as_it_was_put(store: Store) -> None:
    bare = kit.schedule("bare")
    await kit.put(store, full(), bare)
    expected = full(last_sequence_id=(await kit.schedule_of(store)).last_sequence_id)
    assert await store.run(store.schedules, ["bare", "nightly"]) == [bare, expected]
    assert await store.run(store.list_schedules) == [bare, expected]
    assert (await kit.schedule_of(store)).next_at.tzinfo is UTC


@case
async def a_schedule_put_again_is_replaced_in_every_field(store: Store) -> None:
    one, two = full("one"), kit.schedule("two", created_at=full().created_at)
    await kit.put(store, one, two)
    one, two = msgspec.structs.replace(two, name="one"), msgspec.structs.replace(one, name="two")
    await kit.put(store, one)
    assert await kit.schedule_of(store, "one") == one
    await kit.put(store, two)
    assert await store.run(store.schedules, ["one", "two"]) == [one, two]


@case
async def schedules_are_answered_in_the_order_asked_for(store: Store) -> None:
    await kit.put(store, *map(kit.schedule, "abc"))
    for lock in (False, True):
        found = await store.run(store.schedules, ["c", "none", "a", "c"], lock=lock)
        assert [each and each.name for each in found] == ["c", None, "a", "c"]
    assert await store.run(store.schedules, []) == []


@case
async def no_schedules_are_fine(store: Store) -> None:
    assert await store.run(store.list_schedules) == []
    assert await due(store) == []
    assert await kit.runs_of(store, "nightly") == []
    assert await store.run(store.delete_schedules, ["nightly"]) == []


NAMES = [
    "-",
    "/a",
    "10",
    "9",
    "A/b",
    "A0",
    "Z-1",
    "a",
    "a b",
    "a-b",
    "a.b",
    "aB",
    "ab",
    "ä",
    "ﬀ",
    "𝄞",
]
"""By code points; those of other orders are elsewhere."""


@case
async def schedules_are_listed_by_code_points(store: Store) -> None:
    await kit.put(store, *map(kit.schedule, reversed(NAMES)))
    assert [each.name for each in await store.run(store.list_schedules)] == NAMES


@case
async def a_list_goes_on_after_a_name(store: Store) -> None:
    await kit.put(store, *map(kit.schedule, NAMES))
    seen: list[str] = []
    while page := await store.run(store.list_schedules, after=seen[-1] if seen else None, limit=3):
        assert len(page) <= 3
        seen += [each.name for each in page]
    assert seen == NAMES
    # A name that is gone meanwhile is a place in the list, too.
    rest = await store.run(store.list_schedules, after="a,")
    assert [each.name for each in rest] == NAMES[NAMES.index("a-b") :]


@case
async def a_schedule_is_due_when_its_moment_has_come(store: Store) -> None:
    await kit.put(store, kit.schedule(next_at=at(10)))
    assert await due(store, now=at(10) - MICROSECOND) == []
    assert await due(store, now=at(10)) == ["nightly"]
    assert await due(store, now=at(10_000)) == ["nightly"]


@case
async def a_due_schedule_is_handed_out_with_every_field(store: Store) -> None:
    record = full(paused_at=None)
    await kit.put(store, record)
    expected = [msgspec.structs.replace(record)]
    assert await store.run(store.due_schedules, ["nightly"], 9, now=at(1)) == expected


@case
async def due_schedules_come_oldest_first(store: Store) -> None:
    moments = {"c": 3, "a": 1, "d": 4, "b": 2}
    await kit.put(store, *(kit.schedule(name, next_at=at(n)) for name, n in moments.items()))
    assert await due(store, now=at(3)) == ["a", "b", "c"]
    assert await due(store, now=at(9), limit=2) == ["a", "b"]
    assert await due(store, now=at(9), limit=9) == ["a", "b", "c", "d"]


@case
async def a_paused_schedule_is_not_due(store: Store) -> None:
    await kit.put(store, kit.schedule("paused", paused_at=at(-1)), kit.schedule("open"))
    assert await due(store, now=at(5)) == ["open"]


@case
async def a_declared_schedule_is_due_where_it_is_declared(store: Store) -> None:
    await kit.put(
        store,
        kit.schedule("put", next_at=at(-3)),
        kit.schedule("mine", declaration="aa", next_at=at(-2)),
        kit.schedule("theirs", declaration="bb", next_at=at(-1)),
    )
    assert await due(store, "mine", "other") == ["put", "mine"]
    assert await due(store, "theirs", "mine") == ["put", "mine", "theirs"]
    assert await due(store) == ["put"]


@case
async def schedules_of_others_do_not_use_up_the_limit(store: Store) -> None:
    theirs = [kit.schedule(f"theirs-{n}", declaration="bb", next_at=at(-9)) for n in range(5)]
    paused = [kit.schedule(f"paused-{n}", paused_at=T0, next_at=at(-9)) for n in range(5)]
    await kit.put(store, *theirs, *paused, kit.schedule("mine", declaration="aa"))
    assert await due(store, "mine", limit=1) == ["mine"]


@case
async def a_waiting_tick_is_handed_out_when_its_sequence_has_ended(store: Store) -> None:
    def waiting(name: str, **fields: Any) -> ScheduleRecord:
        return kit.schedule(name, **{"next_at": at(60), "waiting_tick": at(-1)} | fields)

    await kit.put(
        store,
        waiting("waits"),
        waiting("waits too", next_at=at(61)),
        waiting("paused", paused_at=T0),
        waiting("theirs", declaration="bb"),
        waiting("mine", declaration="aa", next_at=at(62)),
        kit.schedule("waits for nothing", next_at=at(60)),
        kit.schedule("due"),
        waiting("due and waits", next_at=at(-1)),
    )
    assert await due(store, "mine") == ["due and waits", "due"]
    ended = ("waits", "paused", "theirs", "mine", "waits for nothing", "due", "none")
    assert await due(store, "mine", ended=ended) == ["due and waits", "due", "waits", "mine"]
    both = ("due and waits", "waits", "mine")
    assert await due(store, ended=both) == ["due and waits", "due", "waits"]
    assert await due(store, ended=both, limit=3) == ["due and waits", "due", "waits"]
    assert await due(store, ended=both, limit=2) == ["due and waits", "due"]


@case
async def the_next_schedule_is_known_in_seconds(store: Store) -> None:
    async def seconds(*declared: str, now: datetime = T0) -> float | None:
        return await store.run(store.next_schedule, declared, now=now)

    assert await seconds() is None
    await kit.put(
        store,
        kit.schedule("theirs", declaration="bb", next_at=at(1)),
        kit.schedule("paused", paused_at=T0, next_at=at(2)),
    )
    assert await seconds("mine", "paused") is None
    await kit.put(store, kit.schedule("mine", declaration="aa", next_at=at(2.5)))
    assert await seconds("mine") == 2.5
    assert await seconds() is None
    await kit.put(store, kit.schedule("put", next_at=at(7)))
    assert await seconds() == 7.0
    assert await seconds("mine", "theirs") == 1.0
    assert await seconds("mine", now=at(2.5)) == 0.0
    assert await seconds("mine", now=at(4)) == -1.5


@case
async def a_heartbeat_is_answered_with_the_next_schedule(store: Store) -> None:
    async def beat(schedules: dict[str, str] | None, now: datetime = T0) -> float | None:
        record = worker(schedules=schedules)
        return await store.run(store.save_worker, record, now=now)

    assert await beat({"mine": "aa"}) is None
    await kit.put(
        store,
        kit.schedule("theirs", declaration="bb", next_at=at(1)),
        kit.schedule("paused", paused_at=T0, next_at=at(2)),
    )
    assert await beat({"mine": "aa", "paused": "cc"}) is None
    await kit.put(store, kit.schedule("mine", declaration="aa", next_at=at(2.5)))
    assert await beat({"mine": "another"}) == 2.5
    assert await beat({}) is None
    assert await beat(None) is None
    await kit.put(store, kit.schedule("put", next_at=at(7)))
    assert await beat({}) == 7.0
    assert await beat(None) is None
    assert await beat({}, now=at(9.25)) == -2.25
    assert await beat({"mine": "aa"}, now=at(2.5)) == 0.0


@case
async def an_advance_is_added_to_what_was_counted(store: Store) -> None:
    before = full(fired=5, skipped=7, runs=1, paused_at=None)
    await kit.put(store, before, kit.schedule("other"))
    started = (at(10), at(11.000001), kit.new_id())
    change = advance(
        started=started, fired=2, skipped=3, waiting_tick=at(12.000002), runs=(run(1), run(2))
    )
    await store.run(store.advance_schedules, [change])
    assert await kit.schedule_of(store) == msgspec.structs.replace(
        before,
        next_at=at(3_600),
        waiting_tick=at(12.000002),
        last_tick=started[0],
        last_at=started[1],
        last_sequence_id=started[2],
        fired=7,
        skipped=10,
        runs=3,
    )
    assert await kit.schedule_of(store, "other") == kit.schedule("other")


@case
async def the_last_start_stays_when_an_advance_starts_nothing(store: Store) -> None:
    before = full()
    bare = kit.schedule("bare")
    await kit.put(store, before, bare)
    change = advance(skipped=1, runs=(run(1, skipped="overlap"),))
    await store.run(store.advance_schedules, [change, advance("bare", next_at=at(77))])
    assert await kit.schedule_of(store) == msgspec.structs.replace(
        before, next_at=at(3_600), waiting_tick=None, skipped=4, runs=52
    )
    assert await kit.schedule_of(store, "bare") == msgspec.structs.replace(bare, next_at=at(77))


@case
async def runs_are_kept_newest_first(store: Store) -> None:
    await kit.put(store, kit.schedule("a"), kit.schedule("b"))
    started = run(1, sequence_id=kit.new_id())
    runs = (started, run(2, skipped="missed"), run(3, skipped="overlap"))
    other = run(9, sequence_id=kit.new_id())
    await store.run(store.advance_schedules, [advance("a", runs=runs), advance("b", runs=(other,))])
    assert await kit.runs_of(store, "a") == list(reversed(runs))
    assert await kit.runs_of(store, "b") == [other]
    # Ticks that were fired together, and one that was fired late.
    at_once = tuple(run(n, at=at(50)) for n in (7, 8, 9))
    late = run(5, at=at(60))
    await store.run(store.advance_schedules, [advance("a", first_run=3, runs=(*at_once, late))])
    expected = [late, *reversed(at_once), *reversed(runs)]
    assert await kit.runs_of(store, "a") == expected


@case
async def the_last_runs_of_a_schedule_are_kept(store: Store) -> None:
    await kit.put(store, kit.schedule(), kit.schedule("other"))
    await store.run(store.advance_schedules, [advance("other", runs=(run(0),))])
    written = 0
    for count in (KEPT_RUNS - 1, 1, 1, 7, 2 * KEPT_RUNS + 3):
        runs = tuple(map(run, range(written, written + count)))
        await store.run(store.advance_schedules, [advance(first_run=written, runs=runs)])
        written += count
        kept = [run(n) for n in range(max(written - KEPT_RUNS, 0), written)]
        assert await kit.runs_of(store, "nightly") == kept[::-1]
    assert (await kit.schedule_of(store)).runs == written
    assert await kit.runs_of(store, "other") == [run(0)]


@case
async def a_deleted_schedule_is_gone_with_its_runs(store: Store) -> None:
    await kit.put(store, *map(kit.schedule, "abc"))
    await store.run(
        store.advance_schedules, [advance(name, next_at=T0, runs=(run(1),)) for name in "abc"]
    )
    job = await kit.running_scheduled(store, "a", at(-1))
    gone = await store.run(store.delete_schedules, ["a", "none", "c"])
    assert sorted(gone) == ["a", "c"]
    assert [each.name for each in await store.run(store.list_schedules)] == ["b"]
    assert await store.run(store.schedules, ["a", "b"]) == [None, await kit.schedule_of(store, "b")]
    assert await due(store) == ["b"]
    assert await kit.runs_of(store, "a") == []
    assert await kit.runs_of(store, "b") == [run(1)]
    assert (await kit.read(store, job.id)).schedule == "a"
    assert await store.run(store.delete_schedules, ["a"]) == []
    await kit.put(store, kit.schedule("a"))
    assert await kit.runs_of(store, "a") == []
    assert await kit.schedule_of(store, "a") == kit.schedule("a")


def tick_job(**fields: Any) -> NewJob:
    return kit.new_job(**{"schedule_name": "nightly", "scheduled_for": at(-5)} | fields)


@case
async def the_job_of_a_tick_is_stored_with_every_field(store: Store) -> None:
    job = tick_job(
        type="report.vat",
        input='"„Bücher“"',
        queue="reports",
        priority=7,
        max_attempts=None,
        max_losses=2,
        timeout=0.25,
        schedule=At(at(3.000001)),
        scheduled_for=at(-5.000002),
    )
    bare = tick_job(schedule_name="daily", schedule=At(at(-5)))
    answers = await store.run(store.insert_scheduled, [job, bare], now=T0)
    assert [(each.id, each.run_at, each.deduplicated) for each in answers] == [
        (job.id, at(3.000001), False),
        (bare.id, T0, False),
    ]
    stored = await kit.read(store, job.id)
    plain = msgspec.structs.replace(job, schedule_name=None, scheduled_for=None, id=kit.new_id())
    await kit.insert(store, plain)
    assert stored == msgspec.structs.replace(
        await kit.read(store, plain.id),
        id=job.id,
        sequence_id=job.id,
        root_id=job.id,
        schedule="nightly",
        scheduled_for=at(-5.000002),
    )
    stored = await kit.read(store, bare.id)
    assert (stored.schedule, stored.scheduled_for) == ("daily", at(-5))
    assert (stored.run_at, stored.created_at, stored.max_attempts) == (T0, T0, 20)
    claimed = await kit.claim_one(store, "reports", types=("report.vat",), now=at(4))
    assert (claimed.id, claimed.schedule) == (job.id, "nightly")
    assert claimed.scheduled_for == at(-5.000002)


@case
async def the_job_of_a_tick_is_not_due_before_now(store: Store) -> None:
    past, later = tick_job(schedule=At(at(-3_600))), tick_job(schedule=At(at(60)))
    answers = await store.run(store.insert_scheduled, [past, later, now_job := tick_job()], now=T0)
    assert [answer.run_at for answer in answers] == [T0, at(60), T0]
    assert [job.id for job in await kit.claim(store, now=T0)] == [past.id, now_job.id]
    assert [job.id for job in await kit.claim(store, now=at(60))] == [later.id]


@case
async def the_job_of_a_tick_is_stored_once(store: Store) -> None:
    first = tick_job(input="1")
    await store.run(store.insert_scheduled, [first], now=T0)
    again = msgspec.structs.replace(first, input="2", queue="other")
    new = tick_job()
    answers = await store.run(store.insert_scheduled, [again, new], now=at(1))
    assert [(each.id, each.deduplicated) for each in answers] == [
        (first.id, True),
        (new.id, False),
    ]
    stored = await kit.read(store, first.id)
    assert (stored.input, stored.queue, stored.created_at) == ("1", "default", T0)
    # Whatever became of it.
    await kit.complete(store, await kit.claim_one(store), now=at(2))
    (answer,) = await store.run(store.insert_scheduled, [first], now=at(3))
    assert answer.deduplicated
    assert await kit.state_of(store, first.id) is JobState.COMPLETED


@case
async def of_16_inserts_of_a_tick_one_is_stored(store: Store) -> None:
    jobs = [tick_job(input=str(number)) for number in range(20)]
    answers = await asyncio.gather(
        *[store.run(store.insert_scheduled, jobs, now=T0) for _ in range(16)]
    )
    for number in range(len(jobs)):
        assert sum(not answer[number].deduplicated for answer in answers) == 1
    assert len(await kit.everything(store)) == len(jobs)


@case
async def a_successor_keeps_the_schedule_of_the_first_job(store: Store) -> None:
    job = tick_job()
    await store.run(store.insert_scheduled, [job], now=T0)
    for _ in range(3):
        claimed = await kit.claim_one(store)
        assert (claimed.schedule, claimed.scheduled_for) == ("nightly", at(-5))
        await kit.complete(store, claimed, None, kit.successor_of(claimed))
        claimed = await kit.claim_one(store, now=at(1))
        assert (claimed.schedule, claimed.scheduled_for) == ("nightly", at(-5))
        await kit.complete(store, claimed, None, kit.successor_of(claimed), now=at(1))
        await store.run(store.trigger, [(await kit.last_of(store, job.id)).id], now=at(-1))


async def all_of(store: Store) -> object:
    """All schedules, their runs and the jobs."""
    records = await store.run(store.list_schedules)
    runs = [await kit.runs_of(store, record.name) for record in records]
    return records, runs, await kit.snapshot(store)


async def _change_everything(store: Store, tx: Any) -> None:
    await store.run_in(tx, store.put_schedules, [kit.schedule("new"), full("put")])
    change = advance("advanced", fired=1, first_run=1, runs=(run(2),))
    await store.run_in(tx, store.advance_schedules, [change])
    await store.run_in(tx, store.delete_schedules, ["deleted"])
    await store.run_in(tx, store.insert_scheduled, [tick_job()], now=T0)


async def _before_changes(store: Store) -> None:
    await kit.put(store, *map(kit.schedule, ("put", "advanced", "deleted")))
    changes = [advance(name, next_at=T0, runs=(run(1),)) for name in ("put", "advanced", "deleted")]
    await store.run(store.advance_schedules, changes)


@case.only(kit.has_transactions)
async def a_rollback_undoes_changes_of_schedules(store: Store) -> None:
    await _before_changes(store)
    before = await all_of(store)
    with raises(Undo):
        async with store.begin() as tx:
            await _change_everything(store, tx)
            raise Undo
    assert await all_of(store) == before
    assert sorted(await due(store)) == ["advanced", "deleted", "put"]
    async with store.begin() as tx:
        await _change_everything(store, tx)
    assert [each.name for each in await store.run(store.list_schedules)] == [
        "advanced",
        "new",
        "put",
    ]


@case.only(kit.has_transactions)
async def nobody_sees_changes_of_schedules_before_the_commit(store: Store) -> None:
    await _before_changes(store)
    before = await all_of(store)
    next_before = await store.run(store.next_schedule, [], now=T0)
    async with store.begin() as tx:
        await _change_everything(store, tx)
        assert await all_of(store) == before
        assert await store.run(store.next_schedule, [], now=T0) == next_before
        seen = await store.run_in(tx, store.schedules, ["advanced", "deleted", "new"])
        assert [each and each.fired for each in seen] == [1, None, 0]
        assert await store.run_in(tx, store.schedule_runs, ["advanced"]) == [[run(2), run(1)]]
    assert await all_of(store) != before


async def due_meanwhile(store: Store, **options: Any) -> set[str]:
    """The schedules that are due beside an open transaction. Where that is the only writer, there
    are none: the question waits for its end."""
    return set() if store.capabilities.one_writer else set(await due(store, **options))


@case.only(kit.has_transactions)
async def a_schedule_that_another_transaction_holds_is_left_out(store: Store) -> None:
    await kit.put(
        store, *map(kit.schedule, "abc"), kit.schedule("w", next_at=at(60), waiting_tick=at(-1))
    )
    async with store.begin() as tx:
        await store.run_in(tx, store.schedules, ["b", "w"], lock=True)
        others: set[str] = set() if store.capabilities.one_writer else {"a", "c"}
        assert await due_meanwhile(store, ended=("w",)) == others
    assert sorted(await due(store, ended=("w",))) == ["a", "b", "c", "w"]


@case.only(kit.has_transactions)
async def two_transactions_do_not_get_the_same_schedule(store: Store) -> None:
    names = {f"s{number}" for number in range(10)}
    await kit.put(store, *map(kit.schedule, names))
    async with store.begin() as tx:
        first = await store.run_in(tx, store.due_schedules, [], 6, now=T0)
        assert len(first) == 6
        others = names - {record.name for record in first}
        assert await due_meanwhile(store) == (set() if store.capabilities.one_writer else others)
    assert set(await due(store)) == names


@case.only(kit.has_transactions)
async def an_advanced_schedule_is_due_at_its_next_moment(store: Store) -> None:
    await kit.put(store, kit.schedule())
    async with store.begin() as tx:
        await store.run_in(tx, store.due_schedules, [], 1, now=T0)
        await store.run_in(tx, store.advance_schedules, [advance()])
        assert await due_meanwhile(store) == set()
    assert await due(store) == []
    assert await due(store, now=at(3_600)) == ["nightly"]


@case.only(kit.has_transactions)
async def of_8_transactions_each_gets_schedules_of_its_own(store: Store) -> None:
    names = [f"s{number}" for number in range(40)]
    await kit.put(store, *map(kit.schedule, names))

    async def take() -> list[str]:
        taken: list[str] = []
        for _ in range(3):
            async with store.begin() as tx:
                found = await store.run_in(tx, store.due_schedules, [], 5, now=T0)
                await asyncio.sleep(0)
                if found:
                    changes = [advance(record.name) for record in found]
                    await store.run_in(tx, store.advance_schedules, changes)
                taken += [record.name for record in found]
        return taken

    taken = [name for names in await asyncio.gather(*[take() for _ in range(8)]) for name in names]
    assert len(taken) == len(set(taken))
    assert sorted([*taken, *await due(store)]) == sorted(names)


@case.only(kit.has_transactions)
async def a_locked_schedule_is_changed_by_one_after_the_other(store: Store) -> None:
    await kit.put(store, kit.schedule(fired=0))

    async def count() -> None:
        async with store.begin() as tx:
            (record,) = await store.run_in(tx, store.schedules, ["nightly"], lock=True)
            assert record is not None
            changed = msgspec.structs.replace(record, fired=record.fired + 1)
            await store.run_in(tx, store.put_schedules, [changed])

    await asyncio.gather(*[count() for _ in range(8)])
    assert (await kit.schedule_of(store)).fired == 8


@case
async def a_definition_is_the_same_after_it_was_stored(store: Store) -> None:
    odd = timedelta(days=365, microseconds=1)
    anchor = datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    records = [
        kit.schedule("a", definition=kit.definition(Every(odd, anchor=anchor))),
        kit.schedule(
            "b", definition=kit.definition(Cron.stored("@weekly", "UTC"), catch_up=CatchUp.none())
        ),
        kit.schedule("c", definition=kit.definition(catch_up=CatchUp.latest(odd), jitter=1e-6)),
    ]
    await kit.put(store, *records)
    stored = await store.run(store.list_schedules)
    assert stored == records
    assert [each.definition.fingerprint for each in stored] == [
        each.definition.fingerprint for each in records
    ]
