"""Finds and ends processes that tests have left running.

A run of pytest sets an environment variable that all its processes inherit; a second one names the
test. Run as a program, this module guards a run: if pytest is killed, the guard ends the processes
of the run. Without /proc no process is found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

RUN = "RUN_OF_TESTS"
"""The environment variable for runs: the identity of each, a run inside another one last."""
TEST = "TEST_OF_RUN"
"""The environment variable for the name of the test."""

PATIENCE = 5.0
"""Seconds for processes that are about to end at the end of a run."""
PATIENCE_WITH_SERVERS = 20.0
"""Seconds for servers whose test run has died: they have guards, which also remove their files."""
OF_PYTHON_ITSELF = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Helpers that live as long as the process which needed them first, and end with it."""


class Process(NamedTuple):
    pid: int
    program: str
    command: str
    test: str

    @property
    def is_python(self) -> bool:
        return self.program.startswith("python")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def __str__(self) -> str:
        return f"{self.pid}: {self.command}" + (f", started by {self.test}" if self.test else "")


class Run:
    """One run of pytest, from here on."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex
        environment = dict(os.environ)
        os.environ[RUN] = f"{environment.pop(RUN, '')}:{self._id}"
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.support.leftovers", self._id, str(os.getpid())],
            cwd=Path(__file__).parents[2],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us
        )

    def end(self) -> list[Process]:
        """Kill what is still there, and return it."""
        left = kill_what_stays(lambda: of_run(self._id), PATIENCE)
        self._guard.kill()
        self._guard.wait()
        return left


def of_run(run: str) -> list[Process]:
    """What the run has started and what still runs."""
    return [process for process, marks in _processes() if run in marks.get(RUN, "")]


def of_test(name: str, before: set[str]) -> list[Process]:
    """Python processes that the test, or its own fixtures, started. Servers may be for the tests
    that follow too. `before` are the numbers of the processes that ran when the test began: to read
    the marks of all processes after each test would take longer than many a test."""
    run = os.environ.get(RUN, "")
    return [
        process
        for process, marks in _processes(before)
        if marks.get(TEST) == name and marks.get(RUN) == run and process.is_python
    ]


def kill_what_stays(look: Callable[[], list[Process]], patience: float) -> list[Process]:
    """Kill what `look` still sees when that time is over, and return it."""
    deadline = time.monotonic() + patience
    while True:
        if not look():
            return []
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    killed: dict[int, Process] = {}
    # Again and again: one may have started another one meanwhile. The kernel may hold one back.
    while (left := look()) and time.monotonic() < deadline + PATIENCE:
        for process in left:
            killed[process.pid] = process
            process.kill()
        time.sleep(0.01)
    return list(killed.values())


def numbers() -> set[str]:
    """The numbers of all processes."""
    if not os.path.isdir("/proc/self"):
        return set()
    return set(filter(str.isdigit, os.listdir("/proc")))


def _processes(besides: Set[str] = frozenset()) -> Iterator[tuple[Process, dict[str, str]]]:
    """All processes that carry the mark of a run, but for this one and those `besides`, and what
    they are marked with. One that has ended and was not waited for has no environment any more."""
    for name in numbers() - besides - {str(os.getpid())}:
        place = Path("/proc", name)
        try:
            environment = (place / "environ").read_bytes()
            if f"{RUN}=".encode() not in environment:
                continue
            program = os.readlink(place / "exe").rpartition("/")[2]
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended, or it is somebody else's
            continue
        if any(helper in command for helper in OF_PYTHON_ITSELF):
            continue
        marks: dict[str, str] = {}
        for variable in os.fsdecode(environment).split("\0"):
            key, _, value = variable.partition("=")
            if key in (RUN, TEST):
                marks[key] = value
        yield Process(int(name), program, command.strip(), marks.get(TEST, "")), marks


def _guard(run: str, parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.25)
    kill_what_stays(lambda: [left for left in of_run(run) if left.is_python], 0)
    kill_what_stays(lambda: of_run(run), PATIENCE_WITH_SERVERS)


if __name__ == "__main__":
    _guard(sys.argv[1], int(sys.argv[2]))
