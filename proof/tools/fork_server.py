"""Starts worker processes quickly: a process that has imported everything forks them on demand.

It reads the settings of a worker as a line of JSON and answers with the worker's pid. Workers die
with their fork server.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import importlib
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg_pool  # noqa: F401 - so that a fork need not import it

from proof.tools import producer, work
from proof.tools.wrong_clock import shift_clock

ROOT = Path(__file__).parents[2]


class ForkServer:
    """Starts workers and producers, of this release or of that in `environment`. Unexpected exits
    are written to the file `deaths`."""

    def __init__(self, deaths: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._deaths = deaths
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "proof.tools.fork_server"],
            cwd=ROOT,
            env={**environment, "PROOF_DEATHS": str(deaths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def spawn(
        self,
        dsn: str,
        logs: Path,
        *,
        memory: int = 0,
        clock: str = "",
        warnings: str = "",
        produces: bool = False,
        **settings: Any,
    ) -> int:
        """`memory`: limit of its address space. `clock`: file with the error of its clock.
        `warnings`: file for its log. `produces`: a client, and not a worker."""
        order = {
            "dsn": dsn,
            "logs": str(logs),
            "warnings": warnings,
            "produces": produces,
            "settings": settings,
            "memory": memory,
            "clock": clock,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def crashes(self) -> list[str]:
        """Workers that crashed, for example by a segmentation fault."""
        return [line for line in self.deaths() if " with -" in line]

    def deaths(self) -> list[str]:
        """Processes that ended by a crash or an error."""
        return self._deaths.read_text().splitlines() if self._deaths.exists() else []

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextlib.contextmanager
def fork_server(folder: Path, environment: Mapping[str, str] = os.environ) -> Iterator[ForkServer]:
    found = ForkServer(folder / "deaths", environment)
    try:
        yield found
    finally:
        found.close()


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(pids: list[int], seconds: float) -> list[int]:
    """Pids that still exist when the time is up."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _serve() -> None:
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGCHLD, _bury)
    for line in sys.stdin:
        order = json.loads(line)
        if order["dsn"].startswith("mongodb"):
            importlib.import_module("headway.stores.mongodb")
            importlib.import_module("headway.notifiers.mongodb")
        pid = os.fork()
        if pid == 0:
            _be_child(order)
        print(pid, flush=True)


def _bury(*_: object) -> None:
    """Reap children that have ended; record unexpected exit codes."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            if code not in (0, -signal.SIGKILL):
                with Path(os.environ["PROOF_DEATHS"]).open("a") as deaths:
                    deaths.write(f"worker {pid} ended with {code}\n")


def _be_child(order: dict[str, Any]) -> None:
    code = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        faulthandler.enable()
        os.close(0)
        os.dup2(2, 1)
        if order["memory"]:
            resource.setrlimit(resource.RLIMIT_AS, (order["memory"], order["memory"]))
        if order["clock"]:
            shift_clock(order["clock"])
        if order["warnings"]:
            logging.disable(logging.NOTSET)
            logging.basicConfig(filename=order["warnings"], level=logging.WARNING, force=True)
        main = producer.run_producer if order["produces"] else work.run_worker
        asyncio.run(main(order["dsn"], Path(order["logs"]), order["settings"]))
        code = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            path = Path(order["logs"]).parent / "errors"
            with path.open("a") as errors:
                errors.write(f"{os.getpid()} {type(error).__name__}: {error}\n")
    finally:
        os._exit(code)


if __name__ == "__main__":
    _serve()
