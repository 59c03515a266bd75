"""Where a measurement happens, handed from process to process in one environment variable."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from typing import Any

VARIABLE = "HEADWAY_BENCH_LOCATION"


@dataclass(frozen=True)
class Location:
    folder: str
    """For files of this run only."""
    postgres: str
    """The URL of the server, without a database."""
    valkey: int
    """The port."""
    peer: str
    use: str = "drain"
    """What the settings are for: drain, latency or result."""
    loaded: int = 0
    """Jobs that a drain began with, for a store that does not say."""
    slots: int = 0
    """How many jobs the probe times singly."""
    answer: str = ""
    """The file that an action's answer goes into."""

    def to_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}

    @staticmethod
    def from_environment() -> Location:
        return Location(**json.loads(os.environ[VARIABLE]))

    @property
    def database(self) -> str:
        return "bench_" + self.peer.replace("-", "_")

    @property
    def postgres_url(self) -> str:
        return f"{self.postgres}/{self.database}"

    def valkey_url(self, database: int = 0) -> str:
        return f"redis://127.0.0.1:{self.valkey}/{database}"

    @property
    def file(self) -> str:
        return f"{self.folder}/{self.peer}.db"


class Valkey:
    """A blocking client that knows just enough to look into a queue from outside."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __call__(self, *words: str) -> Any:
        parts = [word.encode() for word in words]
        request = b"*%d\r\n" % len(parts)
        request += b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(request)
        return self._read()

    def _read(self) -> Any:
        line = self._answers.readline()
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest.decode()
            case b":":
                return int(rest)
            case b"$":
                size = int(rest)
                return None if size < 0 else self._answers.read(size + 2)[:-2].decode()
            case b"*":
                return [self._read() for _ in range(int(rest))]
            case _:
                raise RuntimeError(f"Valkey answered {line!r}")
