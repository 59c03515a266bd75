"""How far isolated handlers say they are, handed to the worker now and then."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from headway.worker.attempt import Execution
from headway.worker.isolation.messages import Message, Told, encodable

EVERY = 0.3
"""Seconds between looks: however often a handler speaks, this is how often it is heard."""


class Telling:
    """In the child: a thread that sends what has changed while a handler runs."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._execution: Execution | None = None
        self._thread: threading.Thread | None = None

    def watch(self, execution: Execution | None) -> None:
        """Look at this one from now on; None: at none."""
        self._execution = execution
        if execution is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headway-progress", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        told: tuple[float, str] | None = None
        with contextlib.suppress(OSError):  # the worker has gone, and this process goes with it
            while True:
                time.sleep(EVERY)
                execution = self._execution
                if execution is None or execution.progress is None:
                    continue
                if execution.progress is not told:
                    told = execution.progress
                    fraction, note = told
                    self._send(Told(execution.claimed.id, (fraction, encodable(note))))


def hear_progress(told: Told, execution: Execution) -> None:
    """In the worker. What was said of an earlier job comes too late."""
    if told.job_id == execution.claimed.id:
        execution.progress = told.progress
