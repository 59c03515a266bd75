"""Reaping and maintenance, with time passed in."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.domain.events import JobReaped, JobsPruned, TypesUnattended
from headway.domain.job import JobState, NewJob
from headway.domain.orders import ClaimOrder, PruneRule, QueueShare
from headway.domain.queries import WorkerRecord
from headway.domain.settlement import Complete
from headway.domain.views import AuditRecord
from headway.jobs.ids import new_id
from headway.notifiers.local import LocalNotifier
from headway.ports.notifications import JobsScheduled, Notification, OwnershipLost, SequenceEnded
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore
from headway.testing.clock import ManualClock
from headway.worker.background.maintenance import Maintenance
from headway.worker.environment import WorkerEnvironment
from headway.worker.leases.reaper import Reaper
from headway.worker.leases.store_outage import Outage
from headway.worker.settings import Retention, WorkerSettings
from tests.support.worker_harness import WorkerHarness


async def add(harness: WorkerHarness, clock: ManualClock, type_: str = "work", **facts: Any) -> str:
    job = NewJob(id=new_id(), type=type_, input="{}", **facts)
    await harness.store.run(harness.store.insert, [job], now=clock.now())
    return job.id


async def claim(harness: WorkerHarness, clock: ManualClock, type_: str = "work") -> list[str]:
    order = ClaimOrder(
        worker="dead",
        token=new_id(),
        lease_for=30,
        queues=(QueueShare("default", 10),),
        types=(type_,),
        limit=10,
    )
    claimed = await harness.store.run(harness.store.claim, order, now=clock.now())
    return [job.lease.token for job in claimed]


def make_reaper(
    harness: WorkerHarness, clock: ManualClock, worker: str, notifier: LocalNotifier | None = None
) -> Reaper:
    observers = Observers([harness])
    settings = WorkerSettings(worker_id=worker)
    environment = WorkerEnvironment(settings, harness.store, clock, observers)
    return Reaper(environment, Publisher(harness.store, notifier, observers), Outage(environment))


async def test_expired_leases_are_given_back_and_told(harness: WorkerHarness) -> None:
    clock, notifier, heard = ManualClock(), LocalNotifier(), list[Notification]()
    await notifier.subscribe(heard.append)
    reaper = make_reaper(harness, clock, "me", notifier)
    living = await add(harness, clock)
    await claim(harness, clock)
    clock.advance(29.999999)
    assert await reaper.reap() == 0
    clock.advance(0.000001)
    dying = await add(harness, clock, max_losses=1)
    assert await reaper.reap() == 1
    await claim(harness, clock)
    clock.advance(30)
    assert await reaper.reap() == 2
    assert {(event.job_id, event.dead) for event in harness.seen(JobReaped)} == {
        (living, False),
        (dying, True),
    }
    assert await harness.state(dying) is JobState.FAILED
    assert (await harness.get(living)).losses == 2
    await asyncio.sleep(0)
    assert OwnershipLost(living, "lease_expired", "dead") in heard
    assert SequenceEnded(dying) in heard
    created = (await harness.get(living)).created_at
    assert JobsScheduled("default", "work", 1, created) in heard
    await notifier.close()


async def test_many_reapers_give_each_job_back_once(harness: WorkerHarness) -> None:
    clock = ManualClock()
    reapers = [make_reaper(harness, clock, f"worker{n}") for n in range(8)]
    for _ in range(10):
        await add(harness, clock)
    await claim(harness, clock)
    clock.advance(31)
    await asyncio.gather(*(reaper.reap() for reaper in reapers))
    assert len(harness.seen(JobReaped)) == 10


async def test_what_is_old_is_pruned_and_who_is_dead_forgotten(harness: WorkerHarness) -> None:
    clock = ManualClock()
    settings = WorkerSettings(retention=Retention(completed=timedelta(hours=1)))
    maintenance = Maintenance(
        WorkerEnvironment(settings, harness.store, clock, Observers([harness]))
    )
    done = await add(harness, clock)
    (token,) = await claim(harness, clock)
    await harness.store.run(harness.store.settle, [Complete(done, token)], now=clock.now())
    waiting = await add(harness, clock, "work")
    await beat(harness, clock, "old", "work")
    clock.advance(3599)
    await beat(harness, clock, "new", "work")
    await maintenance.maintain(asyncio.Event())
    assert await harness.state(done) is JobState.COMPLETED
    assert [worker.id for worker in await harness.store.run(harness.store.workers)] == ["new"]
    clock.advance(2)
    await maintenance.maintain(asyncio.Event())
    assert await harness.store.run(harness.store.get, [done]) == [None]
    assert await harness.state(waiting) is JobState.PENDING
    assert [event.count for event in harness.seen(JobsPruned)] == [1]


async def test_what_operators_did_long_ago_is_forgotten(harness: WorkerHarness) -> None:
    clock = ManualClock()
    maintenance = Maintenance(
        WorkerEnvironment(WorkerSettings(), harness.store, clock, Observers([harness]))
    )
    note = AuditRecord(
        id=new_id(),
        at=clock.now(),
        actor="anna",
        action="pause",
        target="mail",
        count=1,
        before="working",
        after="paused",
    )
    await harness.store.run(harness.store.add_audit, note, now=clock.now())
    clock.advance(90 * 86_400)
    await maintenance.maintain(asyncio.Event())
    assert (await harness.store.run(harness.store.audit_page)).records == [note]
    clock.advance(1)
    await maintenance.maintain(asyncio.Event())
    assert (await harness.store.run(harness.store.audit_page)).records == []


class CountingPrunes(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    def prune(self, rule: PruneRule, limit: int, *, now: datetime | None = None) -> Operation[int]:
        self.limits.append(limit)
        return super().prune(rule, limit, now=now)


async def test_the_more_is_old_the_more_is_pruned_at_once() -> None:
    harness = WorkerHarness(store := CountingPrunes())
    await store.open()
    settings = WorkerSettings(retention=Retention(completed=timedelta(0)))
    tomorrow = ManualClock(datetime.now(UTC) + timedelta(days=1))  # by it, pruning takes no time
    maintenance = Maintenance(WorkerEnvironment(settings, store, tomorrow, Observers([harness])))

    @harness.job
    async def work() -> None: ...

    await harness.start(*(work.request() for _ in range(20_000)))
    await harness.drain()
    await maintenance.maintain(asyncio.Event())
    assert [event.count for event in harness.seen(JobsPruned)] == [20_000]
    assert len(store.limits) < 20
    assert max(store.limits) > 1_000


async def test_types_that_nobody_runs_are_pointed_out_now_and_then(harness: WorkerHarness) -> None:
    clock = ManualClock()
    settings = WorkerSettings(forget_workers_after=1e9)
    maintenance = Maintenance(
        WorkerEnvironment(settings, harness.store, clock, Observers([harness]))
    )
    await add(harness, clock, "known")
    await add(harness, clock, "unknown")
    await beat(harness, clock, "me", "known")
    for _ in range(100):
        await maintenance.maintain(asyncio.Event())
        clock.advance(60)
    assert [event.types for event in harness.seen(TypesUnattended)] == [("unknown",)] * 2


async def beat(harness: WorkerHarness, clock: ManualClock, worker: str, *types: str) -> None:
    record = WorkerRecord(
        id=worker,
        host="here",
        pid=1,
        queues=("default",),
        types=types,
        concurrency=1,
        running=0,
        started_at=clock.now(),
        seen_at=clock.now(),
    )
    await harness.store.run(harness.store.save_worker, record, now=clock.now())
