"""An event loop on virtual time: nothing is waited for, the clock leaps to the next timer.

Everything that runs on it belongs to a simulated process. Killing one makes whatever it had
scheduled vanish, without a single line of it running on.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any

PROCESS: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar(
    "simulated process", default=None
)


MOST_TURNS = 100_000
"""Turns of the loop at one moment; more of them will never end."""


class Deadlock(Exception):
    """Nothing is scheduled any more, and what was asked for has not happened."""


class Livelock(Exception):
    """The loop turns without end, and time stands still."""


class SimulatedProcess:
    """Code that dies together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)
        self.tasks: list[asyncio.Task[Any]] = []
        """Kept, so that what was killed is not finalised while the simulation goes on."""

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name=self.name, context=self.context.copy())
        self.tasks.append(task)
        return task


class _Leap:
    """Stands where a selector is: instead of waiting it moves the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Deadlock
        if self._loop.now + timeout > self._loop.now:
            self._loop.now += timeout
            self._turns = 0
        self._turns += 1
        if self._turns > MOST_TURNS:
            raise Livelock
        return []

    def close(self) -> None: ...


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._ended = False
        self._clock_resolution = 1e-7
        self._selector = _Leap(self)
        self.set_exception_handler(lambda _loop, _context: None)
        self.created: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        return self.now

    def kill(self, process: SimulatedProcess) -> None:
        """End a process where it stands."""
        process.dead = True
        for handle in (*self._ready, *self._scheduled):  # type: ignore[attr-defined]
            if handle._context is not None and handle._context.get(PROCESS) is process:
                handle.cancel()

    def kill_all(self) -> None:
        """The simulation is over: nothing is scheduled any more."""
        self._ended = True
        for handle in (*self._ready, *self._scheduled):  # type: ignore[attr-defined]
            handle.cancel()

    def call_at(
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._ended or _is_dead(context):
            return events.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def _call_soon(
        self, callback: Callable[..., Any], args: Any, context: contextvars.Context | None
    ) -> asyncio.Handle:
        if self._ended or _is_dead(context):
            return events.Handle(callback, args, self, context)
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        return handle

    def _check_closed(self) -> None: ...

    def _make_task(self, loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=self, **options)
        self.created.append(task)
        return task

    def _process_events(self, event_list: Any) -> None: ...

    def _write_to_self(self) -> None: ...


def _is_dead(context: contextvars.Context | None) -> bool:
    process = PROCESS.get() if context is None else context.get(PROCESS)
    return process is not None and process.dead
