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
from proof.places import Place, PostgresPlace, SqlitePlace
from proof.trial import Trial
from proof.work import Work
from tests.servers import PostgresServer

AT_ONCE = 100
SLOWEST_CLAIM = 0.25
"""Seconds, for 99 of 100 claims."""
SLOWEST_FREEING = 10.0
"""Seconds, for all that wait for one blocker."""
CHUNK = 5_000


def prove(trial: Trial) -> None:
    count = 10_000 if trial.short else 100_000
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_try(trial, SqlitePlace(f"{folder}/proof.db"), count))
    with PostgresServer(durable=True) as server:
        place = PostgresPlace(server.url(server.create_database()))
        asyncio.run(_try(trial, place, count))


async def _try(trial: Trial, place: Place, count: int) -> None:
    await asyncio.to_thread(place.prepare)
    work = Work(place.dsn)
    async with work.app as app:
        for done in range(0, count, CHUNK):
            await app.start_many([work.good.request(n) for n in range(done, done + CHUNK)])
        trial.say(f"{place.kind}: {count:,} jobs are queued")
        await _claim_all(trial, place.kind, app.store, count)
        await _free_all(trial, place, work, count)


async def _claim_all(trial: Trial, kind: str, store: Store, count: int) -> None:
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
    trial.figure(
        f"{kind}: claims of {AT_ONCE} from {count:,}, ms",
        {
            "p50": round(seconds[len(seconds) // 2] * 1000, 1),
            "p99": round(p99 * 1000, 1),
            "max": round(seconds[-1] * 1000, 1),
        },
    )
    trial.check(not short, f"{kind}: {short} claims of {AT_ONCE} gave another number")
    trial.check(not rest, f"{kind}: {len(rest)} more jobs than were started")
    trial.check(p99 <= SLOWEST_CLAIM, f"{kind}: one claim in a hundred took {p99:.3f} s")


async def _free_all(trial: Trial, place: Place, work: Work, count: int) -> None:
    app, store = work.app, work.app.store
    gate = await app.start(work.gate.request())
    for done in range(0, count, CHUNK):
        await app.start_many(
            [work.gated.request(n).using(blockers=(gate,)) for n in range(done, done + CHUNK)]
        )
    trial.say(f"{place.kind}: {count:,} jobs wait for one")
    (job,) = await _claim(store, "gate", 1)
    began = time.perf_counter()
    settled = await store.run(store.settle, [Complete(job.id, job.lease.token, "1")])
    seconds = time.perf_counter() - began
    trial.figure(f"{place.kind}: s to free {count:,} jobs", round(seconds, 2))
    trial.check(seconds <= SLOWEST_FREEING, f"{place.kind}: freeing took {seconds:.1f} s")
    trial.check(len(settled.freed) == count, f"{place.kind}: {len(settled.freed)} were freed")
    states = place.ask("select state, count(*) from {job} where type = 'gated' group by state")
    trial.check(states == [("pending", count)], f"{place.kind}: the jobs are {states}")


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
