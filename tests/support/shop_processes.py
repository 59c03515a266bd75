"""Real `headway` processes on the database of the shop."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from typing import Any
from unittest import mock
from urllib.error import HTTPError
from urllib.request import urlopen

from headway import JobState, Request
from headway.records import JobRecord
from tests.support.processes import PATIENCE, ROOT, children

MODULE = "tests.support.shop_app"
APP = f"{MODULE}:app"


def load_shop(dsn: str) -> Any:
    """The module of the shop, with its app on this database."""
    with mock.patch.dict(os.environ, SHOP_DSN=dsn):
        sys.modules.pop(MODULE, None)
        return importlib.import_module(MODULE)


class Shop:
    """The app and its job types on a database, and `headway` processes there."""

    def __init__(self, dsn: str, **environment: str) -> None:
        self.environment = {**os.environ, "SHOP_DSN": dsn, **environment}
        shop = load_shop(dsn)
        self.app = shop.app
        self.add, self.stay, self.hold = shop.add, shop.stay, shop.hold
        self.deaf = {"ignore": shop.ignore, "block": shop.block}
        self.charge, self.refuse = shop.charge, shop.refuse
        self.thread, self.process, self.block_loop = shop.thread, shop.process, shop.block_loop

        @self.app.job
        async def unknown() -> None:
            """No worker process knows it."""

        self.unknown = unknown
        self.left: list[int] = []
        """Processes that are to end by themselves."""
        self._processes: list[subprocess.Popen[str]] = []
        self._workers: list[WorkerProcess] = []

    def start(self, request: Request[Any], **options: Any) -> str:
        return self.app.sync.start(request, **options).id

    def wait_for(self, id: str, state: JobState) -> JobRecord:
        deadline = time.monotonic() + 30
        while (record := self.app.sync.get(id)).state is not state:
            assert time.monotonic() < deadline, f"job {id} is {record.state}, not {state}"
            time.sleep(0.02)
        return record

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`headway`, until it ends."""
        return subprocess.run(
            [sys.executable, "-m", "headway", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def spawn(self, *arguments: str) -> subprocess.Popen[str]:
        """`headway`, in the background."""
        process = subprocess.Popen(
            [sys.executable, "-m", "headway", *arguments],
            cwd=ROOT,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        return process

    def worker(self, *arguments: str) -> WorkerProcess:
        worker = WorkerProcess(self.spawn("worker", APP, *arguments))
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        for pid in (*self.left, *(pid for each in self._processes for pid in children(each.pid))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.kill()
            process.wait()
        for worker in self._workers:
            worker.join()
        for process in self._processes:
            if process.stderr is not None:
                process.stderr.close()
        self.app.sync.close()


class WorkerProcess:
    """A worker whose stderr is read while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
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
        """The next line that holds the text."""
        deadline = time.monotonic() + PATIENCE
        while (line := self._heard.get(timeout=max(deadline - time.monotonic(), 0.01))) is not None:
            if text in line:
                return line
        raise AssertionError(f"it never said {text!r}:\n{''.join(self.lines)}")

    def said(self) -> list[dict[str, Any]]:
        """All lines, as JSON."""
        return [json.loads(line) for line in self.lines]

    def url(self) -> str:
        """Address of its HTTP endpoint."""
        return str(json.loads(self.hears("/readyz are on"))["message"]).split()[-1]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def join(self) -> None:
        """Wait for the end of its stderr."""
        self._thread.join()


def get(url: str) -> tuple[int, str]:
    """Status and text."""
    try:
        with urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
