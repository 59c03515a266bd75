"""Real `headway` processes on the shop's database."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from headway import Fixed, Headway, Request

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


class Shop:
    def __init__(self, dsn: str) -> None:
        self.app = Headway(dsn, migrate=True)
        self.environment = {**os.environ, "SHOP_DSN": dsn, "HEADWAY_LOG_FORMAT": "json"}
        self._workers: list[WorkerProcess] = []
        app = self.app

        @app.job(queue="money")
        async def charge(cents: int, card: str) -> str:
            return ""

        @app.job(max_attempts=2, retry=Fixed(0))
        async def refuse(card: str) -> None: ...

        @app.job
        def thread() -> None: ...

        @app.job
        def process() -> None: ...

        @app.job
        async def block(seconds: float) -> None: ...

        @app.job
        async def unknown() -> None: ...

        self.charge, self.refuse, self.thread, self.process = charge, refuse, thread, process
        self.block, self.unknown = block, unknown

        app.sync.open()

    def start(self, request: Request[Any], **options: Any) -> str:
        return self.app.sync.start(request, **options).id

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headway", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def worker(self, *arguments: str) -> WorkerProcess:
        worker = WorkerProcess(self.environment, *arguments)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self.app.sync.close()


class WorkerProcess:
    """`headway worker`, and what it says on stderr."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headway", "worker", "tests.observers.shop:app", *arguments],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._heard: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            self._heard.put(line)
        self._heard.put(None)

    def hears(self, text: str) -> str:
        """The first line from here on that holds the text."""
        deadline = time.monotonic() + PATIENCE
        while (line := self._heard.get(timeout=max(deadline - time.monotonic(), 0.01))) is not None:
            if text in line:
                return line
        raise AssertionError(f"it never said {text!r}:\n{''.join(self.lines)}")

    def said(self) -> list[dict[str, Any]]:
        """All lines, as JSON."""
        return [json.loads(line) for line in self.lines]

    def url(self) -> str:
        """Where its endpoint is."""
        return str(json.loads(self.hears("/readyz are on"))["message"]).split()[-1]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


def get(url: str) -> tuple[int, str]:
    """Status and text."""
    try:
        with urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
