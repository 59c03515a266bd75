"""Whether a worker lives: what it reports of itself, and how long its silence is accepted."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from headway.domain.queries import WorkerRecord

BEAT_EVERY = 5.0
"""Seconds between the heartbeats of a worker, at most."""
ALIVE_FOR = timedelta(seconds=4 * BEAT_EVERY)
"""A worker that was silent for longer counts as dead."""


def is_alive(worker: WorkerRecord, now: datetime) -> bool:
    return worker.seen_at > now - ALIVE_FOR


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a worker, for whatever supervises its process."""

    live: bool
    """False: the worker is stuck, and only a restart helps."""
    ready: bool
    """The worker claims jobs and can store their results."""
    problems: tuple[str, ...] = ()
    """Why the worker is not live or not ready, in sentences."""
