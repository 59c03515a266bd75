"""Processes: their ports and children, and examples run as users run them, driven over HTTP."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def free_port() -> int:
    """A port that nothing listens on, below those that the kernel gives to outgoing connections.

    One of the kernel's could go to somebody's connection while the server is down, or even to
    the connection of a client that tries to reach the server: it would then talk to itself.
    """
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        lowest = 32768
    for _ in range(100):
        port = random.randrange(10_000, lowest) if lowest > 11_000 else 0
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise OSError("no free port found")


def children(pid: int) -> list[int]:
    """Pids of the child processes that have not ended."""
    listing = subprocess.check_output(["ps", "-A", "-o", "ppid=,pid=,stat="], text=True)
    rows = (line.split() for line in listing.splitlines())
    return [int(child) for parent, child, stat in rows if int(parent) == pid and stat[0] != "Z"]


def environment(**more: str) -> dict[str, str]:
    paths = [str(ROOT / "src"), str(ROOT)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "error", **more}


@contextmanager
def running(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A Python process until the block is left; then it is asked to stop, and has to."""
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment(**(env or {})),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
        except BaseException as error:
            error.add_note(log.read_text()[-4000:])
            raise
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def call(url: str, body: object = None, *, token: str | None = None) -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, _read(answer.read())
    except HTTPError as error:
        with error:
            return error.code, _read(error.read())


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


def until(look: Callable[[], Any], wanted: Callable[[Any], bool] = bool) -> Any:
    """What `look` sees once it is what was wanted; servers that are not up yet are waited for."""
    deadline = time.monotonic() + PATIENCE
    seen: Any = None
    while time.monotonic() < deadline:
        try:
            seen = look()
        except (URLError, ConnectionError):
            seen = None
        else:
            if wanted(seen):
                return seen
        time.sleep(0.05)
    raise AssertionError(f"it did not come about; the last that was seen is {seen!r}")
