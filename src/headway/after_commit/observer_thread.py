"""A thread for a slow observer, so that the worker does not wait for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from msgspec import structs

from headway.domain.events import AttemptFailed, Event, JobDeadLettered
from headway.ports.observer import Observer
from headway.runtime.forks import Forkable

MOST_WAITING = 10_000
"""Events that wait for the observer; further ones are dropped."""


class ObserverThread(Forkable):
    """Hands events to the observer, in order. The thread ends when no event waits."""

    def __init__(self, observer: Observer, failed: Callable[[object], None]) -> None:
        self._observer = observer
        self._failed = failed
        self._wants_exceptions = bool(getattr(observer, "exceptions", False))
        self.dropped = 0
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._waiting: deque[Event] = deque()
        self._lock = threading.Lock()
        self._running = False
        self._thread: threading.Thread | None = None

    def put(self, event: Event) -> None:
        if not self._wants_exceptions and isinstance(event, AttemptFailed | JobDeadLettered):
            event = structs.replace(event, exception=None)  # another observer asked for it
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self.dropped += 1
                return
            self._waiting.append(event)
            if self._running:
                return
            self._running = True
        try:
            thread = threading.Thread(target=self._run, name="headway-observer", daemon=True)
            thread.start()
            self._thread = thread
        except RuntimeError:  # the interpreter is ending
            self._running = False

    def wait(self, seconds: float) -> None:
        """Until no event waits, but no longer than so many seconds."""
        thread = self._thread
        if thread is not None:
            thread.join(max(seconds, 0.0))

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                event = self._waiting.popleft()
            try:
                self._observer.observe(event)
            except Exception:
                self._failed(self._observer)
