"""An event loop on virtual time: nothing is waited for, the clock leaps to the next timer.

Everything that runs on it belongs to a simulated process. Killing one makes whatever it had
scheduled vanish, without a single line of it running on.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
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
        self.frozen_until = float("-inf")
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
        self._kept = 0
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

    def freeze(self, process: SimulatedProcess, seconds: float) -> None:
        """Nothing of a process runs for so long; then all of it goes on, in its order."""
        process.frozen_until = self.now + seconds
        ready = self._ready  # type: ignore[attr-defined]
        for place, handle in enumerate(list(ready)):
            if not handle._cancelled and _process_of(handle._context) is process:
                ready[place] = events.Handle(_nothing, (), self, contextvars.Context())
                self._keep(handle, process)
        timers = self._scheduled  # type: ignore[attr-defined]
        late = [
            timer
            for timer in sorted(timers, key=asyncio.TimerHandle.when)
            if timer._when < process.frozen_until and _process_of(timer._context) is process
        ]
        for timer in late:
            timer._when = self._after(process)
        heapq.heapify(timers)

    def _after(self, process: SimulatedProcess) -> float:
        """The end of a freeze: a moment later for each that waits for it, to keep their order."""
        self._kept += 1
        return process.frozen_until + self._kept * 1e-12

    def _keep(self, handle: asyncio.Handle, process: SimulatedProcess) -> None:
        def resume() -> None:
            if not process.dead:
                self._ready.append(handle)  # type: ignore[attr-defined]

        super().call_at(self._after(process), resume, context=contextvars.Context())

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
        process = _process_of(context)
        if process is not None and when < process.frozen_until:
            when = self._after(process)
        return super().call_at(when, callback, *args, context=context)

    def _call_soon(
        self, callback: Callable[..., Any], args: Any, context: contextvars.Context | None
    ) -> asyncio.Handle:
        if self._ended or _is_dead(context):
            return events.Handle(callback, args, self, context)
        process = _process_of(context)
        if process is not None and self.now < process.frozen_until:
            kept = events.Handle(callback, args, self, context)
            self._keep(kept, process)
            return kept
        handle: asyncio.Handle = super()._call_soon(callback, args, context)  # type: ignore[misc]
        return handle

    def _check_closed(self) -> None: ...

    def _make_task(self, loop: Any, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=self, **options)
        self.created.append(task)
        return task

    def _process_events(self, event_list: Any) -> None: ...

    def _write_to_self(self) -> None: ...


def _process_of(context: contextvars.Context | None) -> SimulatedProcess | None:
    return PROCESS.get() if context is None else context.get(PROCESS)


def _is_dead(context: contextvars.Context | None) -> bool:
    process = _process_of(context)
    return process is not None and process.dead


def _nothing() -> None: ...
