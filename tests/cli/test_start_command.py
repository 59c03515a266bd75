"""`headway start`, `check`, `queues drain` and `jobs tail`, in processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway import Headway, JobState
from tests.cli.command import command, printed
from tests.support.shop_processes import APP, ROOT, Shop


@contextmanager
def open_shop(dsn: str) -> Iterator[Shop]:
    assert command("migrate", "up", dsn).exit_code == 0
    shop = Shop(dsn)
    shop.environment["HEADWAY_APP"] = APP
    yield shop
    shop.close()


@pytest.fixture
def shop(sqlite_path: Path) -> Iterator[Shop]:
    with open_shop(f"sqlite:///{sqlite_path}") as shop:
        yield shop


@pytest.fixture(scope="module")
def shop_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The app in a file of its own, with an empty database beside it."""
    folder = tmp_path_factory.mktemp("start")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_DSN", f"sqlite:///{folder / 'shop.db'}")
        file = folder / "shop_to_start.py"
        file.write_text((ROOT / "tests" / "support" / "shop_app.py").read_text())
        assert command("check", str(file)).exit_code == 0  # it is imported, and made
    return file


@pytest.fixture
def either_shop(dsn: str) -> Iterator[Shop]:
    """On each store, for what a store may do in its own way: waking, ages, order."""
    with open_shop(dsn) as shop:
        yield shop


def dsn_of(shop: Shop) -> str:
    return shop.environment["SHOP_DSN"]


def test_starts_a_job(shop: Shop) -> None:
    started = shop.run("start", "add", '{"a": 1, "b": 2}')
    assert started.returncode == 0, started.stderr
    id = started.stdout.strip()
    assert shop.app.sync.get(id).input == '{"a":1,"b":2}'
    drained = shop.run("queues", "drain", "default")
    assert drained.returncode == 0, drained.stderr
    assert shop.app.sync.get(id).output == "3"


def test_later_once_and_elsewhere(shop: Shop) -> None:
    options = ("--in", "5m", "--dedup", "sum", "--queue", "sums", "--priority", "3", "--key", "t7")
    first = shop.run("start", "add", '{"a": 1, "b": 2}', *options, "--json")
    again = shop.run("start", "add", '{"a": 3, "b": 4}', *options, "--json")
    assert json.loads(first.stdout)["id"] == json.loads(again.stdout)["id"]
    job = shop.app.sync.get(json.loads(first.stdout)["id"])
    assert (job.queue, job.priority, job.dedup_key, job.key) == ("sums", 3, "sum", "t7")
    assert 295 < (job.run_at - job.created_at).total_seconds() < 305


def test_waits_for_the_result(either_shop: Shop) -> None:
    shop = either_shop
    worker = shop.spawn("worker")
    done = shop.run("start", "add", '{"a": 1, "b": 2}', "--wait", "--timeout", "30s")
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    late = shop.run("start", "stay", '{"seconds": 60}', "--wait", "--timeout", "200ms")
    assert (late.returncode, late.stdout) == (6, "")
    assert "still" in late.stderr
    broken = shop.run("start", "fail", '{"why": "closed"}', "--wait", "--json")
    assert broken.returncode == 1
    ended = json.loads(broken.stdout)
    assert ended["state"] == "failed"
    assert ended["error"].endswith("Unrecoverable: closed")
    worker.kill()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", '{"a": 1}'), "b"),
        (("add", '{"a": 1, "b": "two"}'), "at b: expected int, got str"),
        (("add", "{"), "JSON"),
        (("ad", "{}"), "did you mean 'add'?"),
        (("add", "{}", "--in", "soon"), "is not a duration"),
        (("add", "{}", "--in", "5m", "--at", "2030-01-01"), "give one of them"),
        (("add", "{}", "--timeout", "5m"), "--timeout is for --wait"),
    ],
)
def test_mistakes_start_nothing(shop_file: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = command("start", *arguments, "-a", str(shop_file))
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert printed("jobs", "list", "-a", str(shop_file))["jobs"] == []


def test_check_finds_what_a_deployment_would_break(shop: Shop) -> None:
    before = Headway(dsn_of(shop))

    @before.job
    async def add(a: str, b: int) -> None: ...

    @before.job
    async def gone() -> None: ...

    fine = shop.app.sync.start(shop.add.request(1, 2))
    assert shop.run("check").returncode == 0
    with before.sync as client:
        unfit = client.start(add.request("one", 2))
        unknown = client.start(gone.request())
    found = shop.run("check", "--json")
    assert found.returncode == 1, found.stderr
    report = json.loads(found.stdout)
    assert report["examined"] == 3
    assert {each["job_id"] for each in report["incompatible"]} == {unfit.id, unknown.id}
    told = shop.run("check")
    assert "3 waiting jobs checked, 2 do not fit" in told.stderr
    assert fine.id not in told.stdout


def test_ctrl_c_while_waiting(shop: Shop) -> None:
    waiting = shop.spawn("start", "add", '{"a": 1, "b": 2}', "--wait")
    assert waiting.stderr is not None
    id = waiting.stderr.readline().removeprefix("started ").strip()
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) == 130
    assert waiting.stderr.read() == "interrupted\n"
    assert shop.app.sync.get(id).state is JobState.PENDING


def test_drain_runs_only_the_queues_that_were_named(shop: Shop) -> None:
    for queue in ("first", "second"):
        assert shop.run("start", "add", '{"a": 1, "b": 2}', "--queue", queue).returncode == 0
    assert shop.run("queues", "drain", "first").returncode == 0
    states = {job.queue: job.state for job in shop.app.sync.list().jobs}
    assert states == {"first": JobState.COMPLETED, "second": JobState.PENDING}


def test_tail_tells_what_happens(either_shop: Shop, tmp_path: Path) -> None:
    shop = either_shop
    old = shop.app.sync.start(shop.add.request(1, 1))
    shop.app.sync.start_many([shop.add.request(n, n) for n in range(300)])
    log = tmp_path / "tail.txt"
    with log.open("wb") as out:
        tail = subprocess.Popen(
            [sys.executable, "-m", "headway", "jobs", "tail", "-n", "2", "--every", "50ms"],
            cwd=ROOT,
            env=shop.environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for_lines(log, 2)
        assert len(log.read_text().splitlines()) == 2
        new = shop.app.sync.start(shop.add.request(5, 5))
        wait_for(log, f"pending    add  {new.id}")
        assert shop.run("worker", "--drain", "--queues", "default").returncode == 0
        wait_for(log, f"completed  add  {new.id}  took")
        wait_for(log, f"completed  add  {old.id}  took")  # though 300 newer ones hide it
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == 0
        assert "Traceback" not in log.read_text()
    finally:
        tail.kill()
        tail.wait()


def test_tail_prints_json_lines(shop: Shop, tmp_path: Path) -> None:
    started, _ = shop.app.sync.start_many([shop.add.request(1, 1), shop.add.request(2, 2)])
    log = tmp_path / "tail.txt"
    with log.open("wb") as out:
        words = ("type:add", started.id[-8:])
        tail = subprocess.Popen(
            [sys.executable, "-m", "headway", "jobs", "tail", *words, "--json"],
            cwd=ROOT,
            env=shop.environment,
            stdout=out,
        )
    try:
        wait_for_lines(log, 1)
        tail.terminate()
        tail.wait(30)
    finally:
        tail.kill()
        tail.wait()
    (line,) = log.read_text().splitlines()
    assert json.loads(line) == printed("jobs", "show", started.id, "-a", dsn_of(shop))["job"]


def wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while text not in log.read_text():
        assert time.monotonic() < deadline, f"{text!r} is not in:\n{log.read_text()}"
        time.sleep(0.02)


def wait_for_lines(log: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(log.read_text().splitlines()) < count:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
