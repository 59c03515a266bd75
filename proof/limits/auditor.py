"""An auditor with a connection of its own: samples the running jobs, over and over, and compares
them with the limits that are stored in the same snapshot."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg

from proof.limits.record import effective
from proof.tools.databases import Database

SAMPLE = (
    "select j.queue, j.key, cast(j.id as text), j.lease_version, q.limits"
    " from {job} j join {queue} q on q.name = j.queue where j.state = 'running'"
)

Scope = tuple[str, str | None]
"""A queue, or a queue and a key."""


class Auditor:
    """Samples in its own thread until it is stopped."""

    def __init__(self, database: Database, pause: float) -> None:
        self._database = database
        self._pause = pause
        self.samples = 0
        self.most: Counter[str] = Counter()
        """Running jobs by queue, at most."""
        self.violations: list[str] = []
        self.error: BaseException | None = None
        self._jobs: dict[Scope, set[tuple[str, int]]] = {}
        self._limits: dict[str, str | None] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="auditor")
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            if self._database.kind == "postgres":
                self._sample_postgres()
            else:
                self._sample_sqlite()
        except BaseException as error:
            self.error = error

    def _sample_postgres(self) -> None:
        question = SAMPLE.format(job="headway.job", queue="headway.queue").encode()
        with psycopg.connect(self._database.dsn, autocommit=True) as connection:
            while not self._stopped.wait(self._pause):
                self.take(connection.execute(question).fetchall())

    def _sample_sqlite(self) -> None:
        question = SAMPLE.format(job="headway_job", queue="headway_queue")
        path = self._database.dsn.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            while not self._stopped.wait(self._pause):
                self.take(connection.execute(question).fetchall())

    def take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """One sample. A limit that was lowered may be exceeded, but then nothing is started: what
        runs ran in the sample before."""
        self.samples += 1
        jobs: dict[Scope, set[tuple[str, int]]] = defaultdict(set)
        limits: dict[str, str | None] = {}
        for queue, key, id, version, stored in rows:
            limits[queue] = stored
            jobs[queue, None].add((id, version))
            if key is not None:
                jobs[queue, key].add((id, version))
        for (queue, key), running in jobs.items():
            if key is None:
                self.most[queue] = max(self.most[queue], len(running))
            cap = effective(limits[queue]).get("running" if key is None else "per_key")
            if cap is None or len(running) <= cap or self._limits.get(queue) != limits[queue]:
                continue
            if running - self._jobs.get((queue, key), set()):
                what = f"{time.time():.3f}: {queue}, key {key}: {len(running)} of {cap} run"
                self.violations.append(what)
        self._jobs, self._limits = jobs, limits
