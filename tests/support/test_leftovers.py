"""The fixtures that fail a test which leaves something running, tried on tests that do."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

A_THREAD = """
import threading

def test_it():
    threading.Thread(target=threading.Event().wait, name="left behind", daemon=True).start()
"""
A_TASK = """
import asyncio

tasks = []

async def test_it():
    tasks.append(asyncio.create_task(asyncio.sleep(60), name="left behind"))
"""
A_WARNING = """
import warnings

def test_it():
    warnings.warn("left behind")
"""
A_SOCKET = """
import gc, socket

def test_it():
    around = [socket.socket()]
    around.append(around)

def test_the_next():
    gc.collect()
"""
A_PROCESS = """
import subprocess, sys, time

SUPERVISOR = '''
import subprocess, sys
inner = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    start_new_session=True,
)
inner.returncode = 0  # so that Python does not warn of it
print(inner.pid, flush=True)
'''

def test_it(request):
    found = subprocess.run(
        [sys.executable, "-c", SUPERVISOR], stdout=subprocess.PIPE, text=True, timeout=60
    )
    (request.path.parent / "pid").write_text(found.stdout)
    ENDING
"""
NOT_PYTHON = """
import subprocess

def test_it(request):
    left = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
    (request.path.parent / "pid").write_text(str(left.pid))
    left.returncode = 0  # so that Python does not warn of it
"""
CTRL_C = """
import signal, subprocess, sys

def test_it():
    waiting = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )
    waiting.stdout.readline()
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(60) == -signal.SIGINT
    waiting.stdout.close()
"""
NOTHING = """
import asyncio, threading

tasks = []

async def test_it():
    tasks.append(asyncio.create_task(asyncio.sleep(0.05)))
    await asyncio.to_thread(threading.Event().wait, 0.01)
"""


def written(directory: Path, test: str) -> list[str | Path]:
    """The command that runs one test, under this suite's settings and fixtures."""
    (directory / "test_it.py").write_text(test)
    settings = ("-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider")
    return [sys.executable, "-m", "pytest", *settings, directory]


def run_pytest(directory: Path, test: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run one test in a process of its own."""
    return subprocess.run(
        [*written(directory, test), *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("leak", "complaint"),
    [
        (A_THREAD, "threads still running 5 s after the test: left behind"),
        (A_TASK, "tasks still running 5 s after the test:"),
        (A_WARNING, "UserWarning: left behind"),
        (A_SOCKET, "ResourceWarning: unclosed <socket"),
    ],
    ids=["thread", "task", "warning", "socket"],
)
def test_a_leak_fails_the_test(leak: str, complaint: str, tmp_path: Path) -> None:
    result = run_pytest(tmp_path, leak)
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    assert complaint in result.stdout


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while lives(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """One that was killed and is not yet buried does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


on_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="NOT VERIFIED: This machine has no /proc"
)


@pytest.mark.long
@on_linux
@pytest.mark.slow
def test_a_process_fails_the_test_and_is_killed(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_PROCESS.replace("ENDING", ""))
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    assert "processes still running 5 s after the test:" in result.stdout
    assert "time.sleep(600)" in result.stdout
    assert not lives(int((tmp_path / "pid").read_text()))


@pytest.mark.long
@on_linux
@pytest.mark.slow
def test_what_outlives_the_run_fails_it_and_is_killed(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, NOT_PYTHON, "-n", "1")
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    assert "1 passed" in result.stdout
    pid = int((tmp_path / "pid").read_text())
    assert f"{pid}: /bin/sleep 600, started by" in result.stdout
    assert not lives(pid)


@pytest.mark.long
@on_linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "more"),
    [(signal.SIGKILL, ("-n", "1")), (signal.SIGKILL, ()), (signal.SIGINT, ())],
    ids=["killed, with xdist", "killed", "interrupted"],
)
def test_nothing_survives_a_run_that_is_ended(
    tmp_path: Path, number: signal.Signals, more: tuple[str]
) -> None:
    command = written(tmp_path, A_PROCESS.replace("ENDING", "time.sleep(600)"))
    pids = tmp_path / "pid"
    with subprocess.Popen(
        [*command, *more], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        while not (pids.exists() and pids.read_text()):
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(number)
    wait_until_gone(int(pids.read_text()))


@pytest.mark.long
@pytest.mark.slow
def test_ctrl_c_works_in_tests_though_the_run_ignores_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = run_pytest(tmp_path, CTRL_C, "-n", "1")
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.returncode == pytest.ExitCode.OK, result.stdout


@pytest.mark.long
@pytest.mark.slow
def test_what_ends_within_the_grace_time_is_no_leak(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, NOTHING)
    assert result.returncode == pytest.ExitCode.OK, result.stdout


@pytest.mark.long
@pytest.mark.slow
def test_sockets_that_a_test_may_drop_are_no_error_of_the_next(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_SOCKET.replace("test_it()", "test_it(dropped_sockets)"))
    assert result.returncode == pytest.ExitCode.OK, result.stdout
