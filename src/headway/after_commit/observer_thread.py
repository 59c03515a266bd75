"""A thread for an observer that takes long, so that nobody waits for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from headway.domain.events import Event
from headway.ports.observer import Observer
from headway.runtime.forks import Forkable

MOST_WAITING = 10_000
"""Events that wait for the observer; what comes beyond is dropped."""


class ObserverThread(Forkable):
    """Hands events on, in order. The thread lives while there are some."""

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
