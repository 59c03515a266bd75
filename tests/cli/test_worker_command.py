"""`headway worker` as a user runs it: real processes, real signals."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from headway import JobState
from tests.support.processes import children
from tests.support.shop_processes import APP, Shop


@pytest.fixture
def shop(sqlite_path: Path) -> Iterator[Shop]:
    shop = Shop(f"sqlite:///{sqlite_path}")
    yield shop
    shop.close()


def test_drain_runs_what_is_there_and_exits(shop: Shop) -> None:
    sequences = shop.app.sync.start_many([shop.add.request(n, 1) for n in range(10)])
    done = shop.run("worker", APP, "--drain")
    assert done.returncode == 0, done.stderr
    assert [sequence.result(timeout=0) for sequence in sequences] == list(range(1, 11))


def test_one_drain_recovers_what_a_killed_worker_left(shop: Shop) -> None:
    worker = shop.spawn("worker", APP, "--lease", "1")
    job = shop.app.sync.start(shop.stay.request(3.0))
    record = shop.wait_for(job.id, JobState.RUNNING)
    worker.kill()
    worker.wait()
    while (record := shop.app.sync.get(job.id)).lease is not None:
        if record.lease.until < datetime.now(UTC):
            break
        time.sleep(0.05)
    done = shop.run("worker", APP, "--drain")
    assert done.returncode == 0, done.stderr
    record = shop.app.sync.get(job.id)
    assert (record.state, record.losses) == (JobState.COMPLETED, 1)


def test_a_drain_leaves_what_another_worker_runs(shop: Shop) -> None:
    shop.spawn("worker", APP)
    job = shop.app.sync.start(shop.stay.request(60.0))
    shop.wait_for(job.id, JobState.RUNNING)
    assert shop.run("worker", APP, "--drain").returncode == 0
    record = shop.app.sync.get(job.id)
    assert (record.state, record.losses) == (JobState.RUNNING, 0)


def test_the_environment_names_the_app_and_a_file_is_fine(shop: Shop) -> None:
    shop.environment["HEADWAY_APP"] = "tests/support/shop_app.py"
    assert shop.run("worker", "--drain").returncode == 0


def test_sigterm_lets_a_running_job_finish(shop: Shop) -> None:
    worker = shop.spawn("worker", APP)
    job = shop.app.sync.start(shop.stay.request(1.0))
    shop.wait_for(job.id, JobState.RUNNING)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
    record = shop.app.sync.get(job.id)
    assert record.state is JobState.COMPLETED
    assert record.attempts == 0


def test_a_second_signal_gives_the_job_back_uncharged(shop: Shop) -> None:
    worker = shop.spawn("worker", APP)
    job = shop.app.sync.start(shop.stay.request(60.0))
    shop.wait_for(job.id, JobState.RUNNING)
    worker.send_signal(signal.SIGTERM)
    assert worker.stderr is not None
    while "SIGTERM" not in worker.stderr.readline():
        pass
    worker.send_signal(signal.SIGINT)
    assert worker.wait(30) == 0
    record = shop.app.sync.get(job.id)
    assert record.state is JobState.PENDING
    assert (record.attempts, record.losses) == (0, 0)


def test_sigterms_at_once_are_one(shop: Shop) -> None:
    """`timeout 60 headway worker` sends it to the process and to the process group."""
    worker = shop.spawn("worker", APP)
    job = shop.app.sync.start(shop.stay.request(1.0))
    shop.wait_for(job.id, JobState.RUNNING)
    for _ in range(20):  # two that are sent at once may arrive as one
        worker.send_signal(signal.SIGTERM)
        time.sleep(0.002)
    assert worker.wait(30) == 0
    assert shop.app.sync.get(job.id).state is JobState.COMPLETED


def test_a_queue_that_nobody_uses_is_warned_of(shop: Shop) -> None:
    worker = shop.spawn("worker", APP, "--queues", "defalt,default", "--drain")
    assert worker.wait(30) == 0
    assert worker.stderr is not None
    said = worker.stderr.read()
    assert "Warning: no job or job type uses queue defalt; did you mean default?" in said
    assert said.count("Warning:") == 1


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("handler", ["ignore", "block"])
def test_a_handler_that_does_not_listen_keeps_no_process_alive(shop: Shop, handler: str) -> None:
    """In a task, or in a thread."""
    arguments = ("--grace", "0.1", "--queues", "default,slow")
    worker = shop.spawn("worker", APP, *arguments)
    job = shop.app.sync.start(shop.deaf[handler].request(90.0))
    shop.wait_for(job.id, JobState.RUNNING)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert worker.stderr is not None
    assert "the process ends with handlers that did not stop" in worker.stderr.read()


@pytest.mark.long
@pytest.mark.slow
def test_a_worker_on_a_locked_file_ends_soon_after_its_grace_time(
    shop: Shop, sqlite_path: Path
) -> None:
    worker = shop.spawn("worker", APP, "--grace", "1", "--lease", "3")
    job = shop.app.sync.start(shop.stay.request(60.0))
    shop.wait_for(job.id, JobState.RUNNING)
    assert worker.stderr is not None
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("begin immediate")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(25) == 0  # a writer alone waits for 30 seconds
        other.execute("rollback")


def test_a_frozen_worker_loses_its_job_and_changes_nothing_when_it_wakes(shop: Shop) -> None:
    frozen = shop.spawn("worker", APP, "--lease", "2")
    job = shop.app.sync.start(shop.stay.request(2.0))
    shop.wait_for(job.id, JobState.RUNNING)
    frozen.send_signal(signal.SIGSTOP)
    other = shop.spawn("worker", APP, "--lease", "2")
    done = shop.wait_for(job.id, JobState.COMPLETED)
    assert done.output == f'"{other.pid}:2"'
    assert done.losses == 1
    frozen.send_signal(signal.SIGCONT)
    frozen.send_signal(signal.SIGTERM)
    assert frozen.wait(30) == 0
    assert shop.app.sync.get(job.id) == done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "state", "reason"),
    [
        (0.0, JobState.COMPLETED, "already_completed"),
        (60.0, JobState.RUNNING, "taken_by_another_worker"),
    ],
)
def test_a_handler_that_was_frozen_hears_what_became_of_its_job(
    shop: Shop, seconds: float, state: JobState, reason: str
) -> None:
    frozen = shop.spawn("worker", APP, "--lease", "1")
    job = shop.app.sync.start(shop.hold.request(seconds))
    shop.wait_for(job.id, JobState.RUNNING)
    frozen.send_signal(signal.SIGSTOP)
    shop.spawn("worker", APP)
    deadline = time.monotonic() + 30
    while (record := shop.app.sync.get(job.id)).state is not state or not record.losses:
        assert time.monotonic() < deadline, f"job {job.id} is {record.state}"
        time.sleep(0.02)
    frozen.send_signal(signal.SIGCONT)
    assert frozen.stderr is not None
    told = next(line for line in frozen.stderr if line.startswith("told"))
    assert told == f"told {reason}\n"


def test_processes_replaces_one_that_dies(shop: Shop) -> None:
    supervisor = shop.spawn("worker", APP, "--processes", "2", "--lease", "1")
    while len(workers := shop.app.sync.workers()) < 2:
        time.sleep(0.05)
    os.kill(workers[0].pid, signal.SIGKILL)
    pids = {worker.pid for worker in workers}
    while not ({worker.pid for worker in shop.app.sync.workers()} - pids):
        time.sleep(0.05)
    assert shop.app.sync.start(shop.add.request(1, 2)).result(timeout=30) == 3
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(30) == 0


def wait_until_gone(pids: Iterable[int]) -> None:
    deadline = time.monotonic() + 30
    for pid in pids:
        while f" {pid} " in f" {' '.join(_living())} ":
            assert time.monotonic() < deadline, f"process {pid} still runs"
            time.sleep(0.1)


def _living() -> list[str]:
    listing = subprocess.check_output(["ps", "-A", "-o", "pid=,stat="], text=True)
    return [pid for pid, stat in map(str.split, listing.splitlines()) if stat[0] != "Z"]


@pytest.mark.slow
@pytest.mark.parametrize("started", [1, 3, 6])
def test_a_signal_while_processes_start_reaches_all_of_them(shop: Shop, started: int) -> None:
    supervisor = shop.spawn("worker", APP, "--processes", "6")
    while len(children(supervisor.pid)) < started:
        assert supervisor.poll() is None
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize("working", [False, True])
def test_workers_stop_gracefully_when_their_supervisor_was_killed(
    shop: Shop, working: bool
) -> None:
    """Also if it was killed before they had begun."""
    supervisor = shop.spawn("worker", APP, "--processes", "2")
    while len(workers := children(supervisor.pid)) < 2:
        assert supervisor.poll() is None
    shop.left += workers
    job = None
    if working:
        job = shop.app.sync.start(shop.stay.request(1.0))
        shop.wait_for(job.id, JobState.RUNNING)
    supervisor.kill()
    supervisor.wait()
    wait_until_gone(workers)
    if job is not None:
        record = shop.app.sync.get(job.id)
        assert (record.state, record.losses) == (JobState.COMPLETED, 0)
    assert shop.app.sync.workers() == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("worker", "no_such_module:app"), "there is no module 'no_such_module'"),
        (("worker", "tests.support.shop_app:nothing"), "no Headway app called 'nothing'"),
        (("worker", APP, "--queues", "a=x"), "is a number"),
        (("worker", APP, "--lease", "0"), "lease_for must be longer than 0"),
        (("worker", "redis://localhost"), "unknown scheme 'redis'"),
        (("worker", "memory://"), "at least one job type"),
    ],
)
def test_mistakes_get_one_sentence(shop: Shop, arguments: tuple[str, ...], sentence: str) -> None:
    done = shop.run(*arguments)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreachable_server_gets_one_sentence_without_its_password(shop: Shop) -> None:
    shop.environment["SHOP_DSN"] = "postgresql://me:topsecret@127.0.0.1:1/shop"
    done = shop.run("worker", APP)
    assert done.returncode == 4
    assert "cannot reach PostgreSQL database 'shop' at 127.0.0.1:1" in done.stderr
    assert "topsecret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_migrate(shop: Shop, postgres_url: str) -> None:
    status = shop.run("migrate", "status", postgres_url)
    assert (status.returncode, "missing" in status.stdout) == (0, True)
    check = shop.run("migrate", "check", postgres_url)
    steps = ["0001_initial", "0002_schedules", "0003_limits", "0004_keys"]
    assert (check.returncode, f"lacks {', '.join(steps)}" in check.stderr) == (1, True)
    missing = shop.run("worker", postgres_url)
    assert missing.returncode != 0
    up = shop.run("migrate", "up", postgres_url)
    assert (up.returncode, up.stdout) == (0, "".join(f"applied {step}\n" for step in steps))
    assert shop.run("migrate", "up", postgres_url).stdout == ""
    assert shop.run("migrate", "check", "--app", postgres_url).returncode == 0
    sql = shop.run("migrate", "sql", postgres_url)
    assert 'create table "headway".job' in sql.stdout
    later = shop.run("migrate", "sql", "--after", "1", postgres_url)
    assert (later.returncode, "0001_initial" in later.stdout) == (0, False)
    assert 'create table "headway".schedule ' in later.stdout
    assert "create index concurrently if not exists job_keyed " in later.stdout


def test_migrate_says_for_whom_it_waits(shop: Shop, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("create schema headway")
        up = shop.spawn("migrate", "up", postgres_url)
        assert up.stderr is not None
        said = up.stderr.readline()
        connection.commit()
    assert "0003_limits, 0004_keys has to wait: an open transaction" in said
    assert up.wait(60) == 0
    assert shop.run("migrate", "check", postgres_url).returncode == 0
