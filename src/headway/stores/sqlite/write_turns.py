"""The writers of one process take turns, in the order of asking, before they ask for the file's
write lock. So that lock is waited for only while another program, or a connection of the user's
own, has it; and what a worker has to store is next when a handler's transaction ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

from headway.errors import StoreError

LOOK_EVERY = 0.1
"""Seconds after which a thread that waits looks whether it still should."""


class WriteTurns:
    """Safe to use from any thread and any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[Future[None]] = deque()

    @contextmanager
    def waited(self, seconds: float, give_up_at: Callable[[], float]) -> Generator[None]:
        """Have the turn while the block runs; blocks until then. `give_up_at` may change its mind
        meanwhile."""
        turn = self._ask()
        began = time.monotonic()
        while not turn.done():
            try:
                turn.result(LOOK_EVERY)
            except TimeoutError:
                now = time.monotonic()
                if now > min(began + seconds, give_up_at()) and turn.cancel():
                    raise _held_too_long(now - began) from None
        try:
            yield
        finally:
            self._pass_on()

    @asynccontextmanager
    async def awaited(self, seconds: float) -> AsyncGenerator[None]:
        """The same without blocking the event loop."""
        turn = self._ask()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wrap_future(turn)
        except BaseException as error:
            turn.cancel()
            if not turn.cancelled():  # it came at the same moment
                self._pass_on()
            if isinstance(error, TimeoutError):
                raise _held_too_long(seconds) from None
            raise
        try:
            yield
        finally:
            self._pass_on()

    def _ask(self) -> Future[None]:
        turn: Future[None] = Future()
        with self._lock:
            if self._taken:
                self._waiting.append(turn)
            else:
                self._taken = True
                turn.set_result(None)
        return turn

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._taken = False


def _held_too_long(seconds: float) -> StoreError:
    return StoreError(
        f"a transaction of this process has held the SQLite file for {seconds:.0f} seconds; keep "
        "handlers' transactions short, and inside of one pass tx=job.tx to whatever writes"
    )
