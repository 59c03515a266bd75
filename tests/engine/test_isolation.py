"""Handlers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.domain.events import JobCompleted, LeaseLost
from headway.domain.failure import Failure, decode_failure
from headway.domain.job import JobState
from tests.engine import isolated_jobs as jobs
from tests.engine.bench import Bench, eventually

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="NOT VERIFIED: This machine has no POSIX signals"
)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    bench.registry = jobs.registry
    await bench.store.open()
    yield bench
    await bench.store.close()


async def failure_of(bench: Bench, job_id: str) -> Failure:
    job = await bench.get(job_id)
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


def children() -> list[str]:
    """The command lines of this process's children."""
    pids = read(Path(f"/proc/self/task/{os.getpid()}/children")).split()
    return [read(Path(f"/proc/{pid}/cmdline")) for pid in pids]


async def test_children_run_one_job_after_another(bench: Bench) -> None:
    first, second = await bench.start(jobs.pid.request(), jobs.pid.request())
    await bench.drain(concurrency=1)
    pids = {(await bench.get(job_id)).output for job_id in (first, second)}
    assert len(pids) == 1
    (pid,) = pids
    assert pid is not None
    assert int(pid) != os.getpid()
    assert not alive(int(pid))


async def test_async_handlers_get_their_job_and_its_blockers(bench: Bench) -> None:
    request = jobs.whoami.request("hello").using(blockers=(jobs.name.request(),))
    (job_id,) = await bench.start(request)
    await bench.drain()
    assert (await bench.get(job_id)).output == '"hello world, 1 True"'


@pytest.mark.parametrize(
    ("how", "type_", "message"),
    [
        ("raise", "KeyError", "'gone'"),
        ("unrecoverable", "headway.domain.errors.Unrecoverable", "never"),
        ("system exit", "SystemExit", "3"),
        ("exit", "ProcessDied", "the process that ran the job ended with exit code 7"),
        ("crash", "ProcessDied", "the process that ran the job was killed by SIGSEGV"),
    ],
)
async def test_failures_are_told_and_charged(
    bench: Bench, how: str, type_: str, message: str
) -> None:
    bad, good = await bench.start(jobs.fail.request(how), jobs.double.request(4))
    await bench.drain(concurrency=1)
    failure = await failure_of(bench, bad)
    assert (failure.type, failure.message) == (type_, message)
    if how == "raise":
        assert 'raise KeyError("gone")' in failure.traceback
        assert "isolation_child" not in failure.traceback
    assert (await bench.get(good)).output == "8"


async def test_a_timeout_really_kills(bench: Bench, tmp_path: Path) -> None:
    # The first job starts the child, so that the second's time does not go into that.
    _, job_id = await bench.start(jobs.pid.request(), jobs.hang.request(str(tmp_path / "pid")))
    await bench.drain(concurrency=1)
    assert (await failure_of(bench, job_id)).type == "TimeoutError"
    assert not alive(int(read(tmp_path / "pid")))


async def test_a_lost_lease_really_kills(bench: Bench, tmp_path: Path) -> None:
    (job_id,) = await bench.start(jobs.hang_forever.request(str(tmp_path / "pid")))
    async with bench.working(lease_for=1.5):
        pid = await pid_in(tmp_path / "pid")
        await bench.store.run(bench.store.cancel, [job_id])
        await bench.event(LeaseLost, job_id=job_id)
        assert not alive(pid)


async def test_the_end_of_the_grace_time_really_kills(bench: Bench, tmp_path: Path) -> None:
    (job_id,) = await bench.start(jobs.hang_forever.request(str(tmp_path / "pid")))
    worker = bench.worker(grace=0)
    running = asyncio.create_task(worker.run())
    pid = await pid_in(tmp_path / "pid")
    os.kill(pid, signal.SIGTERM)  # as a supervisor does to the whole group: not its business
    os.kill(pid, signal.SIGINT)
    worker.request_stop()
    await running
    assert not alive(pid)
    assert await bench.state(job_id) is JobState.PENDING


async def test_large_outputs_arrive(bench: Bench) -> None:
    (job_id,) = await bench.start(jobs.large.request(900_000))
    await bench.drain()
    assert len((await bench.get(job_id)).output or "") == 900_002


async def test_continuing_and_rescheduling(bench: Bench) -> None:
    going, waiting = await bench.start(jobs.go_on.request(21), jobs.go_on.request(0))
    await bench.drain()
    (current,) = await bench.store.run(bench.store.current, [going])
    assert current is not None
    assert (current.type, current.output) == ("double", "42")
    job = await bench.get(waiting)
    assert (job.state, job.attempts) == (JobState.PENDING, 0)


async def test_there_are_no_transactions_in_children(bench: Bench) -> None:
    (job_id,) = await bench.start(jobs.want_a_transaction.request())
    await bench.drain()
    failure = await failure_of(bench, job_id)
    assert "only available in `async def` handlers without isolate=True" in failure.message


SCRIPT = """
    import asyncio, os, sys, time
    from pathlib import Path
    from headway.engine.codec import JsonCodec
    from headway.engine.decorators import JobDecorator
    from headway.engine.planning import plan_start
    from headway.engine.registry import Registry
    from headway.engine.worker import Worker
    from headway.stores.memory import MemoryStore

    registry = Registry()
    job = JobDecorator(registry, JsonCodec())

    @job(isolate=True)
    def work(path: str, seconds: float) -> int:
        Path(path).write_text(str(os.getpid()))
        time.sleep(seconds)
        return os.getpid()

    async def main(path: str, seconds: float) -> None:
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
async def test_children_die_with_their_worker(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, script_in(tmp_path), tmp_path / "pid", "60"
    )
    pid = await pid_in(tmp_path / "pid")
    assert alive(pid)
    process.kill()
    await process.wait()

    async def dead() -> bool:
        return not alive(pid)

    await eventually(dead)


async def test_a_worker_without_isolated_jobs_starts_no_process(bench: Bench) -> None:
    (job_id,) = await bench.start(jobs.name.request())
    async with bench.working():
        await bench.event(JobCompleted, job_id=job_id)
        assert not [command for command in children() if "spawn_main" in command]
