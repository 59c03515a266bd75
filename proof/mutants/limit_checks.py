"""Checks of permits: how many are given out at once, and who is woken for those that are freed."""

from __future__ import annotations

import asyncio
import time

from headway import Headway
from headway.domain.job import NewJob
from headway.domain.limits.queue_limits import LimitsOverride
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Complete
from headway.jobs.ids import new_id, new_token
from headway.limits.changes import override
from headway.limits.claim import claim_limited
from headway.limits.key_claim import KeyTurns
from headway.notifiers.local import LocalNotifier
from headway.stores.memory import MemoryStore
from headway.stores.postgres import PostgresStore
from proof.limits.record import Playback, read, watch
from proof.mutants.checks import until
from proof.tools.databases import PostgresDatabase

BUSY = 3.3
"""Seconds that a permit is in use. An idle worker polls after 2.8 seconds at the latest, and then
not within the next two."""
WOKEN = 1.0
POLL = 60.0
CLAIMERS = 8
CLAIMED_FOR = 4.0
JOBS = 2_000
CAPS = {"capped": LimitsOverride(running=3), "keyed": LimitsOverride(per_key=3)}


def freed_permit(dsn: str) -> str | None:
    """A worker frees a permit and has no slot for the next job: another worker is woken."""
    return asyncio.run(_free(["first", "narrow"], other_type=False))


def left_permit(dsn: str) -> str | None:
    """A worker frees a permit and can run none of the waiting jobs: another worker is woken."""
    return asyncio.run(_free(["narrow"], other_type=True))


async def _free(queues: list[str], *, other_type: bool) -> str | None:
    store, notifier = MemoryStore(), LocalNotifier()
    ours, theirs = Headway(store, notifier=notifier), Headway(store, notifier=notifier)
    began: dict[str, float] = {}
    for app in (ours, theirs):
        app.queue("narrow", running=1)

    async def work(name: str, seconds: float) -> None:
        began[name] = time.monotonic()
        await asyncio.sleep(seconds)
        began[f"after {name}"] = time.monotonic()

    own = ours.job(name="own")(work)
    other = theirs.job(name="other" if other_type else "own")(work)
    async with ours, theirs:
        slots = 5 if other_type else 1
        first = ours.worker(concurrency=slots, queues=queues, poll_every=POLL, grace=0.0)
        second = theirs.worker(concurrency=5, queues=["narrow"], poll_every=POLL)
        await ours.start(own.request("first", BUSY), queue="narrow")
        await first.start()
        await until(lambda: "first" in began)
        await second.start()
        await theirs.start(other.request("second", 0.0), queue="narrow")
        if "first" in queues:
            await ours.start(own.request("third", 2 * BUSY), queue="first")
        await until(lambda: "second" in began)
        await first.stop()
        await second.stop()
    waited = began["second"] - began["after first"]
    return f"a freed permit was used after {waited:.1f} s" if waited > WOKEN else None


def claimers(dsn: str) -> str | None:
    """Eight claimers of PostgreSQL, again and again: the record shows no job above a cap."""
    database = PostgresDatabase(dsn)
    database.prepare()
    watch(database)
    asyncio.run(_claim_and_complete(dsn))
    playback = Playback()
    playback.play(read(database))
    return next(iter(playback.violations), None)


async def _claim_and_complete(dsn: str) -> None:
    stores = [PostgresStore(dsn) for _ in range(CLAIMERS)]
    for store in stores:
        await store.open()
    try:
        first = stores[0]
        for queue, limits in CAPS.items():
            await first.run(override, first, queue, limits)
        await first.run(
            first.insert,
            [
                NewJob(id=new_id(), type="noop", input="{}", queue=queue, key="one")
                for queue in CAPS
                for _ in range(JOBS)
            ],
        )
        await asyncio.gather(*(_work_off(store) for store in stores))
    finally:
        for store in stores:
            await store.close()


async def _work_off(store: PostgresStore) -> None:
    turns = KeyTurns()
    until = time.monotonic() + CLAIMED_FOR
    while time.monotonic() < until:
        for queue in CAPS:
            order = ClaimOrder(
                worker="checker",
                token=new_token(),
                lease_for=60.0,
                queues=(QueueShare(queue, 2),),
                types=("noop",),
                limit=2,
                limited=True,
            )
            claimed = await store.run(claim_limited, store, order, turns)
            if claimed.jobs:
                await asyncio.sleep(0.01)
                done = [Complete(job.id, job.lease.token) for job in claimed.jobs]
                await store.run(store.settle, done)
