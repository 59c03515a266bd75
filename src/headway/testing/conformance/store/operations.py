"""run and run_sync, with single verbs and with operations of several verbs."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

from headway.domain.job import ClaimedJob, JobState
from headway.domain.lease import Held, Verdict
from headway.domain.settlement import Complete, Settled
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import LEASE, T0, StoreCases, at

case = StoreCases("operations")


@case
async def operations_can_be_composed(store: Store) -> None:
    def flow(queue: str) -> Operation[Settled]:
        yield from store.insert([kit.new_job(queue=queue), kit.new_job(queue=queue)], now=T0)
        jobs = yield from store.claim(kit.order(queue, limit=2), now=at(1))
        done = [Complete(job.id, job.lease.token, "1") for job in jobs]
        return (yield from store.settle(done, now=at(2)))

    settled = await store.run(flow, "q")
    assert settled.verdicts == [Verdict.APPLIED, Verdict.APPLIED]
    assert {job.state for job in await kit.everything(store)} == {JobState.COMPLETED}


@case
async def a_composed_operation_happens_whole_or_not_at_all(store: Store) -> None:
    job = await kit.running(store)
    before = await kit.snapshot(store)

    def flow() -> Operation[None]:
        yield from store.insert([kit.new_job(dedup_key="k")], now=T0)
        yield from store.settle([Complete(job.id, job.lease.token, "1")], now=at(1))
        yield from store.claim(kit.order(), now=at(1))
        raise LookupError("on second thoughts")

    with raises(LookupError):
        await store.run(flow)
    assert await kit.snapshot(store) == before


@case
async def keyword_arguments_reach_the_operation(store: Store) -> None:
    def flow(number: int, *, text: str) -> Operation[str]:
        yield from store.get([])
        return text * number

    assert await store.run(flow, 3, text="ab") == "ababab"


@case
async def threads_run_operations_without_a_loop(store: Store) -> None:
    job = kit.new_job(queue="q")

    def work() -> JobState:
        store.run_sync(store.insert, [job], now=T0)
        (claimed,) = store.run_sync(store.claim, kit.order("q"), now=T0)
        held = [Held(claimed.id, claimed.lease.token)]
        assert store.run_sync(store.extend, held, LEASE, now=at(1)) == [Verdict.APPLIED]
        store.run_sync(store.settle, [Complete(claimed.id, claimed.lease.token)], now=at(2))
        (stored,) = store.run_sync(store.get, [job.id])
        assert stored is not None
        return stored.state

    assert await asyncio.to_thread(work) is JobState.COMPLETED
    assert await kit.state_of(store, job.id) is JobState.COMPLETED


@case
async def errors_reach_the_thread(store: Store) -> None:
    def work() -> None:
        with raises(LookupError):
            store.run_sync(flow)

    def flow() -> Operation[None]:
        yield from store.insert([kit.new_job()], now=T0)
        raise LookupError("no")

    await asyncio.to_thread(work)
    assert await kit.everything(store) == []


@case
async def threads_and_tasks_never_share_a_job(store: Store) -> None:
    jobs = [kit.new_job() for _ in range(300)]
    await kit.insert(store, *jobs)

    def thread() -> list[ClaimedJob]:
        taken: list[ClaimedJob] = []
        while batch := store.run_sync(store.claim, kit.order(limit=5), now=T0):
            taken += batch
        return taken

    async def task() -> list[ClaimedJob]:
        taken: list[ClaimedJob] = []
        while batch := await store.run(store.claim, kit.order(limit=5), now=T0):
            taken += batch
        return taken

    answers = await asyncio.gather(
        *[asyncio.to_thread(thread) for _ in range(4)], *[task() for _ in range(4)]
    )
    taken = Counter(job.id for answer in answers for job in answer)
    assert taken == Counter(job.id for job in jobs)


@case
async def a_thread_renews_while_the_loop_stands_still(store: Store) -> None:
    job = await kit.running(store)
    held = [Held(job.id, job.lease.token)]
    answers: list[list[Verdict]] = []

    def heartbeat() -> None:
        for number in range(1, 6):
            answers.append(store.run_sync(store.extend, held, LEASE, now=at(number)))  # noqa: PERF401 - as far as it got

    thread = threading.Thread(target=heartbeat)
    thread.start()
    thread.join(20)
    assert answers == [[Verdict.APPLIED]] * 5
    stored = await kit.read(store, job.id)
    assert stored.lease is not None
    assert stored.lease.until == at(5 + LEASE)


@case
async def a_hint_never_raises(store: Store) -> None:
    job_id = await kit.add(store)
    store.expect("default", T0)
    store.expect("default", None)
    store.expect("no-such-queue", at(-1e6))
    (job,) = await store.run(store.claim, kit.order(limit=5), now=T0)
    assert job.id == job_id


@case
async def jobs_due_long_ago_are_found_after_later_ones_were_claimed(store: Store) -> None:
    for number in range(10):
        await kit.add(store, now=at(100 + number))
    assert len(await store.run(store.claim, kit.order(limit=100), now=at(200))) == 10
    early = await kit.add(store, now=T0)
    store.expect("default", T0)
    (job,) = await store.run(store.claim, kit.order(limit=5), now=at(201))
    assert job.id == early
