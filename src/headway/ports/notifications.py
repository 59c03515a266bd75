"""What a notifier carries: hints that something happened, which may be lost, doubled or late."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

ANY_TYPE = ""
"""In JobsScheduled: permits are free, or limits have changed, and nobody knows the types of the
jobs that can be claimed."""


class JobsScheduled(msgspec.Struct, frozen=True, tag_field="kind", tag="scheduled"):
    """`count` jobs of this queue and type can be claimed from `run_at` on."""

    queue: str
    type: str
    count: int
    """How many idle workers to wake; 0 (unknown): all of them."""
    run_at: datetime | None = None
    """None: only the store knows."""
    budget: str | None = None
    """Name of the counter from which processes take their share of `count`; None: no counter."""

    def joined(self, other: JobsScheduled) -> JobsScheduled:
        """Merge two notifications of the same queue and type: counts add up."""
        count = self.count + other.count if self.count and other.count else 0
        if self.run_at is None or other.run_at is None:
            run_at = None
        else:
            run_at = min(self.run_at, other.run_at)
        return JobsScheduled(self.queue, self.type, count, run_at)


class SequenceEnded(msgspec.Struct, frozen=True, tag_field="kind", tag="ended"):
    """The sequence completed, failed or was cancelled."""

    sequence_id: str


class OwnershipLost(msgspec.Struct, frozen=True, tag_field="kind", tag="lost"):
    """The worker that runs this job no longer owns it."""

    job_id: str
    reason: str
    worker: str | None = None
    """The worker that ran it; None: unknown, so every worker is told."""


class SchedulesChanged(msgspec.Struct, frozen=True, tag_field="kind", tag="schedules"):
    """A schedule was put or resumed: it may be due earlier than workers know."""


Notification = JobsScheduled | SequenceEnded | OwnershipLost | SchedulesChanged


class Topic(StrEnum):
    """The kinds of notifications; each can be subscribed to by itself."""

    SCHEDULED = "scheduled"
    ENDED = "ended"
    LOST = "lost"
    SCHEDULES = "schedules"


class Interest(msgspec.Struct, frozen=True, kw_only=True):
    """Which notifications a subscriber wants; by default none."""

    queues: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    """Scheduled jobs in one of these queues that have one of these types."""
    sequences: frozenset[str] = frozenset()
    """Ends of these sequences."""
    worker: str | None = None
    """Lost jobs of this worker."""
    schedules: bool = False
    """Changes of schedules."""
    everything: bool = False
    """All notifications, without taking a share of any budget."""

    @property
    def topics(self) -> frozenset[Topic]:
        if self.everything:
            return frozenset(Topic)
        wanted = {
            Topic.SCHEDULED: bool(self.queues and self.types),
            Topic.ENDED: bool(self.sequences),
            Topic.LOST: self.worker is not None,
            Topic.SCHEDULES: self.schedules,
        }
        return frozenset(topic for topic, yes in wanted.items() if yes)


EVERYTHING = Interest(everything=True)
