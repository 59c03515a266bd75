"""The thread of a heartbeat, which no handler can hold up; simulations use a task instead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import Any, Protocol

from headway.ports.store import Store

Call = Callable[[Callable[..., Any]], Any]
"""A store operation: handed the store's `run_sync`, or its `run`, it calls that."""
Beats = Generator[Call | float, Any, None]
"""The steps of a heartbeat. Yields calls, whose answers are sent back, and pauses in seconds, which
`wake` cuts short."""


class HeartbeatRunner(Protocol):
    """Runs the steps of a heartbeat. `wake` may be called from any thread."""

    apart: bool
    """It runs in a thread, so that a thread can watch the event loop, too."""

    def start(self, beats: Beats) -> None: ...

    def wake(self) -> None: ...

    def join(self) -> None:
        """Wait for its end; called after the last step."""
        ...


class HeartbeatThread:
    """Runs them in a thread, with the store's sync calls."""

    apart = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, beats: Beats) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(beats,), name="headway-heartbeat", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, beats: Beats) -> None:
        try:
            wanted = next(beats)
            while True:
                if isinstance(wanted, float | int):
                    self._wake.wait(wanted)
                    self._wake.clear()
                    wanted = next(beats)
                    continue
                try:
                    answer = wanted(self._store.run_sync)
                except Exception as error:
                    wanted = beats.throw(error)
                else:
                    wanted = beats.send(answer)
        except StopIteration:
            pass
