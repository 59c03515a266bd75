"""What operators do, on every store: the effect, the audit row, and who is told."""

from __future__ import annotations

import asyncio

import pytest

from headway import After, Headway, JobState
from headway.domain.events import JobCancelled, JobCreated, JobRetried, JobsDeleted
from headway.domain.failure import encode_failure
from headway.domain.filters import parse_filter
from headway.domain.job import NewJob
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.queries import JobFilter
from headway.domain.views import AuditRecord, Batch, JobAction
from headway.errors import (
    Failure,
    InvalidName,
    InvalidOption,
    InvalidPayload,
    InvalidRequest,
    UnknownJobType,
)
from headway.jobs.ids import new_id, new_token
from headway.ports.admin import Actions
from headway.ports.notifications import JobsScheduled, OwnershipLost, SequenceEnded
from tests.support.shop import Shop

ERROR = encode_failure(Failure("Declined", "order 7"))


async def notes(shop: Shop) -> list[AuditRecord]:
    return (await shop.app.questions.audit()).records


async def act_on_all(operator: Actions, action: JobAction, which: JobFilter) -> tuple[int, int]:
    """To the end; how many were changed and passed over."""
    changed = passed_over = 0
    cursor: str | None = None
    while True:
        batch = await operator.act_on_all(action, which, cursor=cursor)
        changed += batch.changed
        passed_over += batch.passed_over
        cursor = batch.cursor
        if cursor is None:
            return changed, passed_over


async def test_retry(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    dead = await app.start(shop.charge.request(1))
    await shop.fail(ERROR)
    waiting = await app.start(shop.charge.request(2))
    shop.ear.heard.clear()
    shop.events.clear()
    batch = await operator.act(JobAction.RETRY, [dead.id, waiting.id, new_id(), dead.id])
    assert batch == Batch(changed=1, passed_over=2)
    assert (await app.get(dead)).state is JobState.PENDING
    assert [type(notification) for notification in shop.ear.heard] == [JobsScheduled]
    assert [type(event) for event in shop.events] == [JobRetried]
    (note,) = await notes(shop)
    assert (note.actor, note.action, note.count) == ("anna", "retry", 1)
    assert (note.before, note.after) == ("failed", "pending")
    assert dead.id in note.target


async def test_cancel(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    running = await app.start(shop.charge.request(1))
    await shop.claim("money")
    pending = await app.start(shop.charge.request(2))
    shop.ear.heard.clear()
    shop.events.clear()
    ids = [running.id, pending.id]
    assert await operator.act(JobAction.CANCEL, ids) == Batch(changed=2, passed_over=0)
    assert await operator.act(JobAction.CANCEL, ids) == Batch(changed=0, passed_over=2)
    assert {(await app.get(id)).state for id in ids} == {JobState.CANCELLED}
    heard = {type(notification) for notification in shop.ear.heard}
    assert heard == {OwnershipLost, SequenceEnded, JobsScheduled}  # a permit may be free
    assert sum(isinstance(event, JobCancelled) for event in shop.events) == 2
    (note,) = await notes(shop)  # what changed nothing leaves none
    assert note.before in ("1 running, 1 pending", "1 pending, 1 running")
    assert note.after == "cancelled"


async def test_trigger(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    later = await app.start(shop.charge.request(1), schedule=After(hours=1))
    shop.ear.heard.clear()
    assert await operator.act(JobAction.TRIGGER, [later.id]) == Batch(changed=1, passed_over=0)
    assert [job.id for job in await shop.claim("money")] == [later.id]
    assert JobsScheduled in {type(notification) for notification in shop.ear.heard}


async def test_delete(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    done = await app.start(shop.charge.request(1))
    await shop.work("null")
    pending = await app.start(shop.charge.request(2))
    shop.events.clear()
    batch = await operator.act(JobAction.DELETE, [done.id, pending.id])
    assert batch == Batch(changed=1, passed_over=1)
    assert [job.id for job in (await app.list()).jobs] == [pending.id]
    assert JobsDeleted(1) in shop.events
    (note,) = await notes(shop)
    assert (note.action, note.before, note.after) == ("delete", "completed", "deleted")
    assert (note.count, note.target) == (1, done.id)


async def test_a_deletion_is_noted_as_it_was(shop: Shop) -> None:
    """A sequence goes whole, by whichever of its jobs it was asked for."""
    app, store = shop.app, shop.app.store
    first = await app.get(await app.start(shop.charge.request(1)))
    following = NewJob(
        id=new_id(), type="charge", input="{}", sequence_id=first.id, root_id=first.id, position=1
    )
    await store.run(store.complete_without_lease, first.id, None, following)
    await app.cancel(first)
    batch = await app.actions("anna").act(JobAction.DELETE, [first.id, new_id()])
    assert batch == Batch(changed=1, passed_over=1)
    (note,) = await notes(shop)
    assert note.count == 2
    assert sorted(note.target.split(", ")) == sorted([first.id, following.id])
    assert note.before in ("1 completed, 1 cancelled", "1 cancelled, 1 completed")


async def test_a_sequence_is_named_by_any_of_its_jobs(shop: Shop) -> None:
    """As the client does it: the current job is changed. A filter means the jobs that match."""
    app, store, operator = shop.app, shop.app.store, shop.app.actions("anna")
    first = await app.get(await app.start(shop.charge.request(1)))
    following = NewJob(
        id=new_id(), type="charge", input="{}", sequence_id=first.id, root_id=first.id, position=1
    )
    await store.run(store.complete_without_lease, first.id, None, following)
    by_filter = parse_filter(f"id:{first.id}")
    assert await act_on_all(operator, JobAction.CANCEL, by_filter) == (0, 0)
    assert await operator.act(JobAction.CANCEL, [first.id], exactly=True) == Batch(
        changed=0, passed_over=1
    )
    batch = await operator.act(JobAction.CANCEL, [first.id, following.id])
    assert batch == Batch(changed=1, passed_over=1)
    assert (await app.get(following.id)).state is JobState.CANCELLED
    assert (await app.get(first.id)).state is JobState.COMPLETED
    (note,) = await notes(shop)
    assert (note.target, note.before) == (following.id, "pending")


async def test_the_note_tells_what_was_changed_not_what_was_seen_before(shop: Shop) -> None:
    app, store = shop.app, shop.app.store
    waiting = await app.start(shop.charge.request(1))
    order = ClaimOrder(
        worker="w",
        token=new_token(),
        lease_for=30.0,
        queues=(QueueShare("money", 1),),
        types=("charge",),
        limit=1,
    )
    async with store.begin() as tx:
        assert len(await store.run_in(tx, store.claim, order)) == 1
        acting = asyncio.create_task(app.actions("anna").act(JobAction.CANCEL, [waiting.id]))
        await asyncio.wait([acting], timeout=0.2)  # it waits for the commit
    assert await acting == Batch(changed=1, passed_over=0)
    (note,) = await notes(shop)
    assert (note.before, note.after) == ("running", "cancelled")


async def test_nothing_and_too_much(shop: Shop) -> None:
    operator = shop.app.actions("anna")
    assert await operator.act(JobAction.RETRY, []) == Batch(changed=0, passed_over=0)
    with pytest.raises(InvalidOption, match="use a filter"):
        await operator.act(JobAction.RETRY, [new_id() for _ in range(1_001)])
    with pytest.raises(InvalidName):
        await operator.act(JobAction.RETRY, ["nonsense"])
    assert await notes(shop) == []


async def test_everything_that_matches(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    await app.start_many([shop.charge.request(n) for n in range(1_200)])
    for _ in range(12):
        await shop.fail(ERROR)
    await app.start(shop.charge.request(1))
    which = parse_filter("type:charge error:declined")
    first = await operator.act_on_all(JobAction.RETRY, which)
    assert first.changed == 500
    assert first.cursor is not None
    second = await operator.act_on_all(JobAction.RETRY, which, cursor=first.cursor)
    assert second.changed == 500
    assert await act_on_all(operator, JobAction.RETRY, which) == (200, 0)
    assert await act_on_all(operator, JobAction.RETRY, which) == (0, 0)
    found = await notes(shop)
    assert [note.count for note in found] == [200, 500, 500]
    assert {note.target for note in found} == {"filter: type:charge error:declined"}
    cancelled = await act_on_all(operator, JobAction.CANCEL, parse_filter("queue:money"))
    assert cancelled == (1_201, 0)
    assert await act_on_all(operator, JobAction.DELETE, JobFilter()) == (1_201, 0)
    assert (await app.list()).jobs == []


async def test_a_filter_that_leaves_nothing_to_act_on(shop: Shop) -> None:
    operator = shop.app.actions("anna")
    await shop.app.start(shop.charge.request(1))
    batch = await operator.act_on_all(JobAction.RETRY, parse_filter("state:pending"))
    assert batch == Batch(changed=0, passed_over=0)
    assert await notes(shop) == []


async def test_pause_and_resume(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    await app.start(shop.charge.request(1))
    await operator.pause("money")
    assert await shop.claim("money") == []
    shop.ear.heard.clear()
    await operator.resume("money")
    assert shop.ear.heard == [JobsScheduled("money", "charge", 0)]
    assert len(await shop.claim("money")) == 1
    resumed, paused = await notes(shop)
    assert (paused.action, paused.target) == ("pause", "money")
    assert (paused.before, paused.after) == ("working", "paused")
    assert (resumed.before, resumed.after) == ("paused", "working")
    with pytest.raises(InvalidName):
        await operator.pause("")


async def test_start_by_name(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    shop.ear.heard.clear()
    shop.events.clear()
    id = (await operator.start("charge", '{"order_id": 7}', queue="vip", priority=3)).id
    job = await app.get(id)
    assert (job.type, job.queue, job.priority) == ("charge", "vip", 3)
    assert job.state is JobState.PENDING
    assert JobCreated in {type(event) for event in shop.events}
    assert JobsScheduled in {type(notification) for notification in shop.ear.heard}
    (note,) = await notes(shop)
    assert (note.action, note.target, note.count) == ("start", f"charge {id}", 1)


async def test_start_later_and_once(shop: Shop) -> None:
    app, operator = shop.app, shop.app.actions("anna")
    one = (await operator.start("charge", '{"order_id": 7}', dedup="order-7", delay=60)).id
    same = (await operator.start("charge", '{"order_id": 8}', dedup="order-7")).id
    assert one == same
    assert (await app.get(one)).dedup_key == "order-7"
    at = (await operator.start("charge", '{"order_id": 9}', at="2100-01-01T00:00:00+01:00")).id
    assert (await app.get(at)).run_at.isoformat() == "2099-12-31T23:00:00+00:00"
    deduplicated = (await notes(shop))[1]
    assert (deduplicated.count, deduplicated.after) == (0, "deduplicated")


@pytest.mark.parametrize(
    ("type", "input", "options", "error", "said"),
    [
        ("chrage", "{}", {}, UnknownJobType, "did you mean 'charge'"),
        ("charge", "{}", {}, InvalidPayload, "order_id"),
        ("charge", '{"order_id": "x"}', {}, InvalidPayload, "order_id"),
        ("charge", '{"order_id": 7, "cent": 1}', {}, InvalidPayload, "no parameter 'cent'"),
        ("charge", "7", {}, InvalidPayload, "expected"),
        ("charge", "{", {}, InvalidPayload, "JSON"),
        ("charge", '{"order_id": "\ud800"}', {}, InvalidPayload, "charge"),
        ("confirm", '{"order_id": 7}', {}, InvalidOption, "only continue a sequence"),
        ("ship", '{"order_id": 7}', {}, InvalidRequest, "blockers"),
        ("charge", '{"order_id": 7}', {"delay": -1.0}, InvalidOption, "a delay"),
        ("charge", '{"order_id": 7}', {"delay": float("nan")}, InvalidOption, "a delay"),
        ("charge", '{"order_id": 7}', {"delay": 1e12}, InvalidOption, "100 years"),
        ("charge", '{"order_id": 7}', {"at": "9999-12-31T23:00-12:00"}, InvalidOption, "9000"),
        ("charge", '{"order_id": 7}', {"at": "tomorrow"}, InvalidOption, "not a time"),
        ("charge", '{"order_id": 7}', {"at": "2030-01-01"}, InvalidOption, "time zone"),
        ("charge", '{"order_id": 7}', {"delay": 1.0, "at": "x"}, InvalidOption, "not both"),
        ("charge", '{"order_id": 7}', {"queue": ""}, InvalidName, "queue"),
        ("charge", '{"order_id": 7}', {"priority": 10**6}, InvalidOption, "priority"),
        ("charge", '{"order_id": 7}', {"key": ""}, InvalidName, "key"),
    ],
)
async def test_what_cannot_be_started_writes_nothing(
    type: str, input: str, options: dict[str, object], error: type[Exception], said: str
) -> None:
    shop = Shop("memory://")
    async with shop.app as app:
        with pytest.raises(error, match=said):
            await app.actions("anna").start(type, input, **options)  # type: ignore[arg-type]
        assert (await app.list()).jobs == []
        assert await notes(shop) == []


@pytest.mark.parametrize("actor", ["", "a" * 201, "a\0b", "\ud800"])
def test_an_actor_has_a_name(actor: str) -> None:
    with pytest.raises(InvalidName):
        Headway("memory://").actions(actor)


async def test_two_operators_retry_each_job_once(shop: Shop) -> None:
    app = shop.app
    await app.start_many([shop.charge.request(n) for n in range(40)])
    await shop.fail(ERROR)
    which = parse_filter("state:failed")
    anna, bert = app.actions("anna"), app.actions("bert")
    done = await asyncio.gather(
        act_on_all(anna, JobAction.RETRY, which), act_on_all(bert, JobAction.RETRY, which)
    )
    assert sum(changed for changed, _ in done) == 40
    assert sum(note.count for note in await notes(shop)) == 40
