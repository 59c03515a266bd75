"""A thread for a slow observer, so that the worker does not wait for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from headway.domain.events import Event
from headway.ports.observer import Observer
from headway.runtime.forks import Forkable

MOST_WAITING = 10_000
"""Events that wait for the observer; further ones are dropped."""


class ObserverThread(Forkable):
    """Hands events to the observer, in order. The thread ends when no event waits."""

    def __init__(self, observer: Observer, failed: Callable[[object], None]) -> None:
        self._observer = observer
        self._failed = failed
        self.dropped = 0
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._waiting: deque[Event] = deque()
        self._lock = threading.Lock()
        self._running = False

    def put(self, event: Event) -> None:
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                self.dropped += 1
                return
            self._waiting.append(event)
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._run, name="headway-observer", daemon=True).start()
        except RuntimeError:  # the interpreter is ending
            self._running = False

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
