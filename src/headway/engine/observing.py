"""Tells every observer what happened; one that raises harms neither the worker nor the others."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from headway.domain.events import Event
from headway.ports.observer import Observer

_log = logging.getLogger("headway")


class Observers:
    """A fan-out that is an observer itself. Safe to use from any thread."""

    __slots__ = ("_observers", "active", "errors", "present")

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._observers: tuple[Observer, ...] = ()
        self.present = False
        """Whether anyone listens at all."""
        self.active = False
        """Whether anyone wants to hear of every job: such events are not even made otherwise."""
        self.errors = 0
        """How many times an observer raised."""
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        self._observers = (*self._observers, observer)
        self.present = True
        self.active = self.active or bool(getattr(observer, "every_job", True))

    def include(self, kind: type) -> bool:
        """Whether an observer of this kind is among them."""
        return any(isinstance(observer, kind) for observer in self._observers)

    @property
    def every_job(self) -> bool:
        return self.active

    def observe(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer.observe(event)
            except Exception:
                self.errors += 1
                if self.errors == 1:
                    _log.exception("%r raised; further errors are only counted", observer)
