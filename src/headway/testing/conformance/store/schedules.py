"""The verbs of schedules: what is put is read back, what is due is handed out and locked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from headway.domain.job import NewJob
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.schedule import (
    KEPT_RUNS,
    ScheduleAdvance,
    ScheduleRecord,
    ScheduleRun,
)
from headway.domain.schedules.timetable import Cron, Every
from headway.ports.store import Store
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


def tick_job(**fields: Any) -> NewJob:
    return kit.new_job(**{"schedule_name": "nightly", "scheduled_for": at(-5)} | fields)


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
