"""Alerts as a webhook gets them, and the rules by which they begin and end.

DeadLetters       jobs of one type became dead letters; has no end
TicksMissed       ticks of schedules passed that nobody fired in time; has no end
QueueWaiting      the oldest due job of a queue has waited too long
TypeUnattended    jobs of a type wait, and no living worker runs the type
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from headway.domain.events import JobDeadLettered, ScheduleSkipped
from headway.domain.failure import storable
from headway.domain.text import span
from headway.errors import Failure
from headway.observers.store_gauges import StoreGauges

MOST_NAMED = 10
"""Jobs or schedules that an alert names; it counts them all."""
LONGEST_ERROR = 300
MOST_LINES = 20
"""Lines of a message's text."""

_encoder = msgspec.json.Encoder()


class Alert(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    key: str
    """Equal for all alerts about the same thing, from every process."""
    status: Literal["firing", "resolved"] = "firing"
    text: str
    """One line for people."""
    began_at: datetime
    ended_at: datetime | None = None


class FailedJob(msgspec.Struct, frozen=True):
    job_id: str
    sequence_id: str
    attempt: int
    error: str


class DeadLetters(Alert, frozen=True, kw_only=True, tag="dead_letters"):
    type: str
    queue: str
    count: int
    jobs: list[FailedJob]
    """The first ones."""


class MissedTicks(msgspec.Struct, frozen=True):
    schedule: str
    tick: datetime
    """The last one."""
    count: int


class TicksMissed(Alert, frozen=True, kw_only=True, tag="ticks_missed"):
    type: str
    """The job type that the schedules start."""
    queue: str
    count: int
    """Missed ticks of all these schedules."""
    schedules: list[MissedTicks]
    """The first ones."""


class QueueWaiting(Alert, frozen=True, kw_only=True, tag="queue_waiting"):
    queue: str
    seconds: float
    """Waiting time of the oldest due job."""
    limit: float
    paused: bool
    held: bool
    """A handler has asked to start no job of the queue until a time."""
    permits: int | None
    """The number of jobs that may run at once, if so many do; None: others may be started."""


class TypeUnattended(Alert, frozen=True, kw_only=True, tag="type_unattended"):
    type: str
    seconds: float
    """Waiting time of the oldest due job."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The body of one request."""

    id: str
    """Stays the same when the message is sent again."""
    host: str
    text: str
    """The lines of all alerts, with `&`, `<` and `>` escaped as Slack wants them."""
    alerts: Sequence[Alert]

    def encode(self) -> bytes:
        return _encoder.encode(self)


def message_text(alerts: Sequence[Alert]) -> str:
    lines = [alert.text for alert in alerts[:MOST_LINES]]
    if len(alerts) > MOST_LINES:
        lines.append(f"and {len(alerts) - MOST_LINES} more")
    # An error's text must not be able to call a whole channel.
    return "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class DeadLetterGroup:
    """Dead letters of one job type and queue, gathered for one alert."""

    def __init__(self, type: str, queue: str, began_at: datetime) -> None:
        self._type = type
        self._queue = queue
        self._began_at = began_at
        self._count = 0
        self._jobs: list[FailedJob] = []

    def add(self, event: JobDeadLettered) -> None:
        self._count += 1
        if len(self._jobs) < MOST_NAMED:
            self._jobs.append(
                FailedJob(event.job_id, event.sequence_id, event.attempt, _line(event.failure))
            )

    def alert(self) -> DeadLetters:
        count = "a dead letter" if self._count == 1 else f"{self._count} dead letters"
        first = self._jobs[0]
        return DeadLetters(
            key=f"dead_letters:{self._queue}:{self._type}",
            text=f"{self._type} in queue {self._queue}: {count}, first {first.job_id}: "
            f"{first.error}",
            began_at=self._began_at,
            type=self._type,
            queue=self._queue,
            count=self._count,
            jobs=self._jobs,
        )


class MissedTickGroup:
    """Missed ticks of schedules of one job type and queue, gathered for one alert."""

    def __init__(self, type: str, queue: str, began_at: datetime) -> None:
        self._type = type
        self._queue = queue
        self._began_at = began_at
        self._count = 0
        self._schedules: list[MissedTicks] = []

    def add(self, event: ScheduleSkipped) -> None:
        self._count += event.count
        if len(self._schedules) < MOST_NAMED:
            self._schedules.append(MissedTicks(event.schedule, event.tick, event.count))

    def alert(self) -> TicksMissed:
        count = "a tick was" if self._count == 1 else f"{self._count} ticks were"
        first = self._schedules[0]
        return TicksMissed(
            key=f"ticks_missed:{self._queue}:{self._type}",
            text=f"{self._type} in queue {self._queue}: {count} missed, first by schedule "
            f"{first.schedule}: {first.tick.isoformat(timespec='seconds')}",
            began_at=self._began_at,
            type=self._type,
            queue=self._queue,
            count=self._count,
            schedules=self._schedules,
        )


class BacklogRules:
    """Compares a look at the store with the look before."""

    def __init__(
        self,
        oldest_wait: float | None,
        oldest_wait_by_queue: Mapping[str, float],
        unattended_wait: float | None,
    ) -> None:
        self._oldest_wait = oldest_wait
        self._by_queue = dict(oldest_wait_by_queue)
        self._unattended_wait = unattended_wait
        self._queues: dict[str, QueueWaiting] = {}
        """The alerts that go on, by queue."""
        self._types: dict[str, TypeUnattended] = {}
        self._attended_at: dict[str, datetime] = {}
        """When a look last found a living worker for the type."""

    def compare(self, gauges: StoreGauges) -> list[Alert]:
        """The alerts that began or ended since the look before."""
        waits = gauges.oldest_waiting()
        self._attended_at |= dict.fromkeys(gauges.attended, gauges.at)
        alone: dict[str, float] = {}
        queues: dict[str, float] = {}
        for (type, queue), seconds in waits.items():
            if type not in gauges.attended:
                alone[type] = max(seconds, alone.get(type, 0.0))
            # Else two alerts would begin by one cause.
            if type in gauges.attended or queue in self._queues:
                queues[queue] = max(seconds, queues.get(queue, 0.0))
        types = {
            type: self._unattended(type, seconds, gauges)
            for type, seconds in alone.items()
            if self._unattended_wait is not None
            and min(seconds, self._alone_for(type, gauges)) >= self._unattended_wait
        }
        late = {
            queue: self._waiting(queue, seconds, limit, gauges)
            for queue, seconds in queues.items()
            if (limit := self._by_queue.get(queue, self._oldest_wait)) is not None
            # An alert ends well below its limit, so that it does not begin and end all the time.
            and seconds >= (limit / 2 if queue in self._queues else limit)
        }
        changed: list[Alert] = [
            *(alert for type, alert in types.items() if type not in self._types),
            *(alert for queue, alert in late.items() if queue not in self._queues),
        ]
        for type in self._types.keys() - types.keys():
            text = f"resolved: no job of type {type} waits for a worker that runs the type"
            changed.append(_resolved(self._types[type], text, gauges.at))
        for queue in self._queues.keys() - late.keys():
            least = span(self._queues[queue].limit / 2)
            text = f"resolved: no job in queue {queue} has waited {least}"
            changed.append(_resolved(self._queues[queue], text, gauges.at))
        self._types, self._queues = types, late
        return changed

    def forget(self, alerts: Iterable[Alert]) -> None:
        """They did not arrive, so those that go on begin anew at the next look."""
        for alert in alerts:
            if isinstance(alert, QueueWaiting):
                self._queues.pop(alert.queue, None)
            elif isinstance(alert, TypeUnattended):
                self._types.pop(alert.type, None)

    def _alone_for(self, type: str, gauges: StoreGauges) -> float:
        """Seconds without a worker, at most: a deployment restarts workers while old jobs wait."""
        attended_at = self._attended_at.get(type)
        return math.inf if attended_at is None else (gauges.at - attended_at).total_seconds()

    def _unattended(self, type: str, seconds: float, gauges: StoreGauges) -> TypeUnattended:
        before = self._types.get(type)
        return TypeUnattended(
            key=f"type_unattended:{type}",
            text=f"no living worker runs {type}; its oldest job has waited {span(seconds)}",
            began_at=gauges.at if before is None else before.began_at,
            type=type,
            seconds=seconds,
        )

    def _waiting(
        self, queue: str, seconds: float, limit: float, gauges: StoreGauges
    ) -> QueueWaiting:
        before = self._queues.get(queue)
        paused, held = queue in gauges.paused, queue in gauges.held
        permits = gauges.permits.get(queue)
        all_used = None if permits is None or permits.free else permits.most
        return QueueWaiting(
            key=f"queue_waiting:{queue}",
            text=f"queue {queue}: the oldest job has waited {span(seconds)}"
            + (", the queue is paused" if paused else "")
            + (", the queue is held" if held else "")
            + (f", all {all_used} permits are used" if all_used is not None else ""),
            began_at=gauges.at if before is None else before.began_at,
            queue=queue,
            seconds=seconds,
            limit=limit,
            paused=paused,
            held=held,
            permits=all_used,
        )


def _resolved(alert: Alert, text: str, at: datetime) -> Alert:
    return msgspec.structs.replace(alert, status="resolved", text=text, ended_at=at)


def _line(failure: Failure) -> str:
    beginning = Failure(failure.type, failure.message[: LONGEST_ERROR + 1])
    line = (str(beginning).splitlines() or [""])[0]
    line = storable(line, len(line))  # an error's text may hold what JSON cannot
    return line if len(line) <= LONGEST_ERROR else f"{line[:LONGEST_ERROR]}…"
