"""What a store promises beyond `Store` so that its jobs can move to another one, or arrive there.

A batch of jobs is *packed* into the target's luggage, where nobody runs it; then it *departs* from
the source: one transaction there deletes the jobs, if they are still as they were packed, and
writes the departure; then it is *unpacked* at the target. The departure decides: before it the jobs
are the source's, after it the target's. Whoever finds luggage that was left behind calls its batch
off at the source first. That write and the departure exclude each other, so a mover that was only
slow cannot depart afterwards. A departure is kept until its batch has been unpacked: without it the
luggage would be taken for one that never left. A batch that was called off stays called off.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.ports.statement import Operation
from headway.ports.store import Store


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


class MovingStore(Store, Protocol):
    """Verbs as those of `Operations`."""

    async def identity(self) -> tuple[object, ...]:
        """The place of the jobs, as the database itself knows it: equal for two stores exactly if
        they hold the same jobs, under whatever names. The store need not be open."""
        ...

    def movable(
        self, states: Sequence[JobState], after: str | None, limit: int
    ) -> Operation[list[tuple[str, str]]]:
        """Jobs in these states, oldest first, from after this id on: their ids and their roots."""
        ...

    def trees(self, root_ids: Sequence[str], *, lock: bool = False) -> Operation[list[PackedJob]]:
        """Whole trees of sequences, by root; with `lock`, held until the transaction ends."""
        ...

    def put(self, jobs: Sequence[PackedJob]) -> Operation[None]:
        """Store jobs as they were. Raises DuplicateJob for an id that is taken."""
        ...

    def pack(self, batch: str, jobs: Sequence[PackedJob]) -> Operation[None]:
        """Keep jobs as luggage."""
        ...

    def unpack(self, batch: str) -> Operation[list[PackedJob]]:
        """Hand out luggage, and forget it; empty if there is none."""
        ...

    def luggage(self, limit: int) -> Operation[list[str]]:
        """Batches that are packed here."""
        ...

    def depart(
        self, batch: str, departure: Departure, *, now: datetime | None = None
    ) -> Operation[Departure]:
        """Write what becomes of a batch, unless that is written already; answers what holds."""
        ...

    def forget_departure(self, batch: str) -> Operation[None]:
        """The batch has arrived: nobody will ask any more what became of it."""
        ...
