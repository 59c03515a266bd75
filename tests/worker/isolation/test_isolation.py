"""Handlers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headway.domain.events import JobCompleted, JobDeadLettered, LeaseLost
from headway.domain.failure import decode_failure
from headway.domain.job import JobState, NewJob
from headway.domain.queries import JobFilter
from headway.errors import Failure
from headway.jobs.ids import new_id
from tests.support.worker_harness import WorkerHarness, eventually
from tests.worker.isolation import jobs

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="NOT VERIFIED: This machine has no POSIX signals"
)


@pytest.fixture
async def harness() -> AsyncIterator[WorkerHarness]:
    harness = WorkerHarness()
    harness.registry = jobs.registry
    await harness.store.open()
    yield harness
    await harness.store.close()


async def failure_of(harness: WorkerHarness, job_id: str) -> Failure:
    job = await harness.get(job_id)
    assert job.state is JobState.FAILED
    assert job.attempts == 1
    assert job.last_error is not None
    return decode_failure(job.last_error)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A child whose parent was killed may wait, dead, for somebody to reap it.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def pid_in(path: Path) -> int:
    async def written() -> bool:
        return bool(read(path))

    await eventually(written)
    return int(read(path))


async def gone(pid: int) -> None:
    async def dead() -> bool:
        return not alive(pid)

    await eventually(dead)


def children() -> list[str]:
    """The command lines of this process's children."""
    pids = read(Path(f"/proc/self/task/{os.getpid()}/children")).split()
    return [read(Path(f"/proc/{pid}/cmdline")) for pid in pids]


async def test_the_schedule_and_the_tick_reach_the_child(harness: WorkerHarness) -> None:
    tick = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    job_id = await harness.insert(
        NewJob(id=new_id(), type="tick", input="{}", schedule_name="nightly", scheduled_for=tick)
    )
    (plain,) = await harness.start(jobs.tick.request())
    await harness.drain()
    assert (await harness.get(job_id)).output == '["nightly","2026-10-25T00:30:00Z"]'
    assert (await harness.get(plain)).output == "[null,null]"


async def test_children_run_one_job_after_another(harness: WorkerHarness) -> None:
    first, second = await harness.start(jobs.pid.request(), jobs.pid.request())
    await harness.drain(concurrency=1)
    pids = {(await harness.get(job_id)).output for job_id in (first, second)}
    assert len(pids) == 1
    (pid,) = pids
    assert pid is not None
    assert int(pid) != os.getpid()
    assert not alive(int(pid))


async def test_async_handlers_get_their_job_and_its_blockers(harness: WorkerHarness) -> None:
    request = jobs.whoami.request("hello").using(blockers=(jobs.name.request(),))
    (job_id,) = await harness.start(request)
    await harness.drain()
    assert (await harness.get(job_id)).output == '"hello world, 1 True"'


@pytest.mark.parametrize(
    ("how", "type_", "message"),
    [
        ("raise", "KeyError", "'gone'"),
        ("unrecoverable", "headway.Unrecoverable", "never"),
        ("system exit", "SystemExit", "3"),
        ("exit", "ProcessDied", "the process that ran the job ended with exit code 7"),
        ("crash", "ProcessDied", "the process that ran the job was killed by SIGSEGV"),
    ],
)
async def test_failures_are_told_and_charged(
    harness: WorkerHarness, how: str, type_: str, message: str
) -> None:
    bad, good = await harness.start(jobs.fail.request(how), jobs.double.request(4))
    await harness.drain(concurrency=1)
    failure = await failure_of(harness, bad)
    assert (failure.type, failure.message) == (type_, message)
    if how == "raise":
        assert 'raise KeyError("gone")' in failure.traceback
        assert "isolation_child" not in failure.traceback
    assert (await harness.get(good)).output == "8"


async def test_a_timeout_really_kills(harness: WorkerHarness, tmp_path: Path) -> None:
    # The first job starts the child, so that the second's time does not go into that.
    _, job_id = await harness.start(jobs.pid.request(), jobs.hang.request(str(tmp_path / "pid")))
    await harness.drain(concurrency=1)
    assert (await failure_of(harness, job_id)).type == "TimeoutError"
    assert not alive(int(read(tmp_path / "pid")))


async def test_a_lost_lease_really_kills(harness: WorkerHarness, tmp_path: Path) -> None:
    (job_id,) = await harness.start(jobs.hang_forever.request(str(tmp_path / "pid")))
    async with harness.working(lease_for=1.5):
        pid = await pid_in(tmp_path / "pid")
        await harness.store.run(harness.store.cancel, [job_id])
        await harness.event(LeaseLost, job_id=job_id)
        assert not alive(pid)


async def test_the_end_of_the_grace_time_really_kills(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    (job_id,) = await harness.start(jobs.hang_forever.request(str(tmp_path / "pid")))
    worker = harness.worker(grace=0)
    running = asyncio.create_task(worker.run())
    pid = await pid_in(tmp_path / "pid")
    os.kill(pid, signal.SIGTERM)  # as a supervisor does to the whole group: not its business
    os.kill(pid, signal.SIGINT)
    worker.request_stop()
    await running
    assert not alive(pid)
    assert await harness.state(job_id) is JobState.PENDING


async def test_large_outputs_arrive(harness: WorkerHarness) -> None:
    (job_id,) = await harness.start(jobs.large.request(900_000))
    await harness.drain()
    assert len((await harness.get(job_id)).output or "") == 900_002


async def test_continuing_and_rescheduling(harness: WorkerHarness) -> None:
    going, waiting = await harness.start(jobs.go_on.request(21), jobs.go_on.request(0))
    await harness.drain()
    (current,) = await harness.store.run(harness.store.current, [going])
    assert current is not None
    assert (current.type, current.output) == ("double", "42")
    job = await harness.get(waiting)
    assert (job.state, job.attempts) == (JobState.PENDING, 0)


async def test_a_continuation_arrives_with_all_that_was_asked_for(harness: WorkerHarness) -> None:
    (known,) = await harness.start(jobs.name.request())
    (job_id,) = await harness.start(jobs.go_on_with_everything.request(known))
    await harness.drain()
    (current,) = await harness.store.run(harness.store.current, [job_id])
    assert current is not None
    assert (current.type, current.output) == ("gather", '"xworldworldworld"')
    assert current.id == "01a1ddf9-eb4e-7466-a684-f7abe7b3714b"
    assert (current.priority, current.max_attempts, current.max_losses) == (-4, None, 9)
    assert current.timeout == 30.5
    (keyed,) = [
        job
        for job in (await harness.store.run(harness.store.find, JobFilter(types=("name",)))).jobs
        if job.dedup_key == "key"
    ]
    assert (keyed.priority, keyed.origin_id) == (3, job_id)


async def test_a_wrong_continuation_says_what_is_wrong(harness: WorkerHarness) -> None:
    (job_id,) = await harness.start(jobs.go_on_wrongly.request())
    await harness.drain()
    failure = await failure_of(harness, job_id)
    assert "a blocker of 'gather' must be a request, a sequence or a sequence's id" in str(failure)


async def test_what_has_no_form_is_told_as_text(
    harness: WorkerHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (job_id,) = await harness.start(jobs.say_the_unspeakable.request(str(tmp_path / "until")))
    async with harness.working():

        async def half() -> bool:
            (progress,) = await harness.store.run(harness.store.progress, [job_id])
            return progress is not None and progress.note == "half ?"

        await eventually(half)
        (tmp_path / "until").touch()
        await harness.event(JobDeadLettered, job_id=job_id)
    assert (await failure_of(harness, job_id)).message == "never ?"
    odd, plain = (record for record in caplog.records if record.name == "unspeakable")
    assert odd.getMessage() == "odd ? {1}"
    assert vars(odd)["paths"] == f"{{(1, 2): {Path('/')!r}}}"
    assert vars(odd)["many"] == str(2**70)
    assert plain.getMessage() == "plain"
    assert (plain.levelname, plain.funcName) == ("WARNING", "say_the_unspeakable")
    assert vars(plain)["kept"] == {"a": [1, None, True, 1.5]}
    assert vars(plain)["path"] == repr(Path("/x"))


async def test_there_are_no_transactions_in_children(harness: WorkerHarness) -> None:
    (job_id,) = await harness.start(jobs.want_a_transaction.request())
    await harness.drain()
    failure = await failure_of(harness, job_id)
    assert "only available in `async def` handlers without isolate=True" in failure.message


SCRIPT = """
    import asyncio, os, re, subprocess, sys, time
    from pathlib import Path
    from headway.jobs.codec import JsonCodec
    from headway.jobs.decorators import JobDecorator
    from headway.jobs.plan import plan_start
    from headway.jobs.registry import Registry
    from headway.worker.worker import Worker
    from headway.stores.memory import MemoryStore

    registry = Registry()
    job = JobDecorator(registry, JsonCodec())

    @job(isolate=True)
    def work(path: str, seconds: float) -> int:
        sleeper = subprocess.Popen(["sleep", "600"])
        Path(path + ".sleeper").write_text(str(sleeper.pid))
        Path(path).write_text(str(os.getpid()))
        if seconds < 0:  # and nothing else in this process gets a turn
            re.fullmatch(r"(a|aa)+b", "a" * 200)
        time.sleep(seconds)
        return os.getpid()

    async def fork(path: str) -> None:
        while not Path(path).exists():
            await asyncio.sleep(0.01)
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        Path(path + ".fork").write_text(str(pid))

    async def main(path: str, seconds: float) -> None:
        if "fork" in sys.argv:
            forking = asyncio.create_task(fork(path))
        store = MemoryStore()
        await store.open()
        plan = plan_start([work.request(path, seconds)])
        await store.run(store.insert, plan.jobs)
        await Worker(store, registry.handlers()).run(drain=True)
        (record,) = await store.run(store.get, [plan.jobs[0].id])
        print(record.state, record.last_error or "")

    if __name__ == "__main__":
        asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


def script_in(path: Path) -> Path:
    script = path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return script


def test_handlers_may_be_defined_in_the_script_itself(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, script_in(tmp_path), tmp_path / "pid", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.stdout.strip(), result.stderr) == ("completed", "")


@pytest.mark.skipif(sys.platform != "linux", reason="NOT VERIFIED: This machine has no /proc")
@pytest.mark.parametrize("seconds", ["60", "-1"], ids=["sleeping", "holding the interpreter"])
async def test_children_and_their_processes_die_with_their_worker(
    tmp_path: Path, seconds: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, script_in(tmp_path), tmp_path / "pid", seconds
    )
    pid = await pid_in(tmp_path / "pid")
    sleeper = int(read(tmp_path / "pid.sleeper"))
    assert alive(pid)
    assert alive(sleeper)
    process.kill()
    await process.wait()
    await gone(pid)
    await gone(sleeper)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT VERIFIED: This machine has no /proc")
async def test_children_die_with_their_worker_even_if_a_fork_of_it_lives(tmp_path: Path) -> None:
    """The fork holds the worker's end of every connection."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, script_in(tmp_path), tmp_path / "pid", "60", "fork"
    )
    pid = await pid_in(tmp_path / "pid")
    fork = await pid_in(tmp_path / "pid.fork")
    try:
        process.kill()
        await process.wait()
        await gone(pid)
        await gone(int(read(tmp_path / "pid.sleeper")))
        assert alive(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="NOT VERIFIED: This machine has no /proc")
async def test_children_that_time_out_while_they_start_leave_nothing(
    harness: WorkerHarness,
) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    async with harness.working(concurrency=1):
        (first,) = await harness.start(jobs.pid.request())
        await harness.event(JobCompleted, job_id=first)
        open_before, children_before = descriptors(), len(children())
        late = await harness.start(*[jobs.out_of_time.request() for _ in range(10)])
        for job_id in late:
            await harness.event(JobDeadLettered, job_id=job_id)
        # The child that ran the first job was killed with the first of the late ones.
        assert descriptors() <= open_before
        assert len(children()) <= children_before


@pytest.mark.skipif(sys.platform != "linux", reason="NOT VERIFIED: This machine has no /proc")
@pytest.mark.parametrize("how", ["crash", "fork and crash"])
async def test_a_childs_death_is_noticed_and_takes_its_processes_along(
    harness: WorkerHarness, tmp_path: Path, how: str
) -> None:
    (job_id,) = await harness.start(jobs.leave_a_process.request(str(tmp_path / "pid"), how))
    await harness.drain()
    assert (await failure_of(harness, job_id)).type == "ProcessDied"
    await gone(int(read(tmp_path / "pid")))


async def test_interrupting_a_job_ends_the_processes_that_it_started(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    (job_id,) = await harness.start(jobs.leave_a_process.request(str(tmp_path / "pid"), "hang"))
    async with harness.working(lease_for=0.3):
        pid = await pid_in(tmp_path / "pid")
        assert alive(pid)
        await harness.store.run(harness.store.cancel, [job_id])
        await harness.event(LeaseLost, job_id=job_id)
        await gone(pid)


async def test_processes_that_a_job_left_behind_end_with_the_worker(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    (job_id,) = await harness.start(jobs.leave_a_process.request(str(tmp_path / "pid"), "return"))
    async with harness.working():
        await harness.event(JobCompleted, job_id=job_id)
        pid = int(read(tmp_path / "pid"))
        assert alive(pid)
    await gone(pid)


@pytest.mark.parametrize("fork", [False, True])
async def test_handlers_can_stop_the_processes_that_they_start(
    harness: WorkerHarness, tmp_path: Path, fork: bool
) -> None:
    (job_id,) = await harness.start(jobs.stop_a_process.request(str(tmp_path / "pid"), fork))
    await harness.drain()
    expected = signal.SIGTERM if fork else -signal.SIGTERM
    assert (await harness.get(job_id)).output == str(int(expected))


async def test_a_worker_without_isolated_jobs_starts_no_process(harness: WorkerHarness) -> None:
    (job_id,) = await harness.start(jobs.name.request())
    async with harness.working():
        await harness.event(JobCompleted, job_id=job_id)
        assert not [command for command in children() if "spawn_main" in command]


async def test_what_a_handler_forks_does_not_answer_in_its_place(harness: WorkerHarness) -> None:
    codes = {"return": 0, "exit": 0, "exit with 3": 3, "exit with words": 1, "raise": 1}
    ids = await harness.start(*map(jobs.fork.request, codes))
    await harness.drain(concurrency=1)
    assert [(await harness.get(id)).output for id in ids] == [str(code) for code in codes.values()]


async def test_long_logs_of_what_a_handler_forks_arrive_whole(
    harness: WorkerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    (job_id,) = await harness.start(jobs.log_from_forks.request(300_000))
    await harness.drain()
    assert (await harness.get(job_id)).output == "0"
    said = [record.getMessage() for record in caplog.records if record.name == "forked"]
    assert said == ["x" * 300_000] * 30
