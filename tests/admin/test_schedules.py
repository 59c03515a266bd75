"""What operators are told of schedules and what they do with them, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from headway import Cron, Every, JobState
from headway.domain.events import JobCreated
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule_views import (
    Backfill,
    RunOutcome,
    ScheduleChange,
    ScheduleExplanation,
    ScheduleOrigin,
    ScheduleReason,
    ScheduleState,
)
from headway.domain.settlement import Complete
from headway.domain.views import AuditRecord, JobAction, Reason
from headway.errors import InvalidName, InvalidOption, InvalidRequest, ScheduleNotFound
from headway.jobs.ids import new_id
from headway.ports.notifications import JobsScheduled, SchedulesChanged
from headway.schedules.declaration import declare
from headway.schedules.firing import fire
from headway.testing.clock import ManualClock
from tests.support.shop import Shop

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NAME = "tenants/7:sync"
"""A name that no path of an address could hold."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def shop(store_url: str, clock: ManualClock) -> AsyncIterator[Shop]:
    shop = Shop(store_url, migrate=True, clock=clock)
    async with shop.app:
        yield shop


async def beat(
    shop: Shop, id: str = "anna:1", schedules: dict[str, str] | None = None, **fields: object
) -> WorkerRecord:
    """A worker that lives now."""
    now = shop.app.clock.now()
    given = {
        "host": "anna",
        "pid": 1,
        "queues": ("default", "money"),
        "types": tuple(shop.app.registry.handlers()),
        "concurrency": 2,
        "running": 0,
        "started_at": now,
        "seen_at": now,
    }
    worker = WorkerRecord(id=id, schedules=schedules, **given | fields)  # type: ignore[arg-type]
    await shop.app.store.run(shop.app.store.save_worker, worker, now=now)
    return worker


async def put(shop: Shop, name: str = NAME, **options: object) -> None:
    request = shop.charge.request(7)
    await shop.app.schedules.put(name, Every(hours=1), request, **options)  # type: ignore[arg-type]


async def declared(shop: Shop) -> WorkerRecord:
    """A schedule that a living worker declares."""
    shop.app.schedule("nightly", Cron("30 2 * * *", tz="Europe/Berlin"), shop.charge.request(1))
    definitions = shop.app.registry.schedules()
    fingerprints = {name: each.fingerprint for name, each in definitions.items()}
    worker = await beat(shop, schedules=fingerprints)
    store = shop.app.store
    assert not await store.run(declare, store, worker, definitions, now=shop.app.clock.now())
    return worker


async def fired(shop: Shop, *names: str) -> None:
    """As a worker does it that declares these schedules."""
    store = shop.app.store
    await store.run(fire, store, names, now=shop.app.clock.now())


async def completed(shop: Shop) -> None:
    """All jobs that are due now."""
    store, now = shop.app.store, shop.app.clock.now()
    order = ClaimOrder(
        worker="anna:1",
        token=new_id(),
        lease_for=30,
        queues=(QueueShare("money", 100),),
        types=("charge",),
        limit=100,
    )
    jobs = await store.run(store.claim, order, now=now)
    done = [Complete(job.id, job.lease.token, None) for job in jobs]
    assert done
    await store.run(store.settle, done, now=now)


async def why(shop: Shop, name: str = NAME) -> ScheduleExplanation:
    said = await shop.app.questions.explain_schedule(name)
    detail = await shop.app.questions.schedule(name)
    assert (said.name, detail.explanation) == (name, said)
    return said


async def notes(shop: Shop) -> list[AuditRecord]:
    return (await shop.app.questions.audit()).records


async def test_a_page_of_schedules(shop: Shop, clock: ManualClock) -> None:
    await declared(shop)
    await put(shop)
    await put(shop, "weekly/report")
    clock.advance(by=HOUR)
    await fired(shop)
    page = await shop.app.questions.schedules()
    assert [each.name for each in page.schedules] == ["nightly", NAME, "weekly/report"]
    assert page.cursor is None
    nightly, tenant, _ = page.schedules
    assert (nightly.timetable, nightly.last) == ("30 2 * * * Europe/Berlin", None)
    assert (await shop.app.questions.schedule("nightly")).tz == "Europe/Berlin"
    assert (tenant.timetable, tenant.type, tenant.queue) == ("every 1 h", "charge", "money")
    assert (tenant.state, tenant.origin) == (ScheduleState.ACTIVE, ScheduleOrigin.PUT)
    assert (tenant.next_at, tenant.fired, tenant.skipped) == (NOON + 2 * HOUR, 1, 0)
    assert tenant.last is not None
    assert (tenant.last.tick, tenant.last.outcome) == (NOON + HOUR, RunOutcome.PENDING)
    await completed(shop)
    (found,) = (await shop.app.questions.schedules(search="TENANT mon")).schedules
    assert found.last is not None
    assert (found.name, found.last.outcome) == (NAME, RunOutcome.COMPLETED)


async def test_pages_are_bounded_and_complete(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.admin.schedule_details.SEARCHED", 4)
    monkeypatch.setattr("headway.admin.schedule_details.MAX_PAGE", 2)
    for number in range(9):
        await put(shop, f"s{number}")
    await shop.app.schedules.pause("s8")
    questions = shop.app.questions

    async def pages(**asked: object) -> list[list[str]]:
        found: list[list[str]] = []
        cursor: str | None = None
        while True:
            page = await questions.schedules(cursor=cursor, **asked)  # type: ignore[arg-type]
            found.append([each.name for each in page.schedules])
            cursor = page.cursor
            if cursor is None:
                return found

    names = [f"s{number}" for number in range(9)]
    assert await pages(limit=3) == [names[:3], names[3:6], names[6:]]
    assert await pages(limit=9) == [names]
    assert await pages(limit=9, runs=1) == [names[n : n + 2] for n in range(0, 9, 2)]
    assert await pages(search="8") == [[], [], ["s8"]]
    assert await pages(state=ScheduleState.PAUSED, limit=1) == [[], [], ["s8"]]
    assert await pages(search="s", limit=2) == [names[n : n + 2] for n in range(0, 9, 2)]
    with pytest.raises(InvalidOption):
        await questions.schedules(limit=0)
    with pytest.raises(InvalidName):
        await questions.schedules(cursor="\0")


async def test_details(shop: Shop, clock: ManualClock) -> None:
    await beat(shop, "anna:1", schedules={})
    await beat(shop, "bert:1", schedules=None)
    await put(shop, overlap="skip", jitter=30)
    for _ in range(2):
        clock.advance(by=HOUR)
        await fired(shop)  # the second tick is skipped: the job of the first one has not ended
    clock.advance(60)
    triggered = await shop.app.schedules.trigger(NAME)
    await beat(shop, "anna:1", schedules={})
    await beat(shop, "bert:1", schedules=None)
    detail = await shop.app.questions.schedule(NAME)
    assert (detail.overlap, detail.catch_up, detail.jitter) == ("skip", "latest within 1 h", 30)
    assert (detail.job.type, detail.job.input) == ("charge", shop.charge.request(7).input)
    assert detail.next_ticks == [NOON + n * HOUR for n in range(3, 8)]
    assert (detail.tz, detail.workers) == (None, ["anna:1"])
    hand, second, first = detail.runs
    assert (hand.sequence_id, hand.triggered, hand.tick) == (triggered.id, True, clock.now())
    assert (second.outcome, second.skipped) == (RunOutcome.SKIPPED, "overlap")
    assert (second.tick, second.sequence_id) == (NOON + 2 * HOUR, None)
    assert (first.outcome, first.triggered) == (RunOutcome.PENDING, False)
    assert (first.tick, first.skipped) == (NOON + HOUR, None)
    assert first.sequence_id == first.job_id
    assert detail.schedule.last == first  # for overlap: it had not ended when the other began


async def test_a_strip_of_the_last_runs(shop: Shop, clock: ManualClock) -> None:
    await put(shop, overlap="allow")
    for _ in range(35):
        clock.advance(by=HOUR)
        await fired(shop)
    detail = await shop.app.questions.schedule(NAME)
    newest = clock.now()
    assert [run.tick for run in detail.runs] == [newest - n * HOUR for n in range(30)]
    ids = [run.sequence_id for run in detail.runs if run.sequence_id is not None]
    await shop.app.cancel(ids[0])
    await shop.app.actions("anna").act(JobAction.DELETE, ids[:1])
    await shop.app.cancel(ids[1])
    detail = await shop.app.questions.schedule(NAME)
    assert [run.outcome for run in detail.runs[:3]] == [
        RunOutcome.GONE,
        RunOutcome.CANCELLED,
        RunOutcome.PENDING,
    ]
    await put(shop, "other")
    other, listed = (await shop.app.questions.schedules(runs=12)).schedules
    assert (listed.runs, other.runs) == (detail.runs[:12], [])
    assert [each.runs for each in (await shop.app.questions.schedules()).schedules] == [None] * 2


async def test_a_schedule_that_does_not_exist(shop: Shop) -> None:
    questions, operator = shop.app.questions, shop.app.actions("anna")
    for attempt in (
        questions.schedule("nightly"),
        questions.explain_schedule("nightly"),
        questions.plan_backfill("nightly", NOON - HOUR),
        operator.pause_schedule("nightly"),
        operator.resume_schedule("nightly"),
        operator.trigger_schedule("nightly"),
        operator.backfill_schedule("nightly", NOON - HOUR),
        operator.delete_schedule("nightly"),
    ):
        with pytest.raises(ScheduleNotFound):
            await attempt
    with pytest.raises(InvalidName):
        await operator.pause_schedule("two words")
    assert await notes(shop) == []


async def test_why_a_schedule_will_tick(shop: Shop, clock: ManualClock) -> None:
    await beat(shop, schedules={})
    await put(shop)
    said = await why(shop)
    assert said.reason is ScheduleReason.SCHEDULED
    assert said.sentence == "scheduled, next tick in 1 h at 2030-06-01 13:00:00 UTC"
    clock.advance(by=HOUR)
    await beat(shop, schedules={})
    assert (await why(shop)).sentence == "due, and about to be fired"


async def test_why_paused(shop: Shop, clock: ManualClock) -> None:
    await declared(shop)
    await shop.app.schedules.pause("nightly")
    said = await why(shop, "nightly")
    assert said.reason is ScheduleReason.PAUSED
    assert said.sentence == "paused since 2030-06-01 12:00:00 UTC"
    clock.advance(by=HOUR)
    assert (await why(shop, "nightly")).sentence == "paused since 2030-06-01 12:00:00 UTC"
    await beat(shop, "bert:1", schedules={})
    said = await why(shop, "nightly")
    assert said.reason is ScheduleReason.PAUSED
    assert said.sentence == (
        "paused since 2030-06-01 12:00:00 UTC, and orphaned: no living worker declares it; the "
        "last one that declared it, anna:1, was seen 1 h ago"
    )


async def test_why_orphaned(shop: Shop, clock: ManualClock) -> None:
    await declared(shop)
    assert (await why(shop, "nightly")).reason is ScheduleReason.SCHEDULED
    clock.advance(60)
    await beat(shop, "bert:1", schedules={})
    said = await why(shop, "nightly")
    assert said.reason is ScheduleReason.ORPHANED
    assert said.sentence == (
        "orphaned: no living worker declares it; the last one that declared it, anna:1, was seen "
        "1 m ago"
    )
    (row,) = (await shop.app.questions.schedules(state=ScheduleState.ORPHANED)).schedules
    assert (row.name, row.origin, row.next_at) == ("nightly", ScheduleOrigin.ORPHANED, None)


async def test_why_nobody_fires(shop: Shop, clock: ManualClock) -> None:
    await put(shop)
    said = await why(shop)
    assert said.reason is ScheduleReason.NO_WORKER
    assert said.sentence == (
        "not fired: there is no living worker; its next tick is at 2030-06-01 13:00:00 UTC"
    )
    clock.advance(by=HOUR + timedelta(minutes=3))
    await beat(shop, "anna:1")
    said = await why(shop)
    assert said.reason is ScheduleReason.NO_WORKER
    assert said.sentence == (
        "not fired: the one living worker fires no schedules: it runs with --no-schedules, or an "
        "earlier version of Headway: its tick of 2030-06-01 13:00:00 UTC is 3 m late"
    )
    await beat(shop, "bert:1")
    assert "none of the 2 living workers fires schedules" in (await why(shop)).sentence
    (row,) = (await shop.app.questions.schedules()).schedules
    assert row.state is ScheduleState.LATE


async def test_an_outage_orphans_nothing(shop: Shop, clock: ManualClock) -> None:
    await declared(shop)
    clock.advance(60)
    said = await why(shop, "nightly")
    assert said.reason is ScheduleReason.NO_WORKER
    assert said.sentence.startswith("not fired: there is no living worker; its next tick is at ")
    await beat(shop, "bert:1", schedules=None)
    said = await why(shop, "nightly")
    assert said.reason is ScheduleReason.NO_WORKER
    assert said.sentence.startswith("not fired: the one living worker fires no schedules: it runs ")
    (row,) = (await shop.app.questions.schedules()).schedules
    assert (row.state, row.origin) == (ScheduleState.ACTIVE, ScheduleOrigin.DECLARED)
    assert row.next_at is not None
    clock.advance(by=timedelta(days=2))
    (row,) = (await shop.app.questions.schedules()).schedules
    assert row.state is ScheduleState.LATE


async def test_why_late(shop: Shop, clock: ManualClock) -> None:
    await put(shop)
    clock.advance(by=HOUR + timedelta(seconds=59))
    await beat(shop, schedules={})
    assert (await why(shop)).sentence == "due, and about to be fired"
    clock.advance(2)
    said = await why(shop)
    assert said.reason is ScheduleReason.LATE
    assert said.sentence == (
        "late: its tick of 2030-06-01 13:00:00 UTC is 1 m 1 s late, although 1 living worker "
        "should fire it; their logs may say why"
    )


async def test_why_ticks_cannot_be_computed(shop: Shop, clock: ManualClock) -> None:
    """A worker puts such a tick off; an operator sees the schedule all the same."""
    await put(shop, overlap="skip")
    record = await shop.app.schedules.get(NAME)
    definition = replace(record.definition, timetable=Cron.stored("0 * * * *", "Mars/Base"))
    store = shop.app.store
    await store.run(store.put_schedules, [replace(record, definition=definition)])
    clock.advance(by=HOUR)
    for _ in range(3):
        await fired(shop)
        clock.advance(40)
    await beat(shop, schedules={})
    said = await why(shop)
    assert said.reason is ScheduleReason.LATE
    assert said.sentence.startswith("late: its tick of 2030-06-01 13:00:00 UTC is 2 m late, ")
    detail = await shop.app.questions.schedule(NAME)
    assert detail.next_ticks == []
    assert detail.schedule.state is ScheduleState.LATE
    assert detail.schedule.next_at == NOON + HOUR


async def test_why_ticks_are_skipped(shop: Shop, clock: ManualClock) -> None:
    await put(shop)
    for _ in range(3):
        clock.advance(by=HOUR)
        await fired(shop)
    await beat(shop, schedules={}, types=())
    said = await why(shop)
    assert said.reason is ScheduleReason.OVERLAP
    (row,) = (await shop.app.questions.schedules()).schedules
    assert row.last is not None
    assert said.sentence == (
        f"skipping its ticks since 2030-06-01 14:00:00 UTC, because charge {row.last.job_id} of "
        "its last run has not ended: it is waiting: the one living worker does not implement job "
        "type charge"
    )
    assert said.because is not None
    assert said.because.reason is Reason.NO_WORKER
    await beat(shop, schedules={})
    await completed(shop)
    assert (await why(shop)).reason is ScheduleReason.SCHEDULED


async def test_why_a_tick_waits(shop: Shop, clock: ManualClock) -> None:
    await put(shop, overlap="queue_one")
    for _ in range(2):
        clock.advance(by=HOUR)
        await fired(shop)
    await beat(shop, schedules={})
    said = await why(shop)
    assert said.reason is ScheduleReason.WAITING
    assert said.sentence.startswith("waiting: its tick of 2030-06-01 14:00:00 UTC starts when ")
    assert said.sentence.endswith(" has ended, which is due, and about to be claimed")
    (row,) = (await shop.app.questions.schedules()).schedules
    assert (row.state, row.next_at) == (ScheduleState.WAITING, NOON + 2 * HOUR)


async def test_why_jobs_of_a_schedule_wait(shop: Shop, clock: ManualClock) -> None:
    await put(shop)
    await beat(shop, schedules={}, types=("ship",))
    said = await why(shop)
    assert said.reason is ScheduleReason.NO_WORKER_FOR_JOB
    assert said.sentence.endswith("no living worker implements job type charge")
    await beat(shop, schedules={}, queues=("default",))
    said = await why(shop)
    assert said.reason is ScheduleReason.NO_WORKER_FOR_JOB
    assert said.sentence.endswith("that implements charge works on queue money")
    await shop.app.pause("money")
    said = await why(shop)
    assert said.reason is ScheduleReason.QUEUE_PAUSED
    assert said.sentence.startswith("scheduled, next tick in 1 h at 2030-06-01 13:00:00 UTC; ")
    assert "because queue money is paused since " in said.sentence


async def test_pause_and_resume(shop: Shop, clock: ManualClock) -> None:
    await put(shop)
    shop.ear.heard.clear()
    operator = shop.app.actions("anna")
    changed = await operator.pause_schedule(NAME)
    assert changed == ScheduleChange(name=NAME, before="active", after="paused", next_at=None)
    assert (await operator.pause_schedule(NAME)).before == "paused"
    assert (await shop.app.schedules.get(NAME)).paused_at == NOON
    clock.advance(by=5 * HOUR)
    changed = await operator.resume_schedule(NAME)
    assert (changed.before, changed.after) == ("paused", "active")
    assert changed.next_at == NOON + 6 * HOUR
    assert [type(each) for each in shop.ear.heard] == [SchedulesChanged]
    last, _, first = await notes(shop)
    assert (first.actor, first.action, first.target) == ("anna", "pause schedule", NAME)
    assert (first.count, first.before, first.after) == (1, "active", "paused")
    assert (last.action, last.before, last.after) == ("resume schedule", "paused", "active")


async def test_trigger(shop: Shop) -> None:
    await put(shop)
    await shop.app.schedules.pause(NAME)
    shop.ear.heard.clear()
    shop.events.clear()
    started = await shop.app.actions("anna").trigger_schedule(NAME)
    job = await shop.app.get(started.id)
    assert (job.type, job.state) == ("charge", JobState.PENDING)
    assert [type(each) for each in shop.ear.heard] == [JobsScheduled]
    assert JobCreated in map(type, shop.events)
    (note,) = await notes(shop)
    assert (note.action, note.target) == ("trigger schedule", f"{NAME} {started.id}")
    assert (note.count, note.after) == (1, "pending")


async def test_backfill(shop: Shop, clock: ManualClock) -> None:
    await put(shop)
    clock.advance(by=5 * HOUR)
    operator, questions = shop.app.actions("anna"), shop.app.questions
    since = NOON - HOUR
    plan = await questions.plan_backfill(NAME, since)
    assert (plan.ticks, plan.existing) == (7, 0)
    assert (plan.first, plan.last) == (since, clock.now())
    done = await operator.backfill_schedule(NAME, since, until=NOON, at_most=1)
    assert done == Backfill(name=NAME, started=1, existing=0)
    assert (await questions.plan_backfill(NAME, since)).existing == 1
    done = await operator.backfill_schedule(NAME, since)
    assert done == Backfill(name=NAME, started=6, existing=1)
    note = (await notes(shop))[0]
    assert (note.action, note.count) == ("backfill schedule", 6)
    assert note.target == f"{NAME} from 2030-06-01 11:00:00 UTC to now"
    with pytest.raises(InvalidOption, match="ends now at the latest"):
        await operator.backfill_schedule(NAME, since, until=clock.now() + HOUR)
    with pytest.raises(InvalidOption, match="more than 10,000 ticks"):
        await questions.plan_backfill(NAME, NOON - 20_000 * HOUR)
    assert len(await notes(shop)) == 2


async def test_delete(shop: Shop, clock: ManualClock) -> None:
    await declared(shop)
    await put(shop)
    operator = shop.app.actions("anna")
    with pytest.raises(InvalidRequest, match="declared by the code of running workers"):
        await operator.delete_schedule("nightly")
    assert await notes(shop) == []
    changed = await operator.delete_schedule(NAME)
    assert changed == ScheduleChange(name=NAME, before="active", after="deleted", next_at=None)
    with pytest.raises(ScheduleNotFound):
        await shop.app.schedules.get(NAME)
    clock.advance(by=HOUR)
    assert (await operator.delete_schedule("nightly")).after == "deleted"
    assert [note.target for note in await notes(shop)] == ["nightly", NAME]


async def test_one_that_another_version_wrote_is_shown_and_explained(shop: Shop) -> None:
    await put(shop)
    store = shop.app.store
    record = await shop.app.schedules.get(NAME)
    strange = replace(record.definition, unreadable='{"timetable": {"moon": "full"}}')
    await store.run(store.put_schedules, [replace(record, definition=strange)])
    detail = await shop.app.questions.schedule(NAME)
    assert detail.explanation.reason is ScheduleReason.UNREADABLE
    assert detail.next_ticks == []
    assert NAME in repr(await shop.app.schedules.get(NAME))
    assert [each.name for each in (await shop.app.questions.schedules()).schedules] == [NAME]
