"""Processes that are started for a measurement: watched, limited in time, and always ended."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from benchmarks.peers.environments import ROOT, Environment
from benchmarks.peers.location import Location
from benchmarks.peers.probe import Probe

TICKS = os.sysconf("SC_CLK_TCK")
START_LIMIT = 60.0
"""Seconds that a worker has to import what it needs."""


class ActionFailed(Exception):
    """What a queue's process said before it gave up."""


def _die_with_parent() -> None:
    """Linux: if we are killed, what we started goes too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def launch(
    command: list[str], *, output: IO[bytes], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for us, and the whole group can be ended."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=ROOT,
        env=None if environment is None else {**os.environ, **environment},
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - there is only one thread here
    )


def end(process: subprocess.Popen[bytes], *, patience: float = 0.0) -> None:
    """End a process and everything that it started."""
    group = process.pid
    if patience and process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class Runner:
    """Runs the actions of one queue in its environment."""

    environment: Environment
    location: Location

    def using(self, use: str, *, slots: int = 0, loaded: int = 0) -> Runner:
        return replace(self, location=replace(self.location, use=use, slots=slots, loaded=loaded))

    @property
    def probe(self) -> Probe:
        return Probe(self.location)

    def act(self, action: str, *numbers: float, limit: float) -> dict[str, Any]:
        """What the action answers. Raises ActionFailed, also if it takes longer than `limit`."""
        answer = Path(self.location.folder, "answer")
        answer.unlink(missing_ok=True)
        location = replace(self.location, answer=str(answer))
        log = Path(self.location.folder, f"{self.location.peer}-{action}.log")
        with log.open("wb") as output:
            process = launch(
                self._command(action, *map(str, numbers)),
                output=output,
                environment=_environment(location),
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                raise ActionFailed(f"{action} took longer than {limit:.0f} s") from None
            finally:
                end(process)
        if code or not answer.exists():
            raise ActionFailed(f"{action}: {_last_words(log)}")
        return json.loads(answer.read_text())

    @contextlib.contextmanager
    def workers(self, count: int) -> Iterator[Workers]:
        """Worker processes that have imported what they need and wait at the probe's gate, which
        the action that measures them opens."""
        self.probe.reset()
        log = Path(self.location.folder, f"{self.location.peer}-work.log")
        workers = Workers(log)
        with log.open("wb") as output:
            try:
                for _ in range(count):
                    workers.processes.append(
                        launch(
                            self._command("work"),
                            output=output,
                            environment=_environment(self.location),
                        )
                    )
                deadline = time.monotonic() + START_LIMIT
                while self.probe.ready() < count:
                    workers.check()
                    if time.monotonic() > deadline:
                        raise ActionFailed(f"the worker did not start: {_last_words(log)}")
                    time.sleep(0.01)
                yield workers
                workers.check()
            except ActionFailed:
                workers.check()  # says more, if a worker's death is the reason
                raise
            finally:
                for process in workers.processes:
                    end(process, patience=2.0)

    def _command(self, action: str, *numbers: str) -> list[str]:
        python, module = str(self.environment.python), self.environment.name
        return [python, "-m", "benchmarks.peers.action", module, action, *numbers]


class Workers:
    def __init__(self, log: Path) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._log = log

    def check(self) -> None:
        """Raise ActionFailed if a worker has died."""
        for process in self.processes:
            if process.poll() is not None:
                raise ActionFailed(
                    f"the worker ended with {process.returncode}: {_last_words(self._log)}"
                )

    def memory(self) -> dict[str, float]:
        """Resident memory in MB: of the largest process, and of all that the workers consist of."""
        sizes = [resident(pid) for pid in self._tree()]
        return {"largest": max(sizes), "all": sum(sizes)}

    def cpu(self) -> float:
        """Seconds used so far."""
        return sum(cpu_seconds(pid) for pid in self._tree())

    def _tree(self) -> set[int]:
        return tree({process.pid for process in self.processes})


def resident(pid: int) -> float:
    """MB."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return 0.0


def cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def running_seconds(pid: int) -> float:
    """The same, by the scheduler's clock, which does not count in ticks of 10 ms."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return cpu_seconds(pid)


def reaped_seconds(pid: int) -> float:
    """CPU seconds of children that have ended."""
    fields = _stat(pid)
    return (int(fields[13]) + int(fields[14])) / TICKS if fields else 0.0


def parent_of(pid: int) -> int:
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    """What follows the name in /proc/PID/stat; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def all_processes() -> dict[int, int]:
    """Every process and its parent."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return {pid: int(fields[1]) for pid in pids if (fields := _stat(pid))}


def tree(roots: set[int]) -> set[int]:
    """Processes and all that descend from them."""
    parents = all_processes()
    found = roots & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _environment(location: Location) -> dict[str, str]:
    return {**location.to_environment(), "PYTHONPATH": str(ROOT)}


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it said nothing"
