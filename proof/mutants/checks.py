"""Checks of single promises: what they say when one is broken, or None."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ParamSpec, TypeVar

import psycopg

from headway import Headway, Job
from headway.domain.job import NewJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import JobFilter
from headway.domain.settlement import Complete, Settled, Settlement
from headway.domain.views import JobAction
from headway.errors import AmbiguousId, StoreError, StoreUnreachable
from headway.jobs.ids import new_id, new_token
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore
from headway.stores.postgres import PostgresStore
from tests.support.faulty_store import FaultyStore

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE = 3.0


def stopping(dsn: str) -> str | None:
    """A worker that has stopped holds nothing: what had ended is committed, the rest given back."""
    for _ in range(30):
        held = asyncio.run(_stop_amid_work())
        if held:
            return f"a worker that has stopped still holds {held} jobs"
    return None


async def _stop_amid_work() -> int:
    app = Headway(FaultyStore(before={"settle": lambda: asyncio.sleep(0.01)}))

    @app.job
    async def brief(number: int) -> int:
        await asyncio.sleep(random.random() * 0.02)
        return number

    async with app:
        await app.start_many([brief.request(number) for number in range(200)])
        worker = app.worker(concurrency=20)
        await worker.start()
        await asyncio.sleep(random.random() * 0.05)
        await worker.stop()
        return sum(each.count for each in await app.counts() if each.state == "running")


def absence(dsn: str) -> str | None:
    """No job is charged a loss because the store was away for longer than a lease."""
    losses = asyncio.run(_go_through_an_absence())
    return f"{losses} losses were charged because the store was away" if losses else None


async def _go_through_an_absence() -> int:
    store = FaultyStore()
    app = Headway(store)
    begun = 0

    @app.job
    async def long(job: Job) -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(60)

    lease = 1.0
    workers = [app.worker(lease_for=lease, concurrency=3, grace=0.0) for _ in range(2)]
    async with app:
        started = await app.start_many([long.request() for _ in range(6)])
        for worker in workers:
            await worker.start()
        await until(lambda: begun == 6)
        store.away = True
        await asyncio.sleep(2 * lease)
        store.away = False
        await until(lambda: begun >= 12)
        losses = sum([(await app.get(sequence)).losses for sequence in started])
        for worker in workers:
            await worker.stop()
    return losses


def suspects(dsn: str) -> str | None:
    """A worker runs one suspect at a time, and healthy jobs before the next one."""
    return asyncio.run(_run_suspects())


async def _run_suspects() -> str | None:
    store = MemoryStore()
    app = Headway(store)
    running = most = 0
    order: list[str] = []

    @app.job
    async def suspect() -> None:
        nonlocal running, most
        order.append("suspect")
        running += 1
        most = max(running, most)
        await asyncio.sleep(1.5)
        running -= 1

    @app.job
    async def healthy() -> None:
        order.append("healthy")

    async with app:
        started = await app.start_many([suspect.request() for _ in range(3)])
        for sequence in started:
            store._rows[sequence.id].losses = 2
        await app.start_many([healthy.request() for _ in range(3)])
        try:
            async with asyncio.timeout(20):  # it takes 6 seconds
                await app.worker(concurrency=5).run(drain=True)
        except TimeoutError:
            return "the worker does not end"
    if most > 1:
        return f"{most} suspects ran at once"
    if order[1] != "healthy":
        return "healthy jobs waited for all suspects"
    return None


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def late_commit(dsn: str) -> str | None:
    """A job whose transaction commits after later ones were claimed is claimed all the same."""
    return asyncio.run(_late_commit(dsn))


async def _late_commit(dsn: str) -> str | None:
    store = PostgresStore(dsn)
    await store.migrate()
    await store.open()
    try:
        await store.run(store.insert, [NewJob(id=new_id(), type="noop", input="{}")])
        await _claim(store)
        late = new_id()
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await store.run_in(connection, store.insert, [NewJob(id=late, type="noop", input="{}")])
            for _ in range(5):
                await store.run(store.insert, [NewJob(id=new_id(), type="noop", input="{}")])
                await _claim(store)
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            if late in await _claim(store):
                return None
            await asyncio.sleep(0.05)
    finally:
        await store.close()
    return f"a job that was committed late was not claimed within {PATIENCE:.0f} s"


def lost_claim(dsn: str) -> str | None:
    """Jobs of a claim whose answer was lost are run at once, by the worker that claimed them."""
    return asyncio.run(_lose_a_claim())


async def _lose_a_claim() -> str | None:
    lost = 0

    async def lose_first_answer() -> None:
        nonlocal lost
        lost += 1
        if lost == 1:
            raise StoreUnreachable("the store of this check", "the answer was lost")

    app = Headway(FaultyStore(after={"claim": lose_first_answer}))
    ran: list[int] = []

    @app.job
    async def brief(number: int) -> None:
        ran.append(number)

    async with app:
        await app.start_many([brief.request(number) for number in range(10)])
        try:
            async with asyncio.timeout(PATIENCE):
                await app.worker(concurrency=20).run(drain=True)
        except TimeoutError:
            pass
    return None if len(ran) == 10 else f"{10 - len(ran)} of 10 jobs were left to their leases"


def busy_store(dsn: str) -> str | None:
    """A job that succeeded while the store was busy is completed when the store is free."""
    return asyncio.run(_settle_when_busy())


class Busy(MemoryStore):
    """Has no time for the first completions."""

    left = 4

    def settle(
        self, settlements: Sequence[Settlement], *, now: datetime | None = None
    ) -> Operation[Settled]:
        if self.left and any(isinstance(each, Complete) for each in settlements):
            self.left -= 1
            raise StoreError("others are in the way")
        return (yield from super().settle(settlements, now=now))


async def _settle_when_busy() -> str | None:
    app = Headway(Busy())

    @app.job
    async def brief() -> None: ...

    async with app:
        job = await app.start(brief.request())
        await app.worker().run(drain=True)
        state = (await job.get()).state
    return None if state == "completed" else f"a job that succeeded is {state}"


def ambiguous_id(dsn: str) -> str | None:
    """An action on the ending of several ids changes no job."""
    return asyncio.run(_act_on_an_ambiguous_id())


async def _act_on_an_ambiguous_id() -> str | None:
    app = Headway(MemoryStore())

    @app.job
    async def brief() -> None: ...

    ids = [f"01890a5d-ac96-774b-bcce-b302099{digit}8057" for digit in "ab"]
    async with app:
        await app.start_many([brief.request().using(id=id) for id in ids])
        actions = app.actions("checker")
        with contextlib.suppress(AmbiguousId):
            await actions.act(JobAction.CANCEL, ["8057"])
        with contextlib.suppress(AmbiguousId):
            await actions.act_on_all(JobAction.CANCEL, JobFilter(ids=("8057",)))
        states = [str((await app.get(id)).state) for id in ids]
    return None if states == ["pending", "pending"] else f"the jobs are {' and '.join(states)}"


async def _claim(store: PostgresStore) -> list[str]:
    order = ClaimOrder(
        worker="checker",
        token=new_token(),
        lease_for=60.0,
        queues=(QueueShare("default", 10),),
        types=("noop",),
        limit=10,
    )
    return [job.id for job in await store.run(store.claim, order)]
