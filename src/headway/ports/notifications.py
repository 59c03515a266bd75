"""What a notifier carries: hints that something happened. They may be lost, doubled or late."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec


class JobsScheduled(msgspec.Struct, frozen=True, tag_field="news", tag="scheduled"):
    """`count` jobs of this queue and type can be claimed from `run_at` on."""

    queue: str
    type: str
    count: int
    """How many idle workers are worth waking; 0: nobody knows, so everyone may look."""
    run_at: datetime | None = None
    """None: only the store knows."""
    hint: str | None = None
    """Names the budget that `count` is kept in, where the notifier keeps one."""

    def joined(self, other: JobsScheduled) -> JobsScheduled:
        """One piece of news instead of two of the same queue and type: counts add up."""
        count = self.count + other.count if self.count and other.count else 0
        if self.run_at is None or other.run_at is None:
            run_at = None
        else:
            run_at = min(self.run_at, other.run_at)
        return JobsScheduled(self.queue, self.type, count, run_at)


class SequenceEnded(msgspec.Struct, frozen=True, tag_field="news", tag="ended"):
    """The sequence completed, failed or was cancelled."""

    sequence_id: str


class OwnershipLost(msgspec.Struct, frozen=True, tag_field="news", tag="lost"):
    """Whoever runs this job no longer owns it."""

    job_id: str
    reason: str
    worker: str | None = None
    """Who ran it; None: whoever it is."""


News = JobsScheduled | SequenceEnded | OwnershipLost


class Topic(StrEnum):
    """The three kinds of news, each of which can be listened to by itself."""

    SCHEDULED = "scheduled"
    ENDED = "ended"
    LOST = "lost"


class Interest(msgspec.Struct, frozen=True, kw_only=True):
    """Which news somebody wants to hear. Whoever names nothing hears nothing."""

    queues: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    """Jobs scheduled in one of these queues that are of one of these types."""
    sequences: frozenset[str] = frozenset()
    """The ends of these sequences."""
    worker: str | None = None
    """The jobs that this worker loses."""
    everything: bool = False
    """All news, as an onlooker: it takes nothing from the budget of those who work."""

    @property
    def topics(self) -> frozenset[Topic]:
        if self.everything:
            return frozenset(Topic)
        wanted = {
            Topic.SCHEDULED: bool(self.queues and self.types),
            Topic.ENDED: bool(self.sequences),
            Topic.LOST: self.worker is not None,
        }
        return frozenset(topic for topic, yes in wanted.items() if yes)


EVERYTHING = Interest(everything=True)
