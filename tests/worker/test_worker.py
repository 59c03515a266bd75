"""What becomes of jobs: success, retry, dead letter, and whatever handlers come up with."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from datetime import datetime

import msgspec
import pytest

from headway.domain.due_time import After
from headway.domain.events import (
    AttemptFailed,
    AttemptStarted,
    Event,
    JobCompleted,
    JobRescheduled,
)
from headway.domain.failure import decode_failure
from headway.domain.job import ClaimedJobs, JobState, NewJob
from headway.domain.orders import ClaimOrder
from headway.domain.retry import Fixed
from headway.errors import ConfigurationError, Failure, Unrecoverable
from headway.jobs.ids import new_id
from headway.jobs.job import Job
from headway.ports.current_attempt import current_attempt
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore
from headway.worker.handler_runner import CallNext
from headway.worker.worker import Worker
from tests.support.worker_harness import AT_ONCE, WorkerHarness, eventually, types_of


async def failure_of(harness: WorkerHarness, job_id: str) -> Failure:
    error = (await harness.get(job_id)).last_error
    assert error is not None
    return decode_failure(error)


async def test_a_job_is_run_and_its_output_kept(harness: WorkerHarness) -> None:
    @harness.job
    async def double(number: int) -> int:
        return number * 2

    (job_id,) = await harness.start(double.request(21))
    await harness.drain()
    job = await harness.get(job_id)
    assert job.state is JobState.COMPLETED
    assert job.output == "42"
    assert types_of(harness.events) == [
        "WorkerStarted",
        "AttemptStarted",
        "AttemptCompleted",
        "JobCompleted",
        "SequenceCompleted",
        "WorkerStopping",
        "WorkerStopped",
    ]
    assert harness.seen(AttemptStarted)[0].waited < 5
    assert harness.seen(JobCompleted, job_id=job_id, type="double", version=1)


async def test_many_jobs_are_all_run_once(harness: WorkerHarness) -> None:
    runs: list[int] = []

    @harness.job
    async def note(number: int) -> None:
        await asyncio.sleep(0)
        runs.append(number)

    await harness.start(*(note.request(number) for number in range(2_000)))
    await harness.drain(concurrency=20)
    assert sorted(runs) == list(range(2_000))


async def test_a_blocking_handler_runs_in_a_thread_with_the_context_of_its_job(
    harness: WorkerHarness,
) -> None:
    threads: list[str] = []

    @harness.job
    def whoami() -> str:
        threads.append(threading.current_thread().name)
        running = current_attempt.get()
        return "nobody" if running is None else running.claimed.id

    (job_id,) = await harness.start(whoami.request())
    await harness.drain()
    assert (await harness.get(job_id)).output == f'"{job_id}"'
    assert threads[0].startswith("headway-handler")


async def test_a_failed_job_is_tried_again_until_it_works(harness: WorkerHarness) -> None:
    attempts: list[int] = []

    @harness.job(retry=Fixed(0.02))
    async def flaky(job: Job) -> int:
        attempts.append(job.attempt)
        if job.attempt < 3:
            raise ValueError(f"not yet {job.attempt}")
        return job.attempts

    (job_id,) = await harness.start(flaky.request())
    async with harness.working():
        await harness.event(JobCompleted)
    job = await harness.get(job_id)
    assert attempts == [1, 2, 3]
    assert (job.state, job.attempts, job.output) == (JobState.COMPLETED, 2, "2")
    assert [each.retry_in for each in harness.seen(AttemptFailed)] == [0.02, 0.02]
    assert [each.outcome for each in await harness.attempts(job_id)] == ["failed", "failed"]


async def test_a_job_without_attempts_left_is_dead_lettered(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=2, retry=AT_ONCE)
    async def hopeless() -> None:
        raise KeyError("gone")

    (job_id,) = await harness.start(hopeless.request())
    await harness.drain()
    job = await harness.get(job_id)
    assert (job.state, job.attempts) == (JobState.FAILED, 2)
    failure = await failure_of(harness, job_id)
    assert failure.type == "KeyError"
    assert 'raise KeyError("gone")' in failure.traceback
    assert "runner.py" not in failure.traceback
    assert [each.retry_in for each in harness.seen(AttemptFailed)] == [0.0, None]


async def test_unrecoverable_is_not_tried_again(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=None)
    async def refuse() -> None:
        raise Unrecoverable("no such customer")

    (job_id,) = await harness.start(refuse.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.FAILED
    assert (await failure_of(harness, job_id)).message == "no such customer"


@pytest.mark.parametrize(
    "raised",
    [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, StopIteration],
)
@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_nothing_a_handler_raises_ends_the_worker(
    harness: WorkerHarness, raised: type[BaseException], kind: str
) -> None:
    @harness.job(max_attempts=1)
    async def rude() -> None:
        raise raised

    @harness.job(max_attempts=1)
    def rude_in_thread() -> None:
        raise raised

    @harness.job
    async def polite() -> str:
        return "fine"

    bad, good = await harness.start(
        rude.request() if kind == "async" else rude_in_thread.request(), polite.request()
    )
    await harness.drain()
    assert await harness.state(bad) is JobState.FAILED
    assert await harness.state(good) is JobState.COMPLETED


class Confused(MemoryStore):
    """Hands out jobs of a type that nobody asked for."""

    def claim(self, order: ClaimOrder, *, now: datetime | None = None) -> Operation[ClaimedJobs]:
        claimed = yield from super().claim(order, now=now)
        return ClaimedJobs(msgspec.structs.replace(job, type="gone") for job in claimed)


async def test_a_job_whose_handler_is_gone_is_dead_lettered_with_the_reason() -> None:
    harness = WorkerHarness(Confused())
    await harness.store.open()

    @harness.job
    async def known() -> None: ...

    (job_id,) = await harness.start(known.request())
    await harness.drain()
    assert await harness.state(job_id) is JobState.FAILED
    assert "no handler for job type 'gone'" in (await failure_of(harness, job_id)).message


async def test_a_type_without_a_handler_here_is_left_to_others(harness: WorkerHarness) -> None:
    @harness.job
    async def known() -> None: ...

    job_id = await harness.insert(NewJob(id=new_id(), type="unknown", input="{}"))
    await harness.drain()
    assert await harness.state(job_id) is JobState.PENDING


async def test_input_that_does_not_fit_is_dead_lettered(harness: WorkerHarness) -> None:
    @harness.job(max_attempts=None)
    async def count(number: int) -> None: ...

    job_id = await harness.insert(NewJob(id=new_id(), type="count", input='{"number": "three"}'))
    await harness.drain()
    assert await harness.state(job_id) is JobState.FAILED
    failure = await failure_of(harness, job_id)
    assert failure.type == "headway.errors.InvalidPayload"
    assert "number" in failure.message


async def test_an_output_that_cannot_be_stored_fails_its_job_and_no_other(
    harness: WorkerHarness,
) -> None:
    @harness.job(max_attempts=1)
    async def answer(number: int) -> int:
        return number if number != 3 else "three"  # type: ignore[return-value]

    job_ids = await harness.start(*(answer.request(number) for number in range(6)))
    await harness.drain()
    states = [await harness.state(job_id) for job_id in job_ids]
    assert states == [JobState.FAILED if number == 3 else JobState.COMPLETED for number in range(6)]
    failure = await failure_of(harness, job_ids[3])
    assert failure.type == "headway.errors.InvalidPayload"
    assert "File" not in failure.traceback, "frames of Headway itself tell the user nothing"


async def test_a_job_may_reschedule_itself_without_being_charged(harness: WorkerHarness) -> None:
    runs: list[float] = []

    @harness.job
    async def later(job: Job) -> str:
        runs.append(time.monotonic())
        if len(runs) == 1:
            try:
                job.reschedule(After(seconds=0.1))
            except Exception:
                pytest.fail("a handler's own `except Exception` must not swallow it")
        return "done"

    (job_id,) = await harness.start(later.request())
    async with harness.working():
        await harness.event(JobCompleted)
    job = await harness.get(job_id)
    assert job.attempts == 0
    assert runs[1] - runs[0] >= 0.09
    assert harness.seen(JobRescheduled, job_id=job_id)


async def test_what_a_handler_sets_in_its_context_does_not_leak_into_other_jobs(
    harness: WorkerHarness,
) -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="clean")
    seen: list[str] = []

    @harness.job
    async def soil() -> None:
        seen.append(mark.get())
        mark.set("dirty")

    # So many that jobs are claimed ahead: one that waits is started when the one before it ends.
    await harness.start(*(soil.request() for _ in range(500)))
    await harness.drain(concurrency=1)
    assert seen == ["clean"] * 500
    assert current_attempt.get() is None


async def test_jobs_started_in_a_handler_inherit_origin_and_root(harness: WorkerHarness) -> None:
    @harness.job
    async def leaf() -> None: ...

    @harness.job
    async def trunk() -> str:
        await asyncio.sleep(0)
        (leaf_id,) = await harness.start(leaf.request())
        return leaf_id

    (trunk_id,) = await harness.start(trunk.request())
    await harness.drain()
    leaf_id = (await harness.get(trunk_id)).output
    assert leaf_id is not None
    job = await harness.get(leaf_id.strip('"'))
    assert (job.origin_id, job.root_id) == (trunk_id, trunk_id)
    assert job.state is JobState.COMPLETED


async def test_middleware_wraps_the_handler_in_the_order_given(harness: WorkerHarness) -> None:
    calls: list[str] = []

    async def outer(job: Job, call_next: CallNext) -> object:
        calls.append(f"outer {job.type}")
        try:
            return await call_next()
        finally:
            calls.append("outer ends")

    async def inner(job: Job, call_next: CallNext) -> object:
        calls.append("inner")
        result = await call_next()
        calls.append("inner ends")
        return f"{result}!"

    harness.middleware = [outer, inner]

    @harness.job
    async def greet() -> str:
        calls.append("handler")
        return "hello"

    @harness.job
    def greet_in_thread() -> str:
        return "hi"

    job_id, in_thread = await harness.start(greet.request(), greet_in_thread.request())
    await harness.drain(concurrency=1)
    assert calls[:5] == ["outer greet", "inner", "handler", "inner ends", "outer ends"]
    assert (await harness.get(job_id)).output == '"hello!"'
    assert (await harness.get(in_thread)).output == '"hi!"'


async def test_what_middleware_raises_fails_the_job(harness: WorkerHarness) -> None:
    async def guard(job: Job, call_next: CallNext) -> object:
        raise PermissionError("not today")

    harness.middleware = [guard]

    @harness.job(max_attempts=1)
    async def work() -> None: ...

    (job_id,) = await harness.start(work.request())
    await harness.drain()
    assert (await failure_of(harness, job_id)).type == "PermissionError"


async def test_progress_shows_while_the_job_runs(harness: WorkerHarness) -> None:
    told, go = asyncio.Event(), asyncio.Event()

    @harness.job
    async def slow(job: Job) -> None:
        job.progress(0.5, "half way")
        told.set()
        await go.wait()

    (job_id,) = await harness.start(slow.request())
    async with harness.working() as worker:
        await told.wait()
        (running,) = worker.running
        assert (running.job_id, running.progress) == (job_id, (0.5, "half way"))
        go.set()
        await harness.event(JobCompleted)
        assert worker.running == []


async def test_an_observer_that_raises_harms_nobody(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def observe(self, event: Event) -> None:
            raise RuntimeError("broken")

    @harness.job
    async def work() -> None: ...

    (job_id,) = await harness.start(work.request())
    worker = Worker(harness.store, harness.registry.handlers(), observers=[Broken(), harness])
    await worker.run(drain=True)
    assert await harness.state(job_id) is JobState.COMPLETED
    assert types_of(harness.events)[-1] == "WorkerStopped"
    assert len(caplog.records) == 1


async def test_a_worker_needs_handlers(harness: WorkerHarness) -> None:
    with pytest.raises(ConfigurationError, match="at least one job type"):
        Worker(harness.store, {})


async def test_a_worker_registers_itself_while_it_works(harness: WorkerHarness) -> None:
    @harness.job
    async def work() -> None: ...

    await harness.start(work.request())
    async with harness.working(worker_id="me:1", heartbeat_every=0.02, lease_for=5) as worker:
        await harness.event(JobCompleted)

        async def registered() -> bool:
            return bool(await harness.store.run(harness.store.workers))

        await eventually(registered)
        known = await harness.store.run(harness.store.workers)
        assert [each.id for each in known] == ["me:1"] == [worker.id]
        assert known[0].types == ("work",)
        assert known[0].queues == ("default",)
    assert await harness.store.run(harness.store.workers) == []
