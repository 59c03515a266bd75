"""Why a job is where it is, in one sentence, on every store."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headway import After, Job
from headway.domain.failure import encode_failure
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.retry import Fixed
from headway.domain.views import Explanation, Reason
from headway.errors import Failure
from headway.jobs.ids import new_id
from tests.admin.test_questions import beat
from tests.support.shop import Shop

ERROR = encode_failure(Failure("Declined", "order 7\nis not paid"))


async def why(shop: Shop, id: str) -> Explanation:
    return await shop.app.questions.why(id)


async def test_scheduled(shop: Shop) -> None:
    job = await shop.app.start(shop.charge.request(1), schedule=After(minutes=4))
    said = await why(shop, job.id)
    assert (said.job_id, said.reason) == (job.id, Reason.SCHEDULED)
    soon = r"scheduled, to run in (4 m|3 m \d+ s)"
    assert re.fullmatch(soon, said.sentence)
    await shop.app.pause("money")
    said = await why(shop, job.id)
    assert re.fullmatch(soon + "; its queue money is paused", said.sentence)


async def test_a_retry_is_scheduled_and_says_after_what(shop: Shop) -> None:
    @shop.app.job(retry=Fixed(3_600))
    async def broken() -> None:
        raise ValueError("no such order")

    job = await shop.app.start(broken.request())
    await shop.app.worker(queues=["default"]).run(drain=True)
    said = await why(shop, job.id)
    assert said.reason is Reason.SCHEDULED
    soon = r"scheduled, to run in (1 h|59 m \d+ s)"
    assert re.fullmatch(soon + ", after it failed with ValueError: no such order", said.sentence)


async def test_paused(shop: Shop) -> None:
    job = await shop.app.start(shop.charge.request(1))
    await shop.app.pause("money")
    said = await why(shop, job.id)
    assert said.reason is Reason.PAUSED
    assert said.sentence.startswith("waiting: its queue money is paused since ")


async def test_no_worker(shop: Shop) -> None:
    job = await shop.app.start(shop.charge.request(1))
    said = await why(shop, job.id)
    assert said.reason is Reason.NO_WORKER
    assert said.sentence == "waiting: there is no living worker"
    await beat(shop, types=("ship",))
    said = await why(shop, job.id)
    assert said.reason is Reason.NO_WORKER
    assert said.sentence == "waiting: the one living worker does not implement job type charge"
    await beat(shop, id="bert", types=("ship",))
    said = await why(shop, job.id)
    assert said.sentence == "waiting: none of the 2 living workers implements job type charge"


async def test_a_worker_that_is_dead_does_not_count(shop: Shop) -> None:
    store = shop.app.store
    job = await shop.app.start(shop.charge.request(1))
    await beat(shop)
    (worker,) = await store.run(store.workers)
    long_ago = datetime.now(UTC) - timedelta(minutes=5)
    await store.run(store.save_worker, worker, now=long_ago)
    assert (await why(shop, job.id)).reason is Reason.NO_WORKER


async def test_no_worker_for_the_queue(shop: Shop) -> None:
    job = await shop.app.start(shop.charge.request(1))
    await beat(shop, queues=("default",))
    said = await why(shop, job.id)
    assert said.reason is Reason.NO_WORKER_FOR_QUEUE
    assert "no living worker that implements charge works on queue money" in said.sentence


async def test_busy_and_due(shop: Shop) -> None:
    job = await shop.app.start(shop.charge.request(1))
    await beat(shop, running=2)
    said = await why(shop, job.id)
    assert said.reason is Reason.BUSY
    assert said.sentence == "waiting: all 2 slots of the 1 worker for it are busy"
    await beat(shop, id="bert", running=1)
    assert (await why(shop, job.id)).reason is Reason.DUE


async def test_running_and_lost(shop: Shop) -> None:
    store = shop.app.store
    job = await shop.app.start(shop.charge.request(1))
    (claimed,) = await shop.claim("money")
    said = await why(shop, job.id)
    assert said.reason is Reason.RUNNING
    assert said.sentence.startswith("running for ")
    assert "tester holds its lease until " in said.sentence
    other = await shop.app.start(shop.charge.request(2))
    order = ClaimOrder(
        worker="tester",
        token=new_id(),
        lease_for=30,
        queues=(QueueShare("money", 1),),
        types=("charge",),
        limit=1,
    )
    now = datetime.now(UTC)
    await store.run(store.trigger, [other.id], now=now - timedelta(hours=2))
    await store.run(store.claim, order, now=now - timedelta(hours=1))
    said = await why(shop, other.id)
    assert said.reason is Reason.LEASE_EXPIRED
    assert "tester's lease ran out at " in said.sentence
    assert said.sentence.endswith("waits for a worker to reap it")
    await beat(shop)
    assert (await why(shop, other.id)).sentence.endswith("waits for the reaper")
    assert claimed.id == job.id


async def test_failed_cancelled_and_completed(shop: Shop) -> None:
    app = shop.app
    done = await app.start(shop.charge.request(1))
    await shop.work("null")
    said = await why(shop, done.id)
    assert said.reason is Reason.COMPLETED
    assert said.sentence.startswith("completed at ")
    dead = await app.start(shop.charge.request(2))
    await shop.fail(ERROR)
    said = await why(shop, dead.id)
    assert said.reason is Reason.FAILED
    assert said.sentence == (
        "dead-lettered after it failed once, the last time with Declined: order 7 is not paid"
    )
    stopped = await app.start(shop.charge.request(3))
    await app.cancel(stopped)
    said = await why(shop, stopped.id)
    assert said.reason is Reason.CANCELLED
    assert said.sentence.startswith("cancelled at ")


async def test_a_sequence_that_goes_on(shop: Shop) -> None:
    @shop.app.job
    async def first(job: Job) -> object:
        return job.continue_with(shop.charge.request(1), schedule=After(hours=2))

    sequence = await shop.app.start(first.request())
    await shop.app.worker(queues=["default"]).run(drain=True)
    current = await shop.app.current(sequence)
    said = await why(shop, sequence.id)
    assert said.reason is Reason.COMPLETED
    soon = r"scheduled, to run in (2 h|1 h 59 m)"
    assert re.search(f"its sequence is at charge {current.id}, {soon}$", said.sentence)
    assert [each.reason for each in said.because] == [Reason.SCHEDULED]


async def test_blocked_says_by_which_and_why_that_is_not_done(shop: Shop) -> None:
    waiting = await shop.app.start(shop.ship.request(1).using(blockers=(shop.charge.request(1),)))
    (blocker,) = (await shop.app.get(waiting)).blockers
    said = await why(shop, waiting.id)
    assert said.reason is Reason.BLOCKED
    assert said.sentence == (
        f"blocked by charge {blocker}, which is waiting: there is no living worker"
    )
    await shop.fail(ERROR)
    said = await why(shop, waiting.id)
    assert "which is dead-lettered after it failed once" in said.sentence
    assert [(each.job_id, each.reason) for each in said.because] == [(blocker, Reason.FAILED)]


async def test_blockers_of_blockers_are_explained_but_not_without_end(shop: Shop) -> None:
    app = shop.app

    @app.job
    async def link(job: Job[*tuple[object, ...]]) -> None: ...

    last = await app.start(shop.charge.request(1), schedule=After(hours=1))
    for _ in range(9):
        last = await app.start(link.request().using(blockers=[last]))
    said = await why(shop, last.id)
    depth = 0
    while said.because:
        (said,) = said.because
        depth += 1
    assert depth == 5
    assert said.reason is Reason.BLOCKED


async def test_many_blockers_are_not_all_named(shop: Shop) -> None:
    app = shop.app

    @app.job
    async def gather(job: Job[*tuple[object, ...]]) -> None: ...

    many = await app.start_many([shop.charge.request(n) for n in range(25)])
    waiting = await app.start(gather.request().using(blockers=list(many)))
    said = await why(shop, waiting.id)
    assert len(said.because) == 10
    assert said.sentence.endswith(" and by 15 more")
