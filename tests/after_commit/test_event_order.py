"""The exact order of events, on every store; and that what is rolled back is never told."""

from __future__ import annotations

import psycopg
import pytest

from headway import Continuation, Job
from headway.domain import events
from headway.domain.orders import ClaimOrder, QueueShare
from tests.support.observed_app import ObservedApp

STARTED = ("WorkerStarted",)
ENDED = [("WorkerStopping",), ("WorkerStopped",)]


async def test_a_plain_job(observed: ObservedApp) -> None:
    sequence = await observed.app.start(observed.write.request("dear"))
    async with observed.working():
        await observed.until(events.SequenceCompleted)
    assert observed.told() == [
        ("SequenceCreated", "write"),
        ("JobCreated", "write"),
        STARTED,
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        *ENDED,
    ]
    (started,) = observed.seen(events.AttemptStarted)
    assert (started.job_id, started.sequence_id, started.queue) == (
        sequence.id, sequence.id, "letters",
    )  # fmt: skip
    assert (started.worker, started.version, started.attempt) == ("w", 1, 1)
    assert 0 <= started.waited < 20
    (completed,) = observed.seen(events.AttemptCompleted)
    (done,) = observed.seen(events.JobCompleted)
    (ended,) = observed.seen(events.SequenceCompleted)
    assert 0 <= completed.seconds <= done.seconds + 0.05
    assert done.seconds == ended.seconds < 20


async def test_a_continuing_job(observed: ObservedApp) -> None:
    sequence = await observed.app.start(observed.draft.request("dear"))
    async with observed.working():
        await observed.until(events.SequenceCompleted)
    assert observed.told() == [
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
    first, second = observed.seen(events.JobCompleted)
    (ended,) = observed.seen(events.SequenceCompleted)
    assert {first.sequence_id, second.sequence_id, ended.sequence_id} == {sequence.id}
    assert second.seconds <= ended.seconds < 20, "since the sequence began, not its last job"


async def test_a_failing_job(observed: ObservedApp) -> None:
    await observed.app.start(observed.fail.request())
    async with observed.working():
        await observed.until(events.SequenceFailed)
    assert observed.told() == [
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
    assert [each.retry_in for each in observed.seen(events.AttemptFailed)] == [0.0, None]
    assert [each.attempt for each in observed.seen(events.AttemptFailed)] == [1, 2]
    (dead,) = observed.seen(events.JobDeadLettered)
    assert str(dead.failure) == "ValueError: no ink"


async def test_a_blocked_job(observed: ObservedApp) -> None:
    await observed.app.start(
        observed.send.request().using(blockers=(observed.write.request("dear"),))
    )
    async with observed.working():
        await observed.until(events.SequenceCompleted, type="send")
    assert observed.told() == [
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


async def test_a_reaped_job(observed: ObservedApp) -> None:
    """Another worker claimed it and died."""
    sequence = await observed.app.start(observed.write.request("dear"))
    store = observed.app.store
    order = ClaimOrder(
        worker="dead",
        token="0b5cdd4e-6ef5-4f5b-9a0c-3d4b0b6f3f7a",
        lease_for=0.2,
        queues=(QueueShare("letters", 1),),
        types=("write",),
        limit=1,
    )
    assert await store.run(store.claim, order)
    async with observed.working():
        await observed.until(events.SequenceCompleted)
    assert observed.told() == [
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
    (reaped,) = observed.seen(events.JobReaped)
    assert (reaped.job_id, reaped.worker, reaped.version, reaped.dead) == (
        sequence.id, "dead", 1, False,
    )  # fmt: skip
    assert observed.seen(events.AttemptStarted)[0].version == 2


async def test_a_continuation_that_waits_for_others(observed: ObservedApp) -> None:
    """New blockers and the job that waits for them, stored in the handler's own transaction."""

    @observed.app.job
    async def plan(job: Job) -> Continuation[str]:
        request = observed.send.request()
        return job.continue_with(request.using(blockers=(observed.write.request("dear"),)))

    await observed.app.start(plan.request())
    async with observed.working(concurrency=1):
        await observed.until(events.SequenceCompleted, type="plan")
    assert observed.told() == [
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


async def test_what_people_do(observed: ObservedApp) -> None:
    app = observed.app
    first = await app.start(observed.write.request("dear"))
    second = await app.start(observed.hold.request(0.0))
    observed.events.clear()
    await app.cancel(first)
    await app.retry(first)
    await app.trigger(first)
    async with app.complete_sequence(first, observed.write) as completion:
        await completion.complete("DEAR")
    await app.delete_sequences(second)
    assert observed.told() == [
        ("JobCancelled", "write"),
        ("SequenceCancelled", "write"),
        ("JobRetried", "write"),
        ("JobRescheduled", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        ("JobsDeleted",),
    ]
    assert observed.seen(events.JobCompleted)[0].worker is None


async def test_leases_that_are_renewed_and_lost(observed: ObservedApp) -> None:
    job = await observed.app.start(observed.hold.request(30.0))
    async with observed.working(lease_for=1.5):
        await observed.until(events.LeaseRenewed)
        await observed.app.cancel(job)
        await observed.until(events.LeaseLost)
    (lost,) = observed.seen(events.LeaseLost)
    assert (lost.job_id, lost.reason, lost.version) == (job.id, "cancelled", 1)
    done = await observed.app.start(observed.hold.request(30.0))
    async with observed.working(lease_for=1.5):
        await observed.until(events.AttemptStarted, job_id=done.id)
        async with observed.app.complete_sequence(done) as completion:
            await completion.complete(None)
        await observed.until(events.AlreadyCompleted, job_id=done.id)


class Undone(Exception):
    pass


async def test_what_is_rolled_back_is_never_told(observed: ObservedApp) -> None:
    app = observed.app
    with pytest.raises(Undone):
        async with app.store.begin() as tx:
            await app.start(observed.write.request("dear"), tx=tx)
            raise Undone
    with pytest.raises(Undone):
        async with app.store.begin() as tx:
            sequence = await app.start(observed.write.request("dear"), tx=tx)
            async with app.complete_sequence(sequence, tx=tx) as completion:
                await completion.complete("DEAR")
            raise Undone
    assert observed.events == []


async def test_what_a_caller_commits_is_told_after_the_commit_where_it_can_be_seen(
    observed: ObservedApp,
) -> None:
    app = observed.app
    async with app.store.begin() as tx:
        await app.start(observed.write.request("dear"), tx=tx)
        seen = app.store.after_commit(tx, lambda: None)
        assert observed.events == []
    told = [("SequenceCreated", "write"), ("JobCreated", "write")]
    assert observed.told() == (told if seen else [])


async def test_a_connection_that_hides_its_commit_tells_of_no_creation(postgres_url: str) -> None:
    """But all that happens to the job later is told."""
    observed = ObservedApp(postgres_url)
    async with observed.app as app:
        connecting = psycopg.AsyncConnection.connect(postgres_url)
        async with await connecting as connection, connection.transaction():
            await app.start(observed.write.request("dear"), tx=connection)
        async with observed.working():
            await observed.until(events.SequenceCompleted)
    assert observed.told() == [
        STARTED,
        ("AttemptStarted", "write"),
        ("AttemptCompleted", "write"),
        ("JobCompleted", "write"),
        ("SequenceCompleted", "write"),
        *ENDED,
    ]


async def test_a_handlers_rolled_back_transaction_tells_of_a_failure_only(
    observed: ObservedApp,
) -> None:
    @observed.app.job(max_attempts=1)
    async def spoil(job: Job) -> None:
        tx = await job.complete()
        await observed.app.start(observed.hold.request(0.0), tx=tx)
        raise ValueError("spoilt")

    await observed.app.start(spoil.request())
    async with observed.working():
        await observed.until(events.SequenceFailed)
    assert [each for each in observed.told() if each[0] != "WorkerStarted"][2:] == [
        ("AttemptStarted", "spoil"),
        ("AttemptFailed", "spoil"),
        ("JobDeadLettered", "spoil"),
        ("SequenceFailed", "spoil"),
        *ENDED,
    ]
    assert observed.seen(events.JobCreated, type="hold") == []
