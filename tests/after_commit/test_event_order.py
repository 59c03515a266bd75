"""The exact order of events, on every store; and that what is rolled back is never told."""

from __future__ import annotations

import psycopg
import pytest

from headway import Continuation, Job
from headway.domain import events
from headway.domain.orders import ClaimOrder, QueueShare
from tests.support.office import Office

STARTED = ("WorkerStarted",)
ENDED = [("WorkerStopping",), ("WorkerStopped",)]


async def test_a_plain_job(office: Office) -> None:
    sequence = await office.app.start(office.write.request("dear"))
    async with office.working():
        await office.until(events.SequenceCompleted)
    assert office.told() == [
        ("SequenceCreated", "write"),
        ("JobCreated", "write"),
        STARTED,
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        *ENDED,
    ]
    (started,) = office.seen(events.AttemptStarted)
    assert (started.job_id, started.sequence_id, started.queue) == (
        sequence.id, sequence.id, "letters",
    )  # fmt: skip
    assert (started.worker, started.version, started.attempt) == ("w", 1, 1)
    assert 0 <= started.waited < 20
    (completed,) = office.seen(events.AttemptCompleted)
    (done,) = office.seen(events.JobCompleted)
    (ended,) = office.seen(events.SequenceCompleted)
    assert 0 <= completed.seconds <= done.seconds + 0.05
    assert done.seconds == ended.seconds < 20


async def test_a_continuing_job(office: Office) -> None:
    sequence = await office.app.start(office.draft.request("dear"))
    async with office.working():
        await office.until(events.SequenceCompleted)
    assert office.told() == [
        ("SequenceCreated", "draft"),
        ("JobCreated", "draft"),
        STARTED,
        ("AttemptStarted", "draft"),
        ("AttemptCompleted", "draft"),
        ("JobCompleted", "draft"),
        ("JobCreated", "write"),
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "draft"),
        *ENDED,
    ]
    first, second = office.seen(events.JobCompleted)
    (ended,) = office.seen(events.SequenceCompleted)
    assert {first.sequence_id, second.sequence_id, ended.sequence_id} == {sequence.id}
    assert second.seconds <= ended.seconds < 20, "since the sequence began, not its last job"


async def test_a_failing_job(office: Office) -> None:
    await office.app.start(office.fail.request())
    async with office.working():
        await office.until(events.SequenceFailed)
    assert office.told() == [
        ("SequenceCreated", "fail"),
        ("JobCreated", "fail"),
        STARTED,
        ("AttemptStarted", "fail"),
        ("AttemptFailed", "fail"),
        ("AttemptStarted", "fail"),
        ("AttemptFailed", "fail"),
        ("JobDeadLettered", "fail"),
        ("SequenceFailed", "fail"),
        *ENDED,
    ]
    assert [each.retry_in for each in office.seen(events.AttemptFailed)] == [0.0, None]
    assert [each.attempt for each in office.seen(events.AttemptFailed)] == [1, 2]
    (dead,) = office.seen(events.JobDeadLettered)
    assert str(dead.failure) == "ValueError: no ink"


async def test_a_blocked_job(office: Office) -> None:
    await office.app.start(office.send.request().using(blockers=(office.write.request("dear"),)))
    async with office.working():
        await office.until(events.SequenceCompleted, type="send")
    assert office.told() == [
        ("SequenceCreated", "write"),
        ("JobCreated", "write"),
        ("SequenceCreated", "send"),
        ("JobCreated", "send"),
        ("JobBlocked", "send"),
        STARTED,
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        ("JobUnblocked", "send"),
        ("AttemptStarted", "send"),
        ("AttemptCompleted", "send"),
        ("JobCompleted", "send"),
        ("SequenceCompleted", "send"),
        *ENDED,
    ]


async def test_a_reaped_job(office: Office) -> None:
    """Another worker claimed it and died."""
    sequence = await office.app.start(office.write.request("dear"))
    store = office.app.store
    order = ClaimOrder(
        worker="dead",
        token="0b5cdd4e-6ef5-4f5b-9a0c-3d4b0b6f3f7a",
        lease_for=0.2,
        queues=(QueueShare("letters", 1),),
        types=("write",),
        limit=1,
    )
    assert await store.run(store.claim, order)
    async with office.working():
        await office.until(events.SequenceCompleted)
    assert office.told() == [
        ("SequenceCreated", "write"),
        ("JobCreated", "write"),
        STARTED,
        ("JobReaped", "write"),
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        *ENDED,
    ]
    (reaped,) = office.seen(events.JobReaped)
    assert (reaped.job_id, reaped.worker, reaped.version, reaped.dead) == (
        sequence.id, "dead", 1, False,
    )  # fmt: skip
    assert office.seen(events.AttemptStarted)[0].version == 2


async def test_a_continuation_that_waits_for_others(office: Office) -> None:
    """New blockers and the job that waits for them, stored in the handler's own transaction."""

    @office.app.job
    async def plan(job: Job) -> Continuation[str]:
        request = office.send.request()
        return job.continue_with(request.using(blockers=(office.write.request("dear"),)))

    await office.app.start(plan.request())
    async with office.working(concurrency=1):
        await office.until(events.SequenceCompleted, type="plan")
    assert office.told() == [
        ("SequenceCreated", "plan"),
        ("JobCreated", "plan"),
        STARTED,
        ("AttemptStarted", "plan"),
        ("SequenceCreated", "write"),
        ("JobCreated", "write"),
        ("AttemptCompleted", "plan"),
        ("JobCompleted", "plan"),
        ("JobCreated", "send"),
        ("JobBlocked", "send"),
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        ("JobUnblocked", "send"),
        ("AttemptStarted", "send"),
        ("AttemptCompleted", "send"),
        ("JobCompleted", "send"),
        ("SequenceCompleted", "plan"),
        *ENDED,
    ]


async def test_what_people_do(office: Office) -> None:
    app = office.app
    first = await app.start(office.write.request("dear"))
    second = await app.start(office.hold.request(0.0))
    office.events.clear()
    await app.cancel(first)
    await app.retry(first)
    await app.trigger(first)
    async with app.complete_sequence(first, office.write) as completion:
        await completion.complete("DEAR")
    await app.delete_sequences(second)
    assert office.told() == [
        ("JobCancelled", "write"),
        ("SequenceCancelled", "write"),
        ("JobRetried", "write"),
        ("JobRescheduled", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        ("JobsDeleted",),
    ]
    assert office.seen(events.JobCompleted)[0].worker is None


async def test_leases_that_are_renewed_and_lost(office: Office) -> None:
    job = await office.app.start(office.hold.request(30.0))
    async with office.working(lease_for=1.5):
        await office.until(events.LeaseRenewed)
        await office.app.cancel(job)
        await office.until(events.LeaseLost)
    (lost,) = office.seen(events.LeaseLost)
    assert (lost.job_id, lost.reason, lost.version) == (job.id, "cancelled", 1)
    done = await office.app.start(office.hold.request(30.0))
    async with office.working(lease_for=1.5):
        await office.until(events.AttemptStarted, job_id=done.id)
        async with office.app.complete_sequence(done) as completion:
            await completion.complete(None)
        await office.until(events.AlreadyCompleted, job_id=done.id)


class Undone(Exception):
    pass


async def test_what_is_rolled_back_is_never_told(office: Office) -> None:
    app = office.app
    with pytest.raises(Undone):
        async with app.store.begin() as tx:
            await app.start(office.write.request("dear"), tx=tx)
            raise Undone
    with pytest.raises(Undone):
        async with app.store.begin() as tx:
            sequence = await app.start(office.write.request("dear"), tx=tx)
            async with app.complete_sequence(sequence, tx=tx) as completion:
                await completion.complete("DEAR")
            raise Undone
    assert office.events == []


async def test_what_a_caller_commits_is_told_after_the_commit_where_it_can_be_seen(
    office: Office,
) -> None:
    app = office.app
    async with app.store.begin() as tx:
        await app.start(office.write.request("dear"), tx=tx)
        seen = app.store.after_commit(tx, lambda: None)
        assert office.events == []
    told = [("SequenceCreated", "write"), ("JobCreated", "write")]
    assert office.told() == (told if seen else [])


async def test_a_connection_that_hides_its_commit_tells_of_no_creation(postgres_url: str) -> None:
    """But all that happens to the job later is told."""
    office = Office(postgres_url)
    async with office.app as app:
        connecting = psycopg.AsyncConnection.connect(postgres_url)
        async with await connecting as connection, connection.transaction():
            await app.start(office.write.request("dear"), tx=connection)
        async with office.working():
            await office.until(events.SequenceCompleted)
    assert office.told() == [
        STARTED,
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        *ENDED,
    ]


async def test_a_handlers_rolled_back_transaction_tells_of_a_failure_only(office: Office) -> None:
    @office.app.job(max_attempts=1)
    async def spoil(job: Job) -> None:
        tx = await job.complete()
        await office.app.start(office.hold.request(0.0), tx=tx)
        raise ValueError("spoilt")

    await office.app.start(spoil.request())
    async with office.working():
        await office.until(events.SequenceFailed)
    assert [each for each in office.told() if each[0] != "WorkerStarted"][2:] == [
        ("AttemptStarted", "spoil"),
        ("AttemptFailed", "spoil"),
        ("JobDeadLettered", "spoil"),
        ("SequenceFailed", "spoil"),
        *ENDED,
    ]
    assert office.seen(events.JobCreated, type="hold") == []
