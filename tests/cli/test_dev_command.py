"""`headway dev` as a user runs it: jobs, reloads, mistakes, the dashboard, Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from proof.tools.proxy import Proxy
from tests.cli.command import command
from tests.support.processes import children, free_port
from tests.support.servers.postgres import PostgresServer

APP = """
import time

from headway import Fixed, Headway

app = Headway()


@app.job
async def charge(order_id: int) -> str:
    return f"receipt-{order_id}"


@app.job(max_attempts=2, retry=Fixed(0.01))
def report(order_id: int) -> str:
    raise RuntimeError(f"closed \\x1b[2Jfor {order_id}")


@app.job
def block(order_id: int) -> None:
    time.sleep(order_id)
"""
RAISES = next(n for n, line in enumerate(APP.splitlines(), 1) if "raise RuntimeError" in line)
MISTAKE = f"{APP}def what is this\n"
IGNORING = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""Before a command: starts it with SIGINT ignored, as `make test &` in a script does."""

HEARING_SIGHUP = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs the command that follows, also where the run ignores SIGHUP, as under nohup."""


class Dev:
    """The command, running in a folder with an app.py, and all that it has printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.before: tuple[str, ...] = ()
        self.environment: dict[str, str] = {}
        self.log = folder / "said.txt"
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, stdout: int | None = None) -> subprocess.Popen[bytes]:
        """What it prints goes to the log, unless it is to go elsewhere."""
        environment = {**os.environ, "PYTHONWARNINGS": "error", **self.environment}
        environment.pop("HEADWAY_APP", None)
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [*self.before, sys.executable, "-m", "headway", "dev", *self.arguments],
                cwd=self.folder,
                env=environment,
                stdout=out if stdout is None else stdout,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.process

    def save(self, text: str) -> None:
        (self.folder / "app.py").write_text(text)

    def enqueue(self, type: str, order_id: int) -> str:
        """As another program would; the id."""
        code = (
            "from app import app\nwith app.sync as client:\n"
            f"    print(client.start(client.request({type!r}, order_id={order_id})).id)"
        )
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            check=True,
            timeout=30,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def running(self) -> int:
        """Jobs that run."""
        with contextlib.closing(sqlite3.connect(self.folder / "headway.db")) as database:
            count: int
            (count,) = database.execute(
                "select count(*) from headway_job where state = 'running'"
            ).fetchone()
            return count

    def said(self, pattern: str, times: int = 1) -> re.Match[str]:
        """Wait until it has printed that."""
        found: list[re.Match[str]] = []

        def enough() -> bool:
            found[:] = re.finditer(pattern, self.log.read_text())
            return len(found) >= times

        wait_until(enough, lambda: f"{pattern!r} is not in:\n{self.log.read_text()}")
        return found[-1]

    def close(self) -> None:
        if self.process is not None:
            for pid in [self.process.pid, *children(self.process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


def wait_until(true: Callable[[], bool], otherwise: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)


def lives(pid: int) -> bool:
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return bool(state) and not state.startswith("Z")


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Dev]:
    (tmp_path / "app.py").write_text(APP)
    dev = Dev(tmp_path)
    yield dev
    dev.close()


@pytest.mark.slow
def test_from_nothing_to_a_job_a_reload_a_mistake_and_the_end(dev: Dev) -> None:
    dev.arguments = ("--no-dashboard",)
    dev.save(MISTAKE)
    process = dev.start()
    line = len(MISTAKE.splitlines())
    dev.said(rf"Error: app cannot be imported \(app\.py:{line}\):\n(.*\n)+SyntaxError: ")
    dev.said("waiting for the next save")
    dev.save(APP)
    dev.said("3 job types on SQLite file headway.db")
    paid = dev.enqueue("charge", 7)
    dev.said(rf"done +charge +{paid[-8:]}  .* ms\n")
    told = dev.enqueue("report", 8)
    dev.said(
        rf"retry +report +{told[-8:]}  after [\d.]+ ms, again in 10 ms: app\.py:{RAISES}: Runtime"
    )
    dev.said(rf"failed +report .* ms: app\.py:{RAISES}: RuntimeError: closed \\x1b\[2Jfor 8")

    dev.save(APP.replace("raise RuntimeError", "return str"))
    dev.said("app.py changed: starting again", times=2)
    dev.said(r"reloaded in [\d.]+ m?s\n")
    better = dev.enqueue("report", 9)
    dev.said(rf"done +report +{better[-8:]}")

    dev.save(MISTAKE)
    dev.said("waiting for the next save", times=2)
    dev.save(APP)
    dev.said("reloaded in", times=2)
    fixed = dev.enqueue("charge", 10)
    dev.said(rf"done +charge +{fixed[-8:]}")

    (worker,) = children(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    dev.said("stopping: running jobs get 2 s")
    dev.said("ended\n")
    assert not lives(worker)
    assert "Traceback" not in dev.log.read_text()


@pytest.mark.slow
def test_the_dashboard_is_served_with_a_token_that_is_told_once(dev: Dev) -> None:
    process = dev.start()
    told = dev.said(r"dashboard: (http://127\.0\.0\.1:\d+)/login#token=(\S+)\n")
    address = f"{told[1]}/api/v1/types"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(address, timeout=10)
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {told[2]}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200

    dev.save(APP + "\n")
    dev.said("reloaded in")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200
    assert dev.log.read_text().count(told[2]) == 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.slow
def test_ctrl_c_is_answered_at_once_and_the_second_kills(dev: Dev) -> None:
    """Also where the shell that started it ignores Ctrl-C."""
    dev.before, dev.environment = IGNORING, {"HEADWAY_TOKEN": "a-token-of-our-own-choice"}
    process = dev.start()
    dev.said(r"dashboard: http://127\.0\.0\.1:\d+\n")  # a token of one's own is not printed
    (worker,) = children(process.pid)
    dev.enqueue("block", 60)
    wait_until(lambda: dev.running() == 1)
    process.send_signal(signal.SIGINT)
    dev.said("stopping: running jobs get 2 s; Ctrl-C again kills them")
    assert lives(worker)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert not lives(worker)


@pytest.mark.slow
def test_waits_for_a_database_that_is_not_there(dev: Dev, postgres_server: PostgresServer) -> None:
    port, name = free_port(), f"dev_{os.getpid()}"
    url = f"postgresql://postgres@127.0.0.1:{port}/{name}"
    dev.save(APP.replace("Headway()", f"Headway({url!r})"))
    dev.arguments = ("--no-dashboard",)
    process = dev.start()
    where = f"PostgreSQL database '{name}' at 127.0.0.1:{port}"
    dev.said(rf"waiting for {where} \(Connection refused\)\n")
    proxy = Proxy(postgres_server.port, port)
    try:
        dev.said(rf'waiting: cannot use {where}: database "{name}" does not exist; ')
        with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
        dev.said(rf"3 job types on {where}\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        proxy.close()
        postgres_server.drop_database(name)
    assert dev.log.read_text().count("waiting") == 2


@pytest.mark.slow
@pytest.mark.parametrize("database", ["", "postgresql://127.0.0.1:1/shop"], ids=["up", "missing"])
def test_the_child_does_not_outlive_a_killed_parent(dev: Dev, database: str) -> None:
    dev.arguments = ("app.py", "--no-dashboard")
    dev.save(APP.replace("Headway()", f"Headway({database!r})" if database else "Headway()"))
    process = dev.start()
    dev.said("waiting for" if database else "3 job types")
    (worker,) = children(process.pid)
    process.kill()
    process.wait()
    wait_until(lambda: not lives(worker))


@pytest.mark.long
@pytest.mark.slow
def test_a_handler_that_goes_on_does_not_keep_the_child_of_a_closed_terminal(dev: Dev) -> None:
    dev.before = (sys.executable, "-c", HEARING_SIGHUP)
    dev.arguments = ("app.py", "--no-dashboard")
    process = dev.start(stdout=subprocess.PIPE)
    assert process.stdout is not None
    while b"3 job types" not in process.stdout.readline():
        pass
    (worker,) = children(process.pid)
    dev.enqueue("block", 60)
    wait_until(lambda: dev.running() == 1)
    process.stdout.close()
    process.send_signal(signal.SIGHUP)
    process.wait(30)
    wait_until(lambda: not lives(worker))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_child_does_not_outlive_a_parent_that_ends_while_it_starts(
    dev: Dev, number: signal.Signals
) -> None:
    dev.arguments = ("app.py", "--no-dashboard")
    process = dev.start()
    wait_until(lambda: bool(children(process.pid)))
    (worker,) = children(process.pid)
    process.send_signal(number)
    process.wait(30)
    wait_until(lambda: not lives(worker))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere.py",), "there is no file nowhere.py here"),
        (("sqlite:///shop.db",), "this command runs your code"),
        (("--port", "80", "--no-dashboard"), "--port and --no-dashboard do not go together"),
    ],
)
def test_mistakes_get_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    result = command("dev", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr


def same(text: str) -> str:
    """Without what differs every time."""
    for pattern, name in (
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
        (r"\d\d:\d\d:\d\d", "TIME"),
        (r"127\.0\.0\.1:\d+", "HOST"),
        (r"token=\S+", "TOKEN"),
        (r"[0-9a-f]{8}  .* ms", "ID TIME"),
    ):
        text = re.sub(pattern, name, text)
    return text
