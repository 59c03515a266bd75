"""Watches the event loop from a thread: a handler that blocks the loop is named, with its line.

A timer on the loop notes the time every tenth of a second. When it has not for half a second, the
thread looks at the stack of the loop. It cannot look while a call in C holds Python's global lock.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import sysconfig
import threading
import time
from types import FrameType

from headway.after_commit.observer_group import Observers
from headway.domain.events import LoopBlocked, LoopResumed
from headway.worker.attempt import Attempt
from headway.worker.handler_runner import Runner

TURN_EVERY = 0.1
BLOCKED_AFTER = 0.5
"""Seconds without a turn."""

_paths = sysconfig.get_paths()
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in (
        _paths["stdlib"],
        _paths["purelib"],
        _paths["platlib"],
        os.path.dirname(os.path.dirname(__file__)),
    )
)
_WAITING = (selectors.__file__, os.path.dirname(asyncio.__file__) + os.sep)
_RUNNING = Runner.codes()


class LoopWatch:
    """`start` and `stop` are called on the loop, `lag` from anywhere."""

    def __init__(self, worker: str, observers: Observers) -> None:
        self._worker = worker
        self._observers = observers
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turned = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._blocked: LoopBlocked | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def lag(self) -> float:
        """Seconds by which the loop is late; 0 when it is not running."""
        if self._timer is None:
            return 0.0
        return max(time.monotonic() - self._turned - TURN_EVERY, 0.0)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._turn()
        if self._observers.present:
            self._thread = threading.Thread(
                target=self._watch,
                args=(threading.get_ident(),),
                name="headway-loop-watch",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _turn(self) -> None:
        now = time.monotonic()
        blocked, self._blocked = self._blocked, None
        if blocked is not None:
            self._observers.observe(
                LoopResumed(self._worker, now - self._turned, blocked.where, blocked.type)
            )
        self._turned = now
        if self._loop is not None and not self._stopped.is_set():
            self._timer = self._loop.call_later(TURN_EVERY, self._turn)

    def _watch(self, loop_thread: int) -> None:
        looked = time.monotonic()
        while not self._stopped.wait(TURN_EVERY):
            before, looked = looked, time.monotonic()
            late = looked - before > BLOCKED_AFTER  # the whole process was held up
            seconds = looked - self._turned
            if late or seconds < BLOCKED_AFTER + TURN_EVERY or self._blocked is not None:
                continue
            turned = self._turned
            frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage] - it has no other name
            place = find_place(frames.get(loop_thread))
            if place is not None and turned == self._turned:
                where, attempt = place
                claimed = None if attempt is None else attempt.claimed
                blocked = LoopBlocked(
                    self._worker,
                    seconds,
                    where,
                    None if claimed is None else claimed.id,
                    None if claimed is None else claimed.type,
                )
                self._blocked = blocked
                self._observers.observe(blocked)


def find_place(frame: FrameType | None) -> tuple[str, Attempt | None] | None:
    """The line that the loop's thread is at, preferably of the user's code, and its attempt; None
    if the loop is idle."""
    inner: list[FrameType] = []
    while frame is not None and frame.f_code not in _RUNNING:
        inner.append(frame)
        frame = frame.f_back
    if frame is None:
        if not inner or inner[0].f_code.co_filename.startswith(_WAITING):
            return None
        return _describe(next(filter(_is_the_users, inner), inner[0])), None
    attempt = frame.f_locals.get("attempt")
    own = next(filter(_is_the_users, inner), inner[-1] if inner else frame)
    return _describe(own), attempt if isinstance(attempt, Attempt) else None


def _is_the_users(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith((*_LIBRARIES, "<"))


def _describe(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
