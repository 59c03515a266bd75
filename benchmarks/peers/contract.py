"""What a job queue has to offer to be measured: one class per library and store."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmarks.peers.location import Location, Valkey

TEXT = "x" * 100


def payload(n: int) -> dict[str, Any]:
    return {"n": n, "text": TEXT}


@dataclass(frozen=True)
class Settings:
    """The best known ones, for each use; as they are named in tables."""

    drain: Mapping[str, Any] = field(default_factory=dict)
    latency: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)


class Peer:
    """Every method may be a coroutine function. Nothing is called twice in a process, but for
    `start_one`, `start_many`, `wait` and `remaining`."""

    name: ClassVar[str]
    title: ClassVar[str]
    store: ClassVar[Literal["PostgreSQL", "Valkey", "SQLite", "memory"]]
    durability: ClassVar[str]
    """What is left of a job after a crash of the worker, and of the machine."""
    bulk: ClassVar[str]
    """How many jobs are started at once, the best way that there is."""
    packages: ClassVar[tuple[str, ...]]
    settings: ClassVar[Settings]
    step: ClassVar[int] = 1000
    """Jobs that `start_many` is given at once."""
    metrics: ClassVar[str] = "ABCDEFGH"
    """What can be measured; a result to wait for (F) is not everybody's."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.chosen: Mapping[str, Any] = getattr(self.settings, location.use)
        self._looking: Any = None

    def set_up(self) -> Any:
        """An empty store with a fresh schema."""

    def open(self) -> Any:
        """Get ready to start jobs."""

    def close(self) -> Any: ...

    def start_one(self, n: int) -> Any:
        """Start a job and return, once it is stored, what `wait` needs."""
        raise NotImplementedError

    def start_many(self, numbers: range) -> Any:
        raise NotImplementedError

    def run_worker(self) -> Any:
        """Work until killed."""
        raise NotImplementedError

    def remaining(self) -> int:
        """Jobs that the store does not yet have as finished. Blocking, and cheap."""
        raise NotImplementedError

    def wait(self, started: Any) -> Any:
        """Until the job's result is known."""
        raise NotImplementedError

    def settle(self) -> None:
        """Between loading and draining: every drain starts from the same state."""
        if self.store == "PostgreSQL":
            with self._postgres() as connection:
                connection.execute("vacuum analyze")
                connection.execute("checkpoint")

    # What the methods above are made of.

    def _postgres(self, url: str | None = None) -> Any:
        import psycopg  # noqa: PLC0415 - only where there is a PostgreSQL

        return psycopg.connect(url or self.location.postgres_url, autocommit=True)

    def new_database(self, template: str = "template1") -> None:
        name = self.location.database
        with self._postgres(f"{self.location.postgres}/postgres") as connection:
            connection.execute(f"drop database if exists {name} with (force)")
            connection.execute(f"create database {name} template {template}")

    def ask_postgres(self, sql: str) -> int:
        if self._looking is None:
            self._looking = self._postgres()
        return int(self._looking.execute(sql).fetchone()[0])

    def ask_valkey(self, *words: str) -> Any:
        if self._looking is None:
            self._looking = Valkey(self.location.valkey)
        return self._looking(*words)

    def new_file(self) -> None:
        for end in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                Path(self.location.file + end).unlink()

    def run_command(self, name: str, *arguments: str) -> None:
        """Become the library's own command."""
        os.execv(Path(sys.executable).parent / name, [name, *arguments])
