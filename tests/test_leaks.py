"""The fixtures that fail a test which leaves something running, tried on tests that do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

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
NOTHING = """
import asyncio, threading

tasks = []

async def test_it():
    tasks.append(asyncio.create_task(asyncio.sleep(0.05)))
    await asyncio.to_thread(threading.Event().wait, 0.01)
"""


def run_pytest(directory: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run one test in a process of its own, under this suite's settings and fixtures."""
    (directory / "test_it.py").write_text(test)
    settings = ("-c", ROOT / "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *settings, directory],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leak", "complaint"),
    [
        (A_THREAD, "threads still running 2 s after the test: left behind"),
        (A_TASK, "tasks still running 2 s after the test:"),
        (A_WARNING, "UserWarning: left behind"),
        (A_SOCKET, "ResourceWarning: unclosed <socket"),
    ],
    ids=["thread", "task", "warning", "socket"],
)
def test_a_leak_fails_the_test(leak: str, complaint: str, tmp_path: Path) -> None:
    result = run_pytest(tmp_path, leak)
    assert result.returncode == pytest.ExitCode.TESTS_FAILED, result.stdout
    assert complaint in result.stdout


@pytest.mark.slow
def test_what_ends_within_the_grace_time_is_no_leak(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, NOTHING)
    assert result.returncode == pytest.ExitCode.OK, result.stdout


@pytest.mark.slow
def test_sockets_that_a_test_may_drop_are_no_error_of_the_next(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, A_SOCKET.replace("test_it()", "test_it(dropped_sockets)"))
    assert result.returncode == pytest.ExitCode.OK, result.stdout
