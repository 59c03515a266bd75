"""What operators see of the limits of a queue."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headway.domain.limits.queue_limits import LimitsOverride, QueueLimits

SHOWN_KEYS = 100
"""Keys of a queue that are shown."""


class KeyUse(msgspec.Struct, frozen=True):
    """A key with running jobs, or one that is held."""

    key: str
    running: int
    held_until: datetime | None = None


class QueuePermits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a queue, and what is used of them. In a list of queues without weights, and of
    the keys only with held ones."""

    declared: QueueLimits
    override: LimitsOverride | None
    overridden_at: datetime | None
    """The last change of the override."""
    effective: QueueLimits
    running: int
    """Running jobs; each of them has a permit."""
    free: int | None
    """Permits that are left by `running`; None: any number."""
    next_start_in: float | None
    """Seconds until the rate allows the next start, 0 if it does now; None: the queue has no
    rate."""
    held_until: datetime | None
    keys: tuple[KeyUse, ...]
    """Held keys first, then those with the most running jobs, at most `SHOWN_KEYS`."""
    declared_by: int
    """Living workers whose code declares these limits."""


class LimitsChange(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a change of a queue's limits."""

    queue: str
    effective: QueueLimits
    override: LimitsOverride | None
    warning: str | None = None
    """A sentence if nobody uses a queue of this name."""


class HoldRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The holds of a queue that were ended; None and 0: there were none."""

    queue: str
    held_until: datetime | None
    held_keys: int
    warning: str | None = None
    """A sentence if nobody uses a queue of this name."""
