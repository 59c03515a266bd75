"""Uses that both checkers must refuse: each line marked as an error, and no other."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headway import (
    After,
    CatchUp,
    Continuation,
    Cron,
    Dedup,
    Every,
    Headway,
    Job,
    JobType,
    Rate,
    Sequence,
    declare,
)

app = Headway("memory://")


@app.job
async def charge(order_id: int, cents: int = 100) -> str:
    return f"{order_id} {cents}"


@app.job
async def weigh(grams: float, *, exact: bool = False) -> float:
    return grams


@app.job
async def ship(job: Job[str], order_id: int) -> str:
    return job.blockers[0]


@app.job
async def pack(job: Job[str, float]) -> bytes:
    return b""


@app.job
async def total(job: Job[*tuple[float, ...]]) -> float:
    return sum(job.blockers)


@app.job(entry=False)
async def confirm(job: Job, order_id: int) -> str:
    return str(order_id)


@app.job(entry=False)
async def deliver(job: Job[str]) -> str:
    return job.blockers[0]


refund = declare("refund", input=int, output=str)


async def arguments() -> None:
    charge.request("1")  # error
    charge.request()  # error
    charge.request(1, 2, 3)  # error
    charge.request(1, euros=2)  # error
    charge.request(1, cents="2")  # error
    weigh.request(1.0, True)  # error
    weigh.request(1.0, exact=1)  # error
    ship.request(object(), 1)  # error
    refund.request("1")  # error
    refund.request(1, 2)  # error
    refund.request()  # error
    confirm.request("1")  # error


async def calls() -> None:
    await charge("1")  # error
    await ship(1)  # error
    int(await charge(1, 2)).upper()  # error


async def results(sequence: Sequence[str]) -> None:
    number: int = await sequence.result()  # error
    other: Sequence[int] = await app.start(charge.request(1))  # error
    flag: int = await (await app.start(weigh.request(1.0))).result()  # error
    await sequence.result("soon")  # error
    del number, other, flag


async def starting() -> None:
    await app.start(confirm.request(1))  # error
    await app.start(charge)  # error
    await app.start("charge")  # error
    await app.start(charge.request(1), queue=5)  # error
    await app.start(charge.request(1), priority="high")  # error
    await app.start(charge.request(1), dedup="key")  # error
    await app.start(charge.request(1), schedule=5)  # error
    await app.start(charge.request(1), color="red")  # error
    await app.start_many([confirm.request(1)])  # error
    await app.start_many([ship.request(1)])  # error
    Dedup("key", scope="all")  # error
    charge.request(1).using(queue=1)  # error


async def listing() -> None:
    await app.list(state="faild")  # error
    await app.list(state=["failed", "faild"])  # error
    app.sync.list(state="faild")  # error


async def blocking(charging: Sequence[str], weighing: Sequence[float]) -> None:
    await app.start(ship.request(1))  # error
    await app.start(pack.request())  # error
    await app.start(total.request())  # error
    await app.start(charge.request(1).using(blockers=(charging,)))  # error
    await app.start(ship.request(1).using(blockers=(weighing,)))  # error
    await app.start(ship.request(1).using(blockers=(weigh.request(1.0),)))  # error
    await app.start(ship.request(1).using(blockers=(charging, charging)))  # error
    await app.start(ship.request(1).using(blockers=charging))  # error
    await app.start(ship.request(1).using(blockers=(confirm.request(1),)))  # error
    await app.start(ship.request(1).using(blockers=(ship.request(2),)))  # error
    await app.start(pack.request().using(blockers=(charging,)))  # error
    await app.start(pack.request().using(blockers=(weighing, charging)))  # error
    await app.start(total.request().using(blockers=[charging]))  # error
    await app.start(ship.request(1), blockers=(charging,))  # error
    await app.start(deliver.request().using(blockers=(charging,)))  # error
    ship.request(1).using(blockers=(weighing,))  # error
    ship.request(1).using(blockers=())  # error
    deliver.request().using(blockers=(weighing,))  # error
    total.request().using(blockers=(weighing,))  # error


@app.job
async def unpacks(job: Job[str]) -> None:
    first, second = job.blockers  # error
    number: int = job.blockers[0]  # error
    del first, second, number


@app.job
async def continues(job: Job) -> Continuation[int]:
    return job.continue_with(charge.request(1))  # error


@app.job
async def continues_blocked(job: Job) -> Continuation[str]:
    return job.continue_with(deliver.request())  # error


@app.job
async def continues_wrongly_blocked(job: Job) -> Continuation[str]:
    return job.continue_with(deliver.request().using(blockers=(weigh.request(1.0),)))  # error


@app.job(queue=5)  # error
async def options() -> None: ...


@app.job(entry=None)  # error
async def unclear_entry() -> None: ...


@app.job(colour="red")  # error
async def unknown_options() -> None: ...


@app.implement(refund)  # error
async def wrong_input(order_id: str) -> str:
    return order_id


@app.implement(refund)  # error
async def wrong_output(order_id: int) -> int:
    return order_id


@app.job(schedule=5)  # error
async def scheduled_by_number() -> None: ...


@app.job(schedule="0 * * * *")  # error
async def scheduled_by_text() -> None: ...


@app.job(entry=False, schedule=Every(hours=1))  # error
async def scheduled_continuation() -> None: ...


@app.job(schedule=Every(hours=1))
async def scheduled(job: Job) -> None:
    tick: datetime = job.scheduled_for  # error
    name: str = job.schedule  # error
    del tick, name


def schedules() -> None:
    app.schedule("x", Cron("0 6 1 * *"), charge.request("1"))  # error
    app.schedule("x", Cron("0 6 1 * *"), charge)  # error
    app.schedule("x", Cron("0 6 1 * *"), confirm.request(1))  # error
    app.schedule("x", Cron("0 6 1 * *"), ship.request(1))  # error
    app.schedule("x", "0 6 1 * *", charge.request(1))  # error
    app.schedule("x", charge.request(1), Every(hours=1))  # error
    app.schedule("x", Every(hours=1), charge.request(1), overlap="wait")  # error
    app.schedule("x", Every(hours=1), charge.request(1), catch_up=5)  # error
    app.schedule("x", Every(hours=1), charge.request(1), catch_up=CatchUp.none)  # error
    app.schedule("x", Every(hours=1), charge.request(1), jitter="30")  # error
    app.schedule("x", Every(hours=1), charge.request(1), tz="Europe/Berlin")  # error
    app.schedule("x", Every(hours="1"), charge.request(1))  # error
    app.schedule(1, Every(hours=1), charge.request(1))  # error


async def schedules_at_run_time() -> None:
    await app.schedules.put("x", Every(hours=1), charge.request("1"))  # error
    await app.schedules.put("x", Every(hours=1), charge)  # error
    await app.schedules.put("x", Every(hours=1), confirm.request(1))  # error
    await app.schedules.put("x", "@hourly", charge.request(1))  # error
    await app.schedules.put("x", Every(hours=1), charge.request(1), overlap="wait")  # error
    await app.schedules.put("x", Every(hours=1), charge.request(1), jitter="30")  # error
    app.sync.schedules.put("x", Every(hours=1), charge.request(1), overlap="wait")  # error
    await app.schedules.backfill("x", "yesterday")  # error
    number: int = await app.schedules.trigger("x")  # error
    app.worker(schedules="no")  # error
    del number


@app.job(key=7)  # error
async def keyed_by_number(tenant_id: str) -> None: ...


@app.job(key="tenant_id")
async def limited(job: Job, tenant_id: str) -> None:
    key: str = job.key  # error
    job.spent(1.5)  # error
    job.spent("1532")  # error
    if tenant_id == "a":
        job.hold(20)  # error
    if tenant_id == "b":
        job.hold(Every(hours=1))  # error
    if tenant_id == "c":
        job.hold(After(seconds=1), key="tenant-7")  # error
    if tenant_id == "d":
        job.hold(After(seconds=1), True)  # error
    del key


async def limits() -> None:
    app.queue("x", running="5")  # error
    app.queue("x", running=1.5)  # error
    app.queue("x", per_key="tenant")  # error
    app.queue("x", rate=90)  # error
    app.queue("x", rate=(90, 60))  # error
    app.queue("x", fair="yes")  # error
    app.queue("x", weights=["tenant-7"])  # error
    app.queue("x", weights={"tenant-7": "3"})  # error
    app.queue("x", concurrency=5)  # error
    app.queue("x", 5)  # error
    app.queue(5)  # error
    Rate("90", per=60)  # error
    Rate(90)  # error
    Rate(90, per="60")  # error
    Rate(90, per=60, burst=1.5)  # error
    Rate(90, every=60)  # error
    await app.start(charge.request(1), key=7)  # error
    charge.request(1).using(key=7)  # error


async def completing(sequence: Sequence[str]) -> None:
    async with app.complete_sequence(sequence) as completion:
        await completion.complete(1)  # error
        await completion.continue_with(weigh.request(1.0))  # error
    async with app.complete_sequence("id", weigh) as completed:
        await completed.complete("1.0")  # error


def without_loop(connection: Any) -> None:
    with app.sync as client:
        client.start(ship.request(1))  # error
        number: int = client.start(charge.request(1), tx=connection).result()  # error
        del number


narrow: JobType[[str], str] = charge  # error
