"""What a notifier carries: hints that something happened. They may be lost, doubled or late."""

from __future__ import annotations

from datetime import datetime

import msgspec


class JobsScheduled(msgspec.Struct, frozen=True, tag_field="news", tag="scheduled"):
    """`count` jobs of this queue and type can be claimed from `run_at` on."""

    queue: str
    type: str
    count: int
    run_at: datetime | None = None


class SequenceEnded(msgspec.Struct, frozen=True, tag_field="news", tag="ended"):
    """The sequence completed, failed or was cancelled."""

    sequence_id: str


class OwnershipLost(msgspec.Struct, frozen=True, tag_field="news", tag="lost"):
    """Whoever runs this job no longer owns it."""

    job_id: str
    reason: str


News = JobsScheduled | SequenceEnded | OwnershipLost
