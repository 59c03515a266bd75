"""Part backlog: of 100,000 queued jobs a claim of n gives n, quickly; one blocker frees 100,000."""

from __future__ import annotations

import asyncio
import tempfile
import time

from headway.domain.job import ClaimedJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Complete
from headway.jobs.ids import new_token
from headway.ports.store import Store
from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase
from proof.tools.part_run import PartRun
from proof.tools.work import Work
from tests.support.servers.postgres import PostgresServer

AT_ONCE = 100
SLOWEST_CLAIM = 0.25
"""Seconds, for 99 of 100 claims."""
SLOWEST_FREEING = 10.0
"""Seconds, for all that wait for one blocker."""
CHUNK = 5_000


def prove(run: PartRun) -> None:
    count = 10_000 if run.short else 100_000
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_try(run, SqliteDatabase(f"{folder}/proof.db"), count))
    with PostgresServer(durable=True) as server:
        database = PostgresDatabase(server.url(server.create_database()))
        asyncio.run(_try(run, database, count))


async def _try(run: PartRun, database: Database, count: int) -> None:
    await asyncio.to_thread(database.prepare)
    work = Work(database.dsn)
    async with work.app as app:
        for done in range(0, count, CHUNK):
            await app.start_many([work.good.request(n) for n in range(done, done + CHUNK)])
        run.say(f"{database.kind}: {count:,} jobs are queued")
        await _claim_all(run, database.kind, app.store, count)
        await _free_all(run, database, work, count)


async def _claim_all(run: PartRun, kind: str, store: Store, count: int) -> None:
    seconds: list[float] = []
    short = 0
    for _ in range(count // AT_ONCE):
        began = time.perf_counter()
        claimed = await _claim(store, "good", AT_ONCE)
        seconds.append(time.perf_counter() - began)
        short += len(claimed) != AT_ONCE
        done = [Complete(job.id, job.lease.token, "0") for job in claimed]
        await store.run(store.settle, done)
    rest = await _claim(store, "good", AT_ONCE)
    seconds.sort()
    p99 = seconds[int(len(seconds) * 0.99)]
    run.figure(
        f"{kind}: claims of {AT_ONCE} from {count:,}, ms",
        {
            "p50": round(seconds[len(seconds) // 2] * 1000, 1),
            "p99": round(p99 * 1000, 1),
            "max": round(seconds[-1] * 1000, 1),
        },
    )
    run.check(not short, f"{kind}: {short} claims of {AT_ONCE} gave another number")
    run.check(not rest, f"{kind}: {len(rest)} more jobs than were started")
    run.check(p99 <= SLOWEST_CLAIM, f"{kind}: one claim in a hundred took {p99:.3f} s")


async def _free_all(run: PartRun, database: Database, work: Work, count: int) -> None:
    app, store = work.app, work.app.store
    gate = await app.start(work.gate.request())
    for done in range(0, count, CHUNK):
        await app.start_many(
            [work.gated.request(n).using(blockers=(gate,)) for n in range(done, done + CHUNK)]
        )
    run.say(f"{database.kind}: {count:,} jobs wait for one")
    (job,) = await _claim(store, "gate", 1)
    began = time.perf_counter()
    settled = await store.run(store.settle, [Complete(job.id, job.lease.token, "1")])
    seconds = time.perf_counter() - began
    run.figure(f"{database.kind}: s to free {count:,} jobs", round(seconds, 2))
    run.check(seconds <= SLOWEST_FREEING, f"{database.kind}: freeing took {seconds:.1f} s")
    run.check(len(settled.freed) == count, f"{database.kind}: {len(settled.freed)} were freed")
    states = database.ask("select state, count(*) from {job} where type = 'gated' group by state")
    run.check(states == [("pending", count)], f"{database.kind}: the jobs are {states}")


async def _claim(store: Store, type_: str, limit: int) -> list[ClaimedJob]:
    order = ClaimOrder(
        worker="prover",
        token=new_token(),
        lease_for=600.0,
        queues=(QueueShare("default", limit),),
        types=(type_,),
        limit=limit,
    )
    return await store.run(store.claim, order)
