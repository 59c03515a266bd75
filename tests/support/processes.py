"""Examples as their users run them: processes, driven over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
