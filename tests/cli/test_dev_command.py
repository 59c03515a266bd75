"""`headway dev` as a user runs it: jobs, reloads, mistakes, the dashboard, Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, read_blocks

APP = """
from headway import Fixed, Headway

app = Headway()


@app.job
async def charge(order_id: int) -> str:
    return f"receipt-{order_id}"


@app.job(max_attempts=2, retry=Fixed(0.01))
def report(order_id: int) -> str:
    raise RuntimeError(f"closed \\x1b[2Jfor {order_id}")
"""


class Dev:
    """The command, running in a folder with an app.py, and all that it has printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.log = folder / "said.txt"
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONWARNINGS": "error"}
        environment.pop("HEADWAY_APP", None)
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headway", "dev", *self.arguments],
                cwd=self.folder,
                env=environment,
                stdout=out,
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


def children(pid: int) -> list[int]:
    listing = subprocess.check_output(["ps", "-A", "-o", "ppid=,pid="], text=True)
    pairs = (map(int, line.split()) for line in listing.splitlines())
    return [child for parent, child in pairs if parent == pid]


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
    process = dev.start()
    dev.said("2 job types on SQLite file headway.db")
    first = children(process.pid)
    paid = dev.enqueue("charge", 7)
    dev.said(rf"done +charge +{paid[-8:]}  .* ms\n")
    told = dev.enqueue("report", 8)
    dev.said(rf"retry +report +{told[-8:]}  after [\d.]+ ms, again in 10 ms: RuntimeError: closed")
    dev.said(rf"failed +report +{told[-8:]}  after [\d.]+ ms: RuntimeError: closed \\x1b\[2Jfor 8")

    dev.save(APP.replace("raise RuntimeError", "return str"))
    dev.said("app.py changed: starting again")
    wait_until(lambda: children(process.pid) not in ([], first))
    better = dev.enqueue("report", 9)
    dev.said(rf"done +report +{better[-8:]}")

    dev.save(APP + "def what is this")
    dev.said("Error: app cannot be imported")
    dev.said("SyntaxError")
    dev.said("waiting for a change")
    dev.save(APP)
    again = dev.said("app.py changed: starting again", times=3)
    assert again
    fixed = dev.enqueue("charge", 10)
    dev.said(rf"done +charge +{fixed[-8:]}")

    (worker,) = children(process.pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
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
    dev.said("starting again")

    def answers() -> bool:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    (before,) = children(process.pid) or (0,)
    wait_until(answers)
    assert dev.log.read_text().count(told[2]) == 1, before
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


@pytest.mark.slow
def test_the_child_does_not_outlive_a_killed_parent(dev: Dev) -> None:
    dev.arguments = ("app.py", "--no-dashboard")
    process = dev.start()
    dev.said("2 job types")
    (worker,) = children(process.pid)
    process.kill()
    process.wait()
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
def test_mistakes_get_one_sentence(dev: Dev, arguments: tuple[str, ...], sentence: str) -> None:
    dev.arguments = arguments
    assert dev.start().wait(30) == 2
    assert sentence in dev.log.read_text()


@pytest.mark.slow
def test_the_guide_tells_it_as_it_is(tmp_path: Path) -> None:
    blocks = read_blocks(ROOT / "docs" / "guides" / "operating.md")
    (app,) = [block.text for block in blocks if block.file == "app.py"]
    assert len(app.splitlines()) - 1 == 8  # without the file's name
    told = [block.text for block in blocks if block.kind == "console"]
    (header,) = [text for text in told if text.startswith("$ headway dev\n")]
    (started,) = [text for text in told if text.startswith("$ headway start greet")]
    (line,) = [text for text in told if re.match(r"\d\d:\d\d:\d\d  done", text)]
    (tmp_path / "app.py").write_text(app)
    dev = Dev(tmp_path)
    try:
        dev.start()
        dev.said("dashboard: ")
        command, _, printed = started.removeprefix("$ headway ").partition("\n")
        done = subprocess.run(
            [sys.executable, "-m", "headway", *shlex.split(command)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=30,
            check=True,
        )
        dev.said("done")
    finally:
        dev.close()
    assert same(done.stdout) == same(printed)
    assert same(dev.log.read_text()) == same(header.partition("\n")[2] + line)


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
