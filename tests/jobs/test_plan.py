"""What a start or a continuation stores, in which order, and how the jobs belong together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from headway import After, Dedup, Headway, Job
from headway.domain.job import ClaimedJob, NewJob
from headway.domain.lease import Lease
from headway.domain.request import SequenceReference
from headway.errors import InvalidName, InvalidOption, InvalidRequest
from headway.jobs.ids import new_id
from headway.jobs.plan import plan_start, plan_successor, store_blockers
from headway.ports.current_attempt import current_attempt
from headway.ports.statement import Operation
from headway.ports.store import Inserted
from headway.worker.attempt import Attempt
from headway.worker.claims.slots import QueueSlots
from headway.worker.settings import WorkQueue

app = Headway("memory://")
NOW = datetime(2024, 1, 1, tzinfo=UTC)


@app.job(queue="money")
async def charge(order_id: int) -> str:
    return str(order_id)


@app.job
async def ship(job: Job[str]) -> str:
    return job.blockers[0]


@app.job
async def gather(job: Job[*tuple[str, ...]]) -> str:
    return ""


@app.job(entry=False)
async def confirm(job: Job[str]) -> str:
    return ""


PARENT = ClaimedJob(
    id=new_id(),
    type="place",
    queue="default",
    priority=0,
    input="{}",
    run_at=NOW,
    created_at=NOW,
    attempts=0,
    losses=0,
    max_attempts=4,
    max_losses=5,
    timeout=None,
    lease=Lease("token", 1, NOW),
    sequence_id=new_id(),
    sequence_type="order",
    root_id=new_id(),
    origin_id=None,
    position=2,
    has_blockers=False,
    trace="trace",
)


def test_ids_sort_by_the_time_of_their_making():
    ids = [new_id() for _ in range(100)]
    assert ids == sorted(set(ids))
    assert all(UUID(one).version == 7 for one in ids)


def test_a_plain_job_begins_its_own_sequence():
    plan = plan_start([charge.request(1).using(schedule=After(seconds=3), priority=2)])
    (job,) = plan.jobs
    assert (job.type, job.input, job.queue, job.priority) == (
        "charge",
        '{"order_id":1}',
        "money",
        2,
    )
    assert job.schedule == After(seconds=3)
    assert (job.sequence_id, job.root_id, job.origin_id, job.position) == (None, None, None, 0)
    assert not job.id_given


def test_blockers_come_first_and_belong_to_the_job_that_waits():
    known = SequenceReference[str](new_id())
    request = gather.request().using(
        blockers=[charge.request(1), known, ship.request().using(blockers=(charge.request(2),))]
    )
    plan = plan_start([charge.request(0), request])
    alone, first, deepest, shipping, gathering = plan.jobs
    assert [job.type for job in plan.jobs] == ["charge", "charge", "charge", "ship", "gather"]
    assert plan.heads == [0, 4]
    assert gathering.blockers == (first.id, known.id, shipping.id)
    assert shipping.blockers == (deepest.id,)
    assert [job.root_id for job in plan.jobs] == [None, *[gathering.id] * 3, None]
    assert [job.only_for for job in plan.jobs] == [
        None,
        gathering.id,
        shipping.id,
        gathering.id,
        None,
    ]
    assert alone.blockers == ()


def test_ids_are_normalised():
    given = UUID(int=7)
    plan = plan_start([charge.request(1).using(id=given), charge.request(2).using(id="8" * 32)])
    assert [job.id for job in plan.jobs] == [str(given), str(UUID("8" * 32))]
    assert all(job.id_given for job in plan.jobs)
    blocked: Any = ship.request().using(blockers=(str(given).upper(),))  # type: ignore[arg-type]
    assert plan_start([blocked]).jobs[0].blockers == (str(given),)


def test_what_a_handler_starts_inherits_origin_and_root():
    queue = QueueSlots(WorkQueue("default"), 1)
    token = current_attempt.set(Attempt(PARENT, None, queue, 0.0, 0.0, "worker"))
    try:
        plan = plan_start([ship.request().using(blockers=(charge.request(1),))])
    finally:
        current_attempt.reset(token)
    assert {job.origin_id for job in plan.jobs} == {PARENT.id}
    assert {job.root_id for job in plan.jobs} == {PARENT.root_id}
    assert {job.sequence_id for job in plan.jobs} == {None}


def test_a_successor_continues_its_parents_sequence():
    request = confirm.request().using(blockers=(charge.request(1),), schedule=After(days=1))
    succession = plan_successor(request, PARENT)
    successor, (blocker,) = succession.successor, succession.blockers
    assert successor.sequence_id == PARENT.sequence_id
    assert successor.sequence_type == "order"
    assert successor.root_id == blocker.root_id == PARENT.root_id
    assert successor.origin_id == blocker.origin_id == PARENT.id
    assert (successor.position, successor.trace) == (3, "trace")
    assert successor.blockers == (blocker.id,)
    assert blocker.sequence_id is None

    def stored(answer: Inserted) -> NewJob:
        store: Any = SimpleNamespace(insert=lambda _, **__: inserted(answer))
        step = store_blockers(store, succession, None)
        with pytest.raises(StopIteration) as end:
            next(step)
        return end.value.value[0]

    def inserted(answer: Inserted) -> Operation[list[Inserted]]:
        yield from ()
        return [answer]

    assert stored(Inserted(blocker.id, NOW)) is successor
    twin = Inserted(new_id(), NOW, deduplicated=True)
    assert stored(twin).blockers == (twin.id,)


def test_deduplication_is_handed_on():
    dedup = Dedup("k", scope="any", window=timedelta(hours=1), but_not=str(UUID(int=9)).upper())
    (job,) = plan_start([charge.request(1).using(dedup=dedup)]).jobs
    assert (job.dedup_key, job.dedup_any, job.dedup_window) == ("k", True, 3600.0)
    assert job.dedup_except == str(UUID(int=9))
    nobody = Dedup("k", but_not="")
    assert refused(charge.request(1).using(dedup=nobody)) == "an id must be a UUID; '' is not one"
    with pytest.raises(InvalidOption, match="give either dedup or idempotency_key, not both"):
        charge.request(1).using(dedup=dedup, idempotency_key="k")
    with pytest.raises(InvalidOption, match="a continuation cannot be deduplicated"):
        plan_successor(charge.request(1).using(dedup=dedup), PARENT)


def refused(*requests: Any) -> str:
    with pytest.raises(InvalidRequest) as raised:
        plan_start(requests)
    return str(raised.value)


def test_what_cannot_be_started_is_refused():
    only_continues: Any = confirm.request()
    assert refused(only_continues) == (
        "job type 'confirm' can only continue a sequence; "
        "declare it without entry=False to start it"
    )
    assert refused(charge) == (
        "start takes a request: write `app.start(charge.request(...))`, not `app.start(charge)`"
    )
    word: Any = "charge"
    assert refused(word) == (
        "start takes a request, not str: for a job type `charge`, write "
        "`app.start(charge.request(...))`"
    )
    assert refused(ship.request()) == (
        "job type 'ship' declares 1 blockers and was given 0; "
        "pass them with request.using(blockers=(...))"
    )
    plain: Any = charge.request(1)
    assert refused(plain.using(blockers=(plain,))) == (
        "job type 'charge' declares no blockers and was given 1; declare them in its handler's "
        "first parameter, as in `job: Job[str]`"
    )
    blocked: Any = ship.request()
    assert "can only continue a sequence" in refused(blocked.using(blockers=(only_continues,)))
    assert refused(blocked.using(blockers=(5,))) == (
        "a blocker of 'ship' must be a request, a sequence or a sequence's id, not int"
    )
    with pytest.raises(InvalidName, match="an id must be a UUID"):
        plan_start([blocked.using(blockers=("5",))])
    options: Any = {"blockers": (plain,)}
    with pytest.raises(InvalidOption, match="there is no option 'blockers'"):
        plan_start([blocked], options)


def test_a_continuation_cannot_wait_for_its_own_sequence():
    own = SequenceReference[str](PARENT.sequence_id)
    with pytest.raises(InvalidRequest, match="it would wait for itself"):
        plan_successor(confirm.request().using(blockers=(own,)), PARENT)
