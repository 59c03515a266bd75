"""Jobs on their way from one store to another."""

from __future__ import annotations

import enum

import msgspec

from headway.domain.job import AttemptRecord, JobRecord


class PackedJob(msgspec.Struct, frozen=True):
    """All that a store keeps of a job that is not running."""

    job: JobRecord
    waiting: int
    """How many of its blockers are not complete."""
    attempts: tuple[AttemptRecord, ...]


class Departure(enum.StrEnum):
    """What became of a batch at the store it was to leave. Whatever is written first stays."""

    LEFT = "left"
    """Its jobs are gone from there: they live where the batch was packed for."""
    CALLED_OFF = "called_off"
    """Its jobs have never left, and never will in this batch."""
