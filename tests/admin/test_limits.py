"""What operators are told of limits and what they do with them, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from headway import After, Rate
from headway.domain.limits.limit_views import HoldRelease, KeyUse, QueuePermits
from headway.domain.limits.permits import Limit, PermitWait
from headway.domain.limits.queue_limits import LimitsOverride, QueueLimits, QueueState
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import WorkerRecord
from headway.domain.views import AuditRecord, Explanation, Reason
from headway.errors import InvalidName, InvalidOption
from headway.jobs.ids import new_id
from headway.limits.changes import declare, hold
from headway.limits.claim import claim_limited
from headway.limits.key_claim import KeyTurns
from headway.ports.notifications import ANY_TYPE, JobsScheduled
from headway.testing.clock import ManualClock
from tests.support.shop import Shop

NOON = datetime(2030, 6, 1, 12, tzinfo=UTC)
RATE = Rate(6, per=60, burst=2)
WOKEN = JobsScheduled("money", ANY_TYPE, 0, None)
"""All workers of the queue look at its limits."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def shop(store_url: str, clock: ManualClock) -> AsyncIterator[Shop]:
    shop = Shop(store_url, migrate=True, clock=clock)
    async with shop.app:
        yield shop


async def beat(shop: Shop, id: str = "anna:1", **fields: object) -> WorkerRecord:
    """A worker that lives now."""
    now = shop.app.clock.now()
    given = {
        "host": "anna",
        "pid": 1,
        "queues": ("default", "money"),
        "types": tuple(shop.app.registry.handlers()),
        "concurrency": 20,
        "running": 0,
        "started_at": now,
        "seen_at": now,
        "limits": {},
    }
    worker = WorkerRecord(id=id, **given | fields)  # type: ignore[arg-type]
    await shop.app.store.run(shop.app.store.save_worker, worker, now=now)
    return worker


async def declared(shop: Shop, id: str = "anna:1", **limits: object) -> None:
    """Limits of the queue money that a living worker declares."""
    declaration = {"money": QueueLimits(**limits)}  # type: ignore[arg-type]
    prints = {name: each.fingerprint for name, each in declaration.items()}
    worker = await beat(shop, id, limits=prints)
    store = shop.app.store
    await store.run(declare, store, worker, declaration, now=shop.app.clock.now())


async def held(shop: Shop, seconds: float, key: str | None = None) -> None:
    store, now = shop.app.store, shop.app.clock.now()
    await store.run(hold, store, "money", key, After(seconds=seconds), now=now)


async def started(shop: Shop, *keys: str | None) -> list[str]:
    return [(await shop.app.start(shop.charge.request(1), key=key)).id for key in keys]


async def claimed(shop: Shop, limit: int = 20) -> int:
    """As a worker does it."""
    order = ClaimOrder(
        worker="anna:1",
        token=new_id(),
        lease_for=30,
        queues=(QueueShare("money", limit),),
        types=("charge",),
        limit=limit,
    )
    store = shop.app.store
    claim = await store.run(claim_limited, store, order, KeyTurns(), now=shop.app.clock.now())
    return len(claim.jobs)


async def permits(shop: Shop, name: str = "money") -> QueuePermits:
    found = (await shop.app.questions.queue(name)).queue.permits
    assert found is not None
    return found


async def why(shop: Shop, id: str) -> Explanation:
    said = await shop.app.questions.why(id)
    assert (await shop.app.questions.job(id)).explanation == said
    return said


async def notes(shop: Shop) -> list[AuditRecord]:
    return (await shop.app.questions.audit()).records


async def state(shop: Shop) -> QueueState | None:
    return await shop.app.store.run(shop.app.store.queue_state, "money")


async def test_a_queue_without_limits(shop: Shop) -> None:
    await started(shop, "a")
    detail = await shop.app.questions.queue("money")
    assert (detail.queue.permits, detail.warning) == (None, None)
    assert [each.permits for each in await shop.app.questions.queues()] == [None]
    await declared(shop)  # no limits any more
    assert (await shop.app.questions.queue("money")).queue.permits is None


async def test_an_unknown_queue_is_shown_with_a_warning(shop: Shop) -> None:
    detail = await shop.app.questions.queue("mony")
    assert detail.queue.name == "mony"
    assert detail.warning == "no job, worker or job type uses queue mony; did you mean money?"
    shop.app.queue("quiet", running=1)
    assert (await shop.app.questions.queue("quiet")).warning is None
    with pytest.raises(InvalidName):
        await shop.app.questions.queue("")


async def test_permits_of_a_queue(shop: Shop, clock: ManualClock) -> None:
    await declared(shop, running=5, per_key=2, rate=RATE)
    await declared(shop, "bert:1", running=5, per_key=2, rate=RATE)
    await beat(shop, "cleo:1", limits={"money": "another"})
    await started(shop, "b", "b", "a", None, "a", "a")
    assert await claimed(shop, 2) == 2
    found = await permits(shop)
    assert (found.running, found.free, found.declared_by) == (2, 3, 2)
    assert found.declared == found.effective == QueueLimits(running=5, per_key=2, rate=RATE)
    assert (found.override, found.overridden_at, found.held_until) == (None, None, None)
    assert found.next_start_in == pytest.approx(RATE.interval, abs=0.001)
    assert found.keys == (KeyUse("b", 2),)
    clock.advance(60)
    assert await claimed(shop, 2) == 2
    await held(shop, 30)
    await held(shop, 20, "z")
    found = await permits(shop)
    assert (found.running, found.free) == (4, 1)
    assert found.next_start_in == pytest.approx(RATE.interval, abs=0.001)
    assert found.held_until == clock.now() + timedelta(seconds=30)
    until = clock.now() + timedelta(seconds=20)
    assert found.keys == (KeyUse("z", 0, until), KeyUse("b", 2), KeyUse("a", 1))
    (listed,) = [each for each in await shop.app.questions.queues() if each.name == "money"]
    assert listed.permits == replace(found, keys=(KeyUse("z", 0, until),))
    clock.advance(60)
    found = await permits(shop)
    assert (found.held_until, found.next_start_in) == (None, 0.0)
    assert found.keys == (KeyUse("b", 2), KeyUse("a", 1))


async def test_weights_are_not_listed(shop: Shop) -> None:
    await declared(shop, fair=True, weights={"a": 3})
    found = await permits(shop)
    assert found.declared.weights == found.effective.weights == {"a": 3}
    (listed,) = [each for each in await shop.app.questions.queues() if each.name == "money"]
    fair = QueueLimits(fair=True)
    assert listed.permits == replace(found, declared=fair, effective=fair)
    assert found.declared_by == 1


async def test_shown_keys_are_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.admin.limits.permit_details.SHOWN_KEYS", 2)
    await declared(shop, running=50)
    await started(shop, "a", "b", "b", "c", "c", "c")
    assert await claimed(shop) == 6
    assert (await permits(shop)).keys == (KeyUse("c", 3), KeyUse("b", 2))


async def test_a_held_queue_without_limits(shop: Shop, clock: ManualClock) -> None:
    await held(shop, 30)
    found = await permits(shop)
    assert (found.free, found.next_start_in, found.effective) == (None, None, QueueLimits())
    clock.advance(31)
    assert (await shop.app.questions.queue("money")).queue.permits is None


async def test_override_and_clear(shop: Shop, clock: ManualClock) -> None:
    await declared(shop, running=40, per_key=2, fair=True)
    operator = shop.app.actions("carol")
    shop.ear.heard.clear()
    changed = await operator.limit_queue("money", running=1, rate=RATE)
    assert shop.ear.heard == [WOKEN]
    expected = QueueLimits(running=1, per_key=2, rate=RATE, fair=True)
    assert (changed.queue, changed.effective, changed.warning) == ("money", expected, None)
    assert changed.override == LimitsOverride(running=1, rate=RATE)
    await started(shop, "a", "b")
    assert await claimed(shop) == 1
    clock.advance(60)
    changed = await operator.limit_queue("money", per_key=None)  # besides the others
    assert changed.effective == QueueLimits(running=1, rate=RATE, fair=True)
    assert changed.override == LimitsOverride(running=1, per_key=None, rate=RATE)
    found = await permits(shop)
    assert (found.overridden_at, found.override) == (clock.now(), changed.override)
    shop.ear.heard.clear()
    changed = await operator.clear_limits("money")
    assert shop.ear.heard == [WOKEN]
    assert changed.override is None
    assert changed.effective == QueueLimits(running=40, per_key=2, fair=True)
    assert (await permits(shop)).overridden_at is None
    cleared, second, first = await notes(shop)
    assert (first.action, first.target, first.actor, first.count) == (
        "limit queue",
        "money",
        "carol",
        1,
    )
    assert first.before == "40 running; 2 per key; fair"
    assert first.after == "1 running; 2 per key; 6 in 60 s, 2 at once; fair"
    assert (second.before, second.after) == (first.after, "1 running; 6 in 60 s, 2 at once; fair")
    assert (cleared.action, cleared.before) == ("clear limits", second.after)
    assert cleared.after == "40 running; 2 per key; fair"


async def test_a_change_of_nothing_leaves_no_trace(shop: Shop) -> None:
    operator = shop.app.actions("carol")
    for name in ("money", "mony"):
        cleared = await operator.clear_limits(name)
        assert (cleared.effective, cleared.override) == (QueueLimits(), None)
        released = await operator.release_hold(name)
        assert (released.held_until, released.held_keys) == (None, 0)
    assert (cleared.warning, released.warning) == (
        "no job, worker or job type uses queue mony; did you mean money?",
    ) * 2
    with pytest.raises(InvalidOption, match="name a limit to change"):
        await operator.limit_queue("money")
    assert (await notes(shop), shop.ear.heard, await state(shop)) == ([], [], None)


async def test_limits_that_cannot_be(shop: Shop) -> None:
    operator = shop.app.actions("carol")
    with pytest.raises(InvalidOption, match="at least 1; to start nothing, pause the queue"):
        await operator.limit_queue("money", running=0)
    with pytest.raises(InvalidOption, match="between 1 and 1,000,000, not -2"):
        await operator.limit_queue("money", per_key=-2)
    with pytest.raises(InvalidOption, match="whole number"):
        await operator.limit_queue("money", running=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="must be made with Rate"):
        await operator.limit_queue("money", rate=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        await operator.limit_queue("", running=1)
    assert await notes(shop) == []


async def test_an_unknown_queue_is_limited_with_a_warning(shop: Shop) -> None:
    changed = await shop.app.actions("carol").limit_queue("mony", running=3)
    assert changed.warning == "no job, worker or job type uses queue mony; did you mean money?"
    assert "mony" in [each.name for each in await shop.app.questions.queues()]
    assert (await permits(shop, "mony")).free == 3


async def test_the_end_of_a_hold(shop: Shop, clock: ManualClock) -> None:
    await started(shop, "a", "z")
    await held(shop, 30)
    await held(shop, 20, "z")
    await held(shop, 5, "y")
    clock.advance(10)
    until = NOON + timedelta(seconds=30)
    shop.ear.heard.clear()
    released = await shop.app.actions("carol").release_hold("money")
    assert released == HoldRelease(queue="money", held_until=until, held_keys=1)
    assert shop.ear.heard == [WOKEN]
    (note,) = await notes(shop)
    assert (note.action, note.target, note.count) == ("release hold", "money", 1)
    assert note.before == "held until 2030-06-01 12:00:30 UTC; 1 key held"
    assert note.after == "not held"
    assert await claimed(shop) == 2


async def test_another_rate_keeps_the_number_of_paid_starts(shop: Shop, clock: ManualClock) -> None:
    await declared(shop, rate=Rate(1, per=3_600))
    await started(shop, "a", "b")
    assert await claimed(shop) == 1
    assert (await permits(shop)).next_start_in == pytest.approx(3_600, abs=1)
    await shop.app.actions("carol").limit_queue("money", rate=Rate(1, per=10))
    assert (await permits(shop)).next_start_in == pytest.approx(10, abs=0.1)
    assert await claimed(shop) == 0
    clock.advance(11)
    assert await claimed(shop) == 1
    await declared(shop, rate=Rate(1, per=60))  # an override stays in force
    assert (await permits(shop)).next_start_in == pytest.approx(10, abs=0.1)


async def test_why_a_job_has_no_permit(shop: Shop, clock: ManualClock) -> None:
    await declared(shop, running=3, per_key=2)
    *_, last = await started(shop, "a", "a", "a")
    assert (await why(shop, last)).reason is Reason.DUE
    assert await claimed(shop) == 2
    said = await why(shop, last)
    assert (said.reason, said.job_id) == (Reason.PERMIT, last)
    assert said.sentence == "waiting for a permit: key a has 2 of 2 running"
    assert said.waits_for == (PermitWait(limit=Limit.PER_KEY, used=2, most=2, key="a"),)
    (other, without_key) = await started(shop, "b", None)
    assert (await why(shop, other)).reason is Reason.DUE
    assert await claimed(shop, 1) == 1
    assert (await why(shop, last)).sentence == (
        "waiting for a permit: 3 of 3 jobs of money are running; key a has 2 of 2 running"
    )
    said = await why(shop, without_key)
    assert said.sentence == "waiting for a permit: 3 of 3 jobs of money are running"
    assert said.waits_for == (PermitWait(limit=Limit.RUNNING, used=3, most=3),)
    await shop.app.actions("carol").limit_queue("money", running=None, per_key=None, rate=RATE)
    assert (await why(shop, last)).reason is Reason.DUE
    assert await claimed(shop, 2) == 2
    (waiting,) = await started(shop, "c")
    said = await why(shop, waiting)
    assert said.sentence == "waiting for a permit: the rate of money allows the next start in 12 s"
    (wait,) = said.waits_for
    assert wait.limit is Limit.RATE
    assert wait.again_in == pytest.approx(RATE.interval, abs=0.001)
    clock.advance(61)
    await beat(shop)
    assert (await why(shop, waiting)).reason is Reason.DUE


async def test_why_a_held_job_waits(shop: Shop) -> None:
    await beat(shop)
    held_key, other = await started(shop, "a", "b")
    await held(shop, 20, "a")
    said = await why(shop, held_key)
    until = "2030-06-01 12:00:20 UTC (in 20 s), because a job asked for it"
    assert said.sentence == f"waiting: key a of queue money is held until {until}"
    assert said.waits_for == (PermitWait(limit=Limit.HELD, again_in=20.0, key="a"),)
    assert (await why(shop, other)).reason is Reason.DUE
    await held(shop, 20)
    said = await why(shop, other)
    assert said.sentence == f"waiting: queue money is held until {until}"
    assert (await why(shop, held_key)).sentence == (
        f"waiting: queue money is held until {until}; key a of queue money is held until {until}"
    )


async def test_what_comes_before_a_permit(shop: Shop, clock: ManualClock) -> None:
    await declared(shop, running=1)
    _, waiting = await started(shop, "a", "b")
    later = await shop.app.start(shop.charge.request(1), schedule=After(minutes=4))
    assert await claimed(shop) == 1
    assert (await why(shop, waiting)).reason is Reason.PERMIT
    assert (await why(shop, later.id)).reason is Reason.SCHEDULED
    await beat(shop, concurrency=1, running=1)
    assert (await why(shop, waiting)).reason is Reason.PERMIT  # more slots would not help
    await beat(shop, queues=("default",))
    assert (await why(shop, waiting)).reason is Reason.NO_WORKER_FOR_QUEUE
    clock.advance(60)
    assert (await why(shop, waiting)).reason is Reason.NO_WORKER
    await shop.app.pause("money")
    assert (await why(shop, waiting)).reason is Reason.PAUSED


async def test_a_job_is_started_with_keys(shop: Shop) -> None:
    operator = shop.app.actions("carol")
    first = await operator.start("charge", '{"order_id": 7}', key="tenant-7", dedup="order-7")
    again = await operator.start("charge", '{"order_id": 7}', key="tenant-8", dedup="order-7")
    assert again == first
    job = (await shop.app.questions.job(first.id)).job
    assert (job.key, job.dedup_key) == ("tenant-7", "order-7")
