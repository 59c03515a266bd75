"""Progress of isolated handlers, sent to the worker several times a second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from headway.domain.job import ClaimedJob
from headway.errors import InvalidRequest
from headway.worker.attempt import Attempt, no_rate
from headway.worker.isolation.messages import Message, Told, encodable

EVERY = 0.3
"""Seconds between two messages, however often a handler reports progress."""


@dataclass(slots=True)
class ChildAttempt:
    """An attempt as the child process knows it."""

    claimed: ClaimedJob
    worker: str
    trace_id: str | None
    interruption: str | None = None
    progress: tuple[float, str] | None = None
    spender: Callable[[str, int], None] | None = None
    """Tells the worker what the handler spends; None: the queue has no rate."""

    def spend(self, weight: int) -> None:
        if self.spender is None:
            raise InvalidRequest(no_rate(self.claimed.queue))
        self.spender(self.claimed.id, weight)


class ProgressSender:
    """In the child: a thread that sends progress while a handler runs."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._attempt: ChildAttempt | None = None
        self._thread: threading.Thread | None = None

    def watch(self, attempt: ChildAttempt | None) -> None:
        """Send the progress of this attempt from now on; None: of none."""
        self._attempt = attempt
        if attempt is not None and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="headway-progress", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        told: tuple[float, str] | None = None
        with contextlib.suppress(OSError):  # the worker has gone, and this process goes with it
            while True:
                time.sleep(EVERY)
                attempt = self._attempt
                if attempt is None or attempt.progress is None:
                    continue
                if attempt.progress is not told:
                    told = attempt.progress
                    fraction, note = told
                    self._send(Told(attempt.claimed.id, (fraction, encodable(note))))


def hear_progress(told: Told, attempt: Attempt) -> None:
    """In the worker. Progress of an earlier job comes too late."""
    if told.job_id == attempt.claimed.id:
        attempt.progress = told.progress
