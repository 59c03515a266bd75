# pyright: strict
"""Uses that both checkers must accept, with the types that they must infer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

from headway import (
    After,
    At,
    Backoff,
    CatchUp,
    Continuation,
    ContinuationRequest,
    ContinuationType,
    Cron,
    Dedup,
    Every,
    Headway,
    Job,
    JobState,
    JobType,
    Rate,
    Request,
    Sequence,
    SyncSequence,
    declare,
)
from headway.records import JobRecord, Page, ScheduleRecord, ScheduleRun

app = Headway("memory://")


@dataclass
class Order:
    id: int
    cents: int


@app.job
async def charge(order_id: int, cents: int = 100) -> str:
    return f"{order_id} {cents}"


@app.job(queue="scales", timeout=timedelta(seconds=5), retry=Backoff(cap=5), max_attempts=None)
async def weigh(order: Order, *, exact: bool = False) -> float:
    return 1.0 if exact else order.cents


@app.job
def tidy() -> None: ...


@app.job
async def ship(job: Job[str], order_id: int) -> str:
    (receipt,) = job.blockers
    assert_type(receipt, str)
    return receipt


@app.job(priority=3)
async def pack(job: Job[str, float], order_id: int) -> bytes:
    receipt, weight = job.blockers
    assert_type(receipt, str)
    assert_type(weight, float)
    return b""


@app.job
async def total(job: Job[*tuple[float, ...]]) -> float:
    assert_type(job.blockers, tuple[float, ...])
    return sum(job.blockers)


@app.job(entry=False)
async def confirm(job: Job, order_id: int) -> str:
    return str(order_id)


@app.job(entry=True)
async def begin(order_id: int) -> str:
    return str(order_id)


@app.job(entry=False, queue="later")
def archive(order_id: int) -> int:
    return order_id


@app.job(entry=False)
async def deliver(job: Job[str], order_id: int) -> str:
    return job.blockers[0]


@app.job
async def place(job: Job, order_id: int) -> Continuation[str]:
    return job.continue_with(confirm.request(order_id))


@app.job
async def branch(job: Job, order_id: int) -> Continuation[str] | str:
    if order_id:
        return "done"
    return job.continue_with(charge.request(order_id))


@app.job
async def maybe(job: Job, order_id: int) -> Continuation[str] | None:
    return job.continue_with(charge.request(order_id)) if order_id else None


@app.job
async def loop(job: Job, left: int) -> Continuation[str] | str:
    return job.continue_with(loop.request(left - 1)) if left else "end"


@app.job
async def widen(job: Job) -> Continuation[str | None]:
    return job.continue_with(charge.request(1))


@app.job
async def blocked_next(job: Job) -> Continuation[str]:
    return job.continue_with(deliver.request(1).using(blockers=(charge.request(1),)))


@app.job
async def blocked_later(job: Job) -> Continuation[str]:
    request = deliver.request(1)
    return job.continue_with(request.using(blockers=(charge.request(1),)), schedule=After(hours=1))


@app.job
def in_thread(job: Job[int], note: str = "") -> Continuation[int]:
    return job.continue_with(archive.request(job.blockers[0]))


refund = declare("refund", input=Order, output=str)
tick = declare("tick")
count = declare("count", output=int)
forget = declare("forget", input=int)


@app.implement(refund)
async def do_refund(order: Order) -> str:
    return str(order.id)


@app.implement(tick)
def do_tick() -> None: ...


@app.implement(count)
async def do_count(job: Job) -> int:
    return job.attempt


@app.implement(forget)
async def do_forget(job: Job, order_id: int) -> None: ...


def takes(begins: JobType[[int, int], str], continues: ContinuationType[[int], int]) -> None: ...


async def types() -> None:
    assert_type(charge.request(1, 2), Request[str])
    assert_type(ship.request(1), Request[str, str])
    assert_type(pack.request(1), Request[bytes, str, float])
    assert_type(confirm.request(1), ContinuationRequest[str])
    assert_type(confirm.request(1).using(queue="slow"), ContinuationRequest[str])
    assert_type(deliver.request(1), ContinuationRequest[str, str])
    assert_type(deliver.request(1).using(blockers=(charge.request(1),)), ContinuationRequest[str])
    assert_type(ship.request(1).using(blockers=(charge.request(1),), priority=1), Request[str])
    assert_type(total.request().using(blockers=[]), Request[float])
    assert_type(count.request(), Request[int])
    assert_type(forget.request(1), Request[None])
    assert_type(refund.request(Order(1, 2)), Request[str])
    assert_type(tick.request(), Request[None])
    assert_type(place.request(1), Request[str])
    assert_type(branch.request(order_id=1), Request[str])
    assert_type(maybe.request(1), Request[str | None])
    assert_type(loop.request(1), Request[str])
    assert_type(in_thread.request(), Request[int, int])
    takes(charge, archive)


async def calls(job: Job, blocked: Job[str]) -> None:
    assert_type(await ship(blocked, 1), Continuation[str] | str)
    assert_type(await place(job, 1), Continuation[str])
    assert_type(await maybe(job, order_id=1), Continuation[str] | None)
    assert_type(await confirm(job, 1), Continuation[str] | str)
    assert_type(await charge(1, 2), str)
    assert_type(await weigh(Order(1, 2), exact=True), float)
    assert_type(tidy(), None)
    assert_type(archive(1), int)
    assert_type(await begin(1), str)
    assert_type(await do_refund(Order(1, 2)), str)


async def starting(connection: object) -> None:
    charging = await app.start(charge.request(1, cents=2))
    assert_type(charging, Sequence[str])
    assert_type(await charging.result(timeout=3), str)
    assert_type(await charging.get(), JobRecord)
    assert_type(charging.deduplicated, bool)
    assert_type(await app.wait(charging), str)
    assert_type(await (await app.start(place.request(7))).result(), str)
    assert_type(await (await app.start(maybe.request(7))).result(), str | None)
    assert_type(await (await app.start(weigh.request(Order(1, 2)))).result(), float)
    await app.start(
        charge.request(1),
        tx=connection,
        dedup=Dedup("order-1", scope="any", window=timedelta(hours=1)),
        schedule=After(minutes=5),
        queue="slow",
        priority=-1,
        max_attempts=None,
        max_losses=2,
        timeout=10,
        id=UUID(int=1),
    )
    await app.start(charge.request(1), idempotency_key="order-1", schedule=At(datetime.now(UTC)))


async def blocking() -> None:
    charging = await app.start(charge.request(1))
    await app.start(ship.request(1).using(blockers=(charge.request(1),)))
    await app.start(ship.request(1).using(blockers=(charging,)), queue="slow")
    await app.start(ship.request(1).using(blockers=(charging,), queue="slow"))
    shipping = await app.start(ship.request(1).using(blockers=(place.request(7),)))
    assert_type(shipping, Sequence[str])
    packing = await app.start(
        pack.request(1).using(
            blockers=(ship.request(1).using(blockers=(charging,)), weigh.request(Order(1, 2)))
        )
    )
    assert_type(await packing.result(), bytes)
    await app.start(total.request().using(blockers=[weigh.request(Order(n, n)) for n in range(3)]))
    weights = [weigh.request(Order(n, n)) for n in range(3)]
    await app.start(total.request().using(blockers=weights))
    await app.start(total.request().using(blockers=[]))
    await app.start(ship.request(1).using(blockers=(app.sequence("id", charge),)))


async def many() -> None:
    charging = await app.start_many([charge.request(n).using(priority=n) for n in range(3)])
    assert_type(charging, list[Sequence[str]])
    await app.start_many([charge.request(1), place.request(1)])
    await app.start_many([ship.request(1).using(blockers=(charging[0],))])
    await app.start_many(iter([tidy.request()]), tx=object())


async def afterwards(sequence: Sequence[str]) -> None:
    assert_type(app.sequence("id"), Sequence[Any])
    assert_type(app.sequence(UUID(int=1), charge), Sequence[str])
    async with app.complete_sequence(sequence) as completion:
        await completion.continue_with(confirm.request(1))
        await completion.complete("receipt")
    async with app.complete_sequence("id", confirm, tx=object()) as completion:
        assert_type(completion.job, JobRecord)
        await completion.complete("receipt")
    async with app.complete_sequence("id") as anything:
        await anything.complete(3)
    assert_type(await app.list(state="failed", type=[charge, "ship"], queue="slow"), Page)
    assert_type(await app.list(state=["scheduled", JobState.FAILED], schedule="vat"), Page)
    await app.retry(sequence, input=charge.request(1))
    await app.retry(["id", UUID(int=1), sequence], input={"order_id": 1})
    await app.cancel(sequence)
    await app.trigger([sequence])
    assert_type(await app.delete_sequences(sequence, cascade=True), list[str])
    await app.pause("slow")


async def by_record(record: JobRecord) -> None:
    assert_type(await app.get(record), JobRecord)
    assert_type(await app.current(record), JobRecord)
    assert_type(await app.blockers(record), list[JobRecord])
    assert_type(app.sequence(record, charge), Sequence[str])
    assert_type(await app.list(sequence=record, root=record), Page)
    assert_type(await app.list(state=record.state), Page)
    await app.attempts(record)
    await app.progress(record)
    await app.retry([record, "id"])
    await app.cancel(record)
    async with app.complete_sequence(record) as completion:
        await completion.complete(3)
    async with app.complete_sequence(record, confirm) as confirmation:
        await confirmation.complete("receipt")
    with app.sync as client:
        assert_type(client.blockers(record), list[JobRecord])
        client.trigger(record)
        assert_type(client.delete_sequences([record]), list[str])
        with client.complete_sequence(record) as anything:
            anything.complete(3)


@app.job(schedule=Cron("30 2 * * *", tz="Europe/Berlin"), queue="night")
async def nightly(job: Job) -> str:
    assert_type(job.scheduled_for, datetime | None)
    assert_type(job.schedule, str | None)
    return "done"


@app.job(entry=True, schedule=Every(timedelta(minutes=5), anchor=datetime.now(UTC)))
def often(note: str = "") -> None: ...


def declaring() -> None:
    assert_type(nightly.request(), Request[str])
    app.schedule("vat", Cron("0 6 1 * *"), charge.request(1))
    app.schedule(
        "hourly",
        Every(hours=1, minutes=30),
        charge.request(1).using(queue="slow"),
        overlap="queue_one",
        catch_up=CatchUp.latest(hours=6),
        jitter=30,
    )
    app.schedule("many", Every(days=1), place.request(1), catch_up=CatchUp.all(days=1, at_most=5))
    app.worker(schedules=False)


async def schedules(connection: object) -> None:
    put = await app.schedules.put(
        "tenant-7",
        Every(hours=1),
        charge.request(7),
        tx=connection,
        overlap="cancel",
        catch_up=CatchUp.none(),
        jitter=timedelta(seconds=5),
    )
    assert_type(put, ScheduleRecord)
    assert_type(put.timetable, Cron | Every)
    assert_type(await app.schedules.get("tenant-7"), ScheduleRecord)
    assert_type(await app.schedules.list(after="tenant-7", limit=10), list[ScheduleRecord])
    assert_type(await app.schedules.runs("tenant-7"), list[ScheduleRun])
    assert_type(await app.schedules.pause("tenant-7", tx=connection), ScheduleRecord)
    assert_type(await app.schedules.resume("tenant-7"), ScheduleRecord)
    assert_type(await app.schedules.trigger("tenant-7"), Sequence[Any])
    since = datetime(2026, 1, 1, tzinfo=UTC)
    assert_type(await app.schedules.backfill("tenant-7", since, at_most=5), list[Sequence[Any]])
    assert_type(await app.schedules.delete("tenant-7"), None)
    with app.sync as client:
        assert_type(client.schedules.put("x", Every(hours=1), charge.request(7)), ScheduleRecord)
        assert_type(client.schedules.trigger("x"), SyncSequence[Any])


@app.job(key="tenant_id", queue="models")
async def ask(job: Job, tenant_id: str, prompt: str) -> str:
    assert_type(job.key, str | None)
    job.spent(1_532)
    if not prompt:
        job.hold(After(seconds=20))
    if prompt == "slower":
        job.hold(At(datetime.now(UTC)), key=True)
    return prompt


async def limits() -> None:
    app.queue("models", running=40, per_key=2, rate=Rate(90, per=60, burst=10), fair=True)
    app.queue("others", rate=Rate(1, per=0.5), running=None)
    app.queue("weighted", fair=True, weights={"tenant-7": 3})
    app.queue("free")
    await app.start(ask.request("tenant-7", "why"), key="tenant-8")
    await app.start(charge.request(1).using(key="tenant-7"))
    app.schedule("asked", Every(hours=1), ask.request("tenant-7", "why").using(key=None))


def without_loop() -> None:
    with app.sync as client:
        charging = client.start(charge.request(1), tx=None)
        assert_type(charging, SyncSequence[str])
        assert_type(charging.result(timeout=1), str)
        client.start(ship.request(1).using(blockers=(charging,)))
        assert_type(client.start_many([charge.request(1)]), list[SyncSequence[str]])
        with client.complete_sequence(charging) as completion:
            completion.complete("receipt")
