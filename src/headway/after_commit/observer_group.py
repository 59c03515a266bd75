"""Hands events to every observer. An observer that raises or is slow harms neither the worker nor
the other observers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic, perf_counter
from typing import TypeVar

from headway.after_commit.observer_thread import ObserverThread
from headway.domain.events import Event
from headway.domain.job import NewJob
from headway.errors import ConfigurationError
from headway.ports.observer import Observer
from headway.ports.store import Store
from headway.ports.tracer import StartTrace, Tracer

QUICK = 0.001
"""Seconds that an observer may take for an event on average."""
MOST_DEBT = 0.5
"""Seconds by which an observer may exceed that in total before it is given a thread."""
LAST_WAIT = 5.0
"""Seconds that observers have to send what they hold when the app is closed."""

T = TypeVar("T")

_log = logging.getLogger("headway")


class Observers:
    """A fan-out that is an observer itself. Safe to use from any thread."""

    __slots__ = ("_listeners", "_store", "active", "errors", "exceptions", "present", "tracer")

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._listeners: tuple[_Listener, ...] = ()
        self._store: Store | None = None
        """Of the app, while the app is open."""
        self.present = False
        """Whether there are observers."""
        self.active = False
        """Whether an observer wants events of every job; otherwise such events are not made."""
        self.exceptions = False
        """Whether an observer wants the exceptions that handlers raise."""
        self.tracer: Tracer | None = None
        """Makes spans, if one of the observers traces."""
        self.errors = 0
        """How often an observer raised."""
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        tracer: Tracer | None = getattr(observer, "tracer", None)
        if tracer is not None:
            if self.tracer is not None:
                raise ConfigurationError("two observers trace: give the app only one of them")
            self.tracer = tracer
        self._listeners = (*self._listeners, _Listener(observer))
        self.present = True
        wants_all = tracer is not None or bool(getattr(observer, "every_job", True))
        self.active = self.active or wants_all
        self.exceptions = self.exceptions or bool(getattr(observer, "exceptions", False))
        if self._store is not None:
            self._call(observer, "app_opened", self._store)

    def find(self, kind: type[T]) -> T | None:
        """The first observer of this kind."""
        for each in self._listeners:
            if isinstance(each.observer, kind):
                return each.observer
        return None

    def app_opened(self, store: Store) -> None:
        self._store = store
        for each in self._listeners:
            self._call(each.observer, "app_opened", store)

    async def app_closing(self) -> None:
        """Let observers send what they hold. Waits for them for `LAST_WAIT` seconds at most."""
        self._store = None
        last = [
            each
            for each in self._listeners
            if each.thread is not None or hasattr(each.observer, "app_closing")
        ]
        if not last:
            return
        loop = asyncio.get_running_loop()
        ends = [asyncio.Event() for _ in last]
        deadline = monotonic() + LAST_WAIT

        def close(listener: _Listener, end: asyncio.Event) -> None:
            if listener.thread is not None:
                listener.thread.wait(deadline - monotonic())
            self._call(listener.observer, "app_closing", max(deadline - monotonic(), 0.0))
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(end.set)

        for each in zip(last, ends, strict=True):
            threading.Thread(
                target=close, args=each, name="headway-observer-end", daemon=True
            ).start()
        try:
            async with asyncio.timeout(LAST_WAIT):
                for end in ends:
                    await end.wait()
        except TimeoutError:
            late = [each.observer for each, end in zip(last, ends, strict=True) if not end.is_set()]
            if late:
                _log.warning("not waiting any longer for %s", ", ".join(map(repr, late)))

    def _call(self, observer: Observer, method: str, argument: object) -> None:
        """Call an optional method of the observer."""
        call: Callable[[object], None] | None = getattr(observer, method, None)
        if call is not None:
            try:
                call(argument)
            except Exception:
                self.failed(observer)

    @property
    def every_job(self) -> bool:
        return self.active

    @property
    def dropped(self) -> int:
        """Events that were dropped because an observer was too slow."""
        return sum(each.thread.dropped for each in self._listeners if each.thread is not None)

    def observe(self, event: Event) -> None:
        for listener in self._listeners:
            self._tell(listener, event)

    def observe_all(self, events: Sequence[Event]) -> None:
        """Many events, in their order."""
        for listener in self._listeners:
            if listener.observe_all is None or listener.thread is not None:
                for event in events:
                    self._tell(listener, event)
                continue
            began = perf_counter()
            try:
                listener.observe_all(events)
            except Exception:
                self.failed(listener.observer)
            self._charge(listener, perf_counter() - began - QUICK * len(events))

    def start(self, jobs: Sequence[NewJob]) -> StartTrace | None:
        """A span around storing these jobs, if an observer traces."""
        tracer = self.tracer
        if tracer is None:
            return None
        try:
            return tracer.start(jobs)
        except Exception:
            self.failed(tracer)
            return None

    def end_start(self, starting: StartTrace | None, error: BaseException | None = None) -> None:
        if starting is not None:
            try:
                starting.end(error)
            except Exception:
                self.failed(starting)

    def _tell(self, listener: _Listener, event: Event) -> None:
        if listener.thread is not None:
            listener.thread.put(event)
            return
        began = perf_counter()
        try:
            listener.observe(event)
        except Exception:
            self.failed(listener.observer)
        seconds = perf_counter() - began
        if seconds > QUICK or listener.debt:
            self._charge(listener, seconds - QUICK)

    def _charge(self, listener: _Listener, seconds: float) -> None:
        listener.debt = max(listener.debt + seconds, 0.0)
        if listener.debt > MOST_DEBT and listener.thread is None:
            self._move_to_thread(listener)

    def failed(self, who: object) -> None:
        """An observer, or its tracing, raised."""
        self.errors += 1
        if self.errors == 1:
            _log.exception("%r raised; further errors are only counted", who)

    def _move_to_thread(self, listener: _Listener) -> None:
        listener.thread = ObserverThread(listener.observer, self.failed)
        _log.warning(
            "%r is slow and gets events in a thread of its own from now on; events that it has no "
            "time for are dropped",
            listener.observer,
        )


def gathered(observers: Sequence[Observer]) -> Observers:
    """One fan-out for these observers; an app's own fan-out is used as it is."""
    if len(observers) == 1 and isinstance(observers[0], Observers):
        return observers[0]
    return Observers(observers)


class _Listener:
    __slots__ = ("debt", "observe", "observe_all", "observer", "thread")

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.observe = observer.observe
        self.observe_all: Callable[[Sequence[Event]], None] | None = getattr(
            observer, "observe_all", None
        )
        self.debt = 0.0
        """Seconds that it has taken too long; each quick call reduces them."""
        self.thread: ObserverThread | None = None
