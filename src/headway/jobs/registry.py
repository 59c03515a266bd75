"""The registry: the job types of an app by name, and the handlers of those it can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from headway.domain.limits.queue_limits import QueueLimits
from headway.domain.schedules.schedule import ScheduleDefinition
from headway.errors import ConfigurationError, UnknownJobType
from headway.jobs.handler import Handler
from headway.jobs.job_type import AnyType


class Registry:
    """Filled while modules are imported, only read afterwards."""

    def __init__(self) -> None:
        self._types: dict[str, AnyType] = {}
        self._handlers: dict[str, Handler] = {}
        self._schedules: dict[str, ScheduleDefinition] = {}
        self._queues: dict[str, QueueLimits] = {}

    def add(self, type: AnyType, handler: Handler | None = None) -> None:
        """Add a job type. Without a handler this process can start its jobs, but not run them."""
        known = self._types.get(type.name)
        if known is not None and known is not type:
            raise ConfigurationError(
                f"two job types are called {type.name!r}: {known.definition.location} and "
                f"{type.definition.location}; give one of them another name"
            )
        if handler is not None and type.name in self._handlers:
            raise ConfigurationError(
                f"job type {type.name!r} has two handlers: "
                f"{self._handlers[type.name].reference} and {handler.reference}; remove one"
            )
        self._types[type.name] = type
        if handler is not None:
            self._handlers[type.name] = handler

    def add_schedule(self, name: str, definition: ScheduleDefinition) -> None:
        """Declare a schedule; the same declaration twice is fine."""
        known = self._schedules.setdefault(name, definition)
        if known != definition:
            raise ConfigurationError(
                f"schedule {name!r} is declared twice: as {known.timetable} for {known.job.type!r} "
                f"and as {definition.timetable} for {definition.job.type!r}; give one of them "
                "another name"
            )

    def add_queue(self, name: str, limits: QueueLimits) -> None:
        """Declare the limits of a queue; the same declaration twice is fine."""
        known = self._queues.setdefault(name, limits)
        if known != limits:
            raise ConfigurationError(
                f"queue {name!r} is declared twice: with {known}, and with {limits}; keep one of "
                "the declarations"
            )

    def queues(self) -> Mapping[str, QueueLimits]:
        """The declared limits by queue."""
        return MappingProxyType(self._queues)

    def schedules(self) -> Mapping[str, ScheduleDefinition]:
        """The declared schedules by name."""
        return MappingProxyType(self._schedules)

    def type(self, name: str) -> AnyType:
        """The job type of that name. Raises UnknownJobType, with the closest known name."""
        known = self._types.get(name)
        if known is None:
            near = get_close_matches(name, self._types, n=1)
            raise UnknownJobType(name, near[0] if near else None)
        return known

    def find(self, name: str) -> AnyType | None:
        return self._types.get(name)

    def handler(self, name: str) -> Handler | None:
        return self._handlers.get(name)

    def handlers(self) -> Mapping[str, Handler]:
        return MappingProxyType(self._handlers)

    def retentions(self) -> dict[str, float]:
        """Seconds of retention by job type, for the types that set one."""
        return {
            name: known.definition.retention
            for name, known in self._types.items()
            if known.definition.retention is not None
        }

    def __iter__(self) -> Iterator[AnyType]:
        return iter(self._types.values())

    def __contains__(self, name: object) -> bool:
        return name in self._types
