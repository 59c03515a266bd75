"""Jobs that move from one store to another."""

from __future__ import annotations

import enum

import msgspec

from headway.domain.job import AttemptRecord, JobRecord


class MovedJob(msgspec.Struct, frozen=True):
    """Everything that a store keeps of a job that is not running."""

    job: JobRecord
    waiting: int
    """Number of its blockers that are not complete."""
    attempts: tuple[AttemptRecord, ...]


class BatchOutcome(enum.StrEnum):
    """The outcome of a batch, kept at its source. The first outcome that is written stays."""

    MOVED = "moved"
    """The source has deleted the jobs: they belong to the target."""
    CANCELLED = "cancelled"
    """The source has kept the jobs, and this batch can never move them."""
