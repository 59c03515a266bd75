"""The verbs by which jobs move from one store to another.

A batch of jobs moves in three steps. The target *stages* it: the jobs are kept there, and nobody
runs them. One transaction of the source deletes the jobs, if they have not changed since they were
read, and writes the batch's outcome. The target takes the batch from the stage and inserts the
jobs.

The outcome decides who owns the jobs: without one the source, after MOVED the target. A mover that
finds a batch on the stage first writes CANCELLED at the source: if the answer is MOVED, it inserts
the jobs, otherwise it drops the batch. The two writes exclude each other, so a slow mover cannot
move a batch that another one has cancelled. MOVED is kept until the target has inserted the jobs;
CANCELLED is kept for good.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.ports.statement import Operation

if TYPE_CHECKING:
    from headway.ports.store import Store


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


class Transfer(Protocol):
    """Operations like those of `headway.ports.store`, run by the store that they belong to."""

    @property
    def store(self) -> Store: ...

    async def identity(self) -> tuple[object, ...]:
        """The database's own name for the place of the jobs: two stores that hold the same jobs
        have the same identity, whatever their URLs. The store need not be open."""
        ...

    def movable(
        self, states: Sequence[JobState], after: str | None, limit: int
    ) -> Operation[list[tuple[str, str]]]:
        """Ids and root ids of jobs in these states, oldest first, after this id."""
        ...

    def trees(self, root_ids: Sequence[str], *, lock: bool = False) -> Operation[list[MovedJob]]:
        """All jobs with these roots; with `lock`, locked until the transaction ends."""
        ...

    def insert_moved(self, jobs: Sequence[MovedJob]) -> Operation[None]:
        """Insert jobs unchanged. Raises DuplicateJob for an id that is taken."""
        ...

    def stage(self, batch: str, jobs: Sequence[MovedJob]) -> Operation[None]:
        """Keep the jobs of a batch, where nobody runs them."""
        ...

    def take_staged(self, batch: str) -> Operation[list[MovedJob]]:
        """Delete a batch from the stage; its jobs, or none if it is not there."""
        ...

    def staged_batches(self, limit: int) -> Operation[list[str]]:
        """Batches on the stage."""
        ...

    def set_outcome(
        self, batch: str, outcome: BatchOutcome, *, now: datetime | None = None
    ) -> Operation[BatchOutcome]:
        """Write a batch's outcome unless it has one; the outcome that it has now."""
        ...

    def delete_outcome(self, batch: str) -> Operation[None]:
        """Delete the outcome of a batch whose jobs the target has inserted."""
        ...
