"""Starts jobs, and writes each acknowledged start to disk at once: in a thread, or in a process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway import Request
from headway.errors import HeadwayError
from proof.tools.work import Work


class StartLog:
    """Ids of the sequences whose start was acknowledged, synced before the next start."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.ids: set[str] = set()
        self.refused = 0
        """Starts without an answer: their jobs may or may not exist."""

    def note(self, ids: list[str]) -> None:
        os.write(self._file, "".join(f"{id}\n" for id in ids).encode())
        os.fsync(self._file)
        self.ids.update(ids)

    def close(self) -> None:
        os.close(self._file)


class Producer:
    """Starts sequences in its own thread, also while the database is unavailable."""

    def __init__(
        self,
        dsn: str,
        start_log: StartLog,
        batch: Callable[[Work], list[Request[int]]],
        wanted: Callable[[], bool],
        pause: float = 0.05,
    ) -> None:
        self._dsn = dsn
        self._ledger = start_log
        self._batch = batch
        self._wanted = wanted
        self._pause = pause
        self.error: BaseException | None = None
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="producer")
        self._thread.start()

    def stop(self) -> None:
        self._stop = True
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._produce())
        except BaseException as error:
            self.error = error

    async def _produce(self) -> None:
        work = Work(self._dsn)
        async with work.app:
            while not self._stop:
                if self._wanted():
                    try:
                        started = await work.app.start_many(self._batch(work))
                    except HeadwayError:
                        self._ledger.refused += 1
                    else:
                        self._ledger.note([sequence.id for sequence in started])
                await asyncio.sleep(self._pause)


async def run_producer(dsn: str, logs: Path, settings: dict[str, Any]) -> None:
    """A process's main, until SIGTERM: starts sequences of `length` jobs and single jobs, and waits
    for their results. A start or a result that fails ends the process with its error."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    chains = StartLog(logs / f"chains-{os.getpid()}")
    singles = StartLog(logs / f"singles-{os.getpid()}")
    work = Work(dsn)
    async with work.app:
        while not stopped.is_set():
            requests = [work.chain.request(settings["length"] - 1, 0.05) for _ in range(5)]
            started = await work.app.start_many(requests)
            chains.note([sequence.id for sequence in started])
            single = await work.app.start(work.steady.request(0.01))
            singles.note([single.id])
            for sequence in (*started, single):
                await sequence.result(timeout=60)
    chains.close()
    singles.close()
