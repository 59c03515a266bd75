"""The effects of a transaction: notifications and events, collected until the commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headway.domain.due_time import After, At
from headway.domain.events import (
    Event,
    JobBlocked,
    JobCancelled,
    JobCompleted,
    JobCreated,
    JobRescheduled,
    JobRetried,
    JobUnblocked,
    SequenceCancelled,
    SequenceCompleted,
    SequenceCreated,
)
from headway.domain.job import JobRecord, JobState, NewJob
from headway.domain.settlement import Freed
from headway.ports.notifications import (
    ANY_TYPE,
    JobsScheduled,
    Notification,
    OwnershipLost,
    SchedulesChanged,
    SequenceEnded,
)
from headway.ports.store import Inserted


@dataclass(slots=True)
class Effects:
    """What a transaction changed. Nothing of it is published before the commit."""

    scheduled: dict[tuple[str, str], JobsScheduled] = field(
        default_factory=dict[tuple[str, str], JobsScheduled]
    )
    """By queue and type, so that a thousand jobs wake workers once."""
    later: list[tuple[JobsScheduled, float]] = field(
        default_factory=list[tuple[JobsScheduled, float]]
    )
    """Jobs that are due in so many seconds. Only the worker that stored them is told."""
    ended: list[str] = field(default_factory=list[str])
    """Ids of sequences."""
    lost: list[OwnershipLost] = field(default_factory=list[OwnershipLost])
    events: list[Event] = field(default_factory=list[Event])
    schedules_changed: bool = False
    """A schedule may be due earlier than workers know."""

    @property
    def notifications(self) -> list[Notification]:
        return [
            *self.scheduled.values(),
            *self.lost,
            *map(SequenceEnded, self.ended),
            *self.changes,
        ]

    @property
    def changes(self) -> list[SchedulesChanged]:
        return [SchedulesChanged()] if self.schedules_changed else []

    def schedule(self, queue: str, type: str, run_at: datetime | None, *, count: int = 1) -> None:
        """Jobs can be claimed from `run_at` on; None: from a moment that only the store knows."""
        known = self.scheduled.get((queue, type))
        notification = JobsScheduled(queue, type, count, run_at)
        self.scheduled[queue, type] = notification if known is None else known.joined(notification)

    def free_permit(self, queue: str, since: datetime) -> None:
        """A job of a queue that may have limits is not running any more: another one may be
        claimed, of any type."""
        self.schedule(queue, ANY_TYPE, since)

    def change_limits(self, queue: str) -> None:
        """All workers of the queue look at its limits."""
        self.schedule(queue, ANY_TYPE, None, count=0)

    def schedule_in(self, queue: str, type: str, seconds: float, since: datetime) -> None:
        """A worker stored a job that is due in so many seconds, and not before `since`, a time by
        the store's clock: claims need not look below that."""
        if seconds <= 0:
            self.schedule(queue, type, since)
        else:
            self.later.append((JobsScheduled(queue, type, 1), seconds))

    def schedule_by(self, queue: str, type: str, schedule: At | After, since: datetime) -> None:
        """The same for a schedule."""
        if isinstance(schedule, After):
            self.schedule_in(queue, type, schedule.seconds, since)
        else:
            seconds = (schedule.moment - datetime.now(UTC)).total_seconds()
            self.schedule_in(queue, type, seconds, since)

    def create(self, jobs: Sequence[NewJob], stored: Sequence[Inserted], watched: bool) -> None:
        """Jobs were stored; `watched`: make their events."""
        alike = Counter(
            (job.queue, job.type, answer.run_at)
            for job, answer in zip(jobs, stored, strict=True)
            if not (answer.deduplicated or answer.blocked or answer.id != job.id)
        )
        for (queue, type, run_at), count in alike.items():
            self.schedule(queue, type, run_at, count=count)
        if watched:
            self.events += creation(jobs, stored)

    def free(self, freed: Iterable[Freed], *, watched: bool = True) -> None:
        """Jobs became pending because their last blocker completed."""
        alike: dict[tuple[str, str], list[datetime]] = {}
        for job in freed:
            alike.setdefault((job.queue, job.type), []).append(job.run_at)
            if watched:
                self.events.append(JobUnblocked(job.job_id, job.type, job.queue))
        for (queue, type), moments in alike.items():
            self.schedule(queue, type, min(moments), count=len(moments))

    def end(self, job: JobRecord) -> None:
        """The job's sequence has ended."""
        self.ended.append(job.sequence_id)

    def take(self, job: JobRecord, reason: str) -> None:
        """A worker that runs the job does not hold it any more, and the job has no permit."""
        if job.state is JobState.RUNNING:
            self.lost.append(OwnershipLost(job.id, reason, job.worker))
            self.free_permit(job.queue, job.run_at)

    def complete(self, job: JobRecord) -> None:
        """The job was completed without a worker."""
        self.take(job, "already_completed")
        self.events.append(JobCompleted(*_facts(job), None, job.lease_version, None))

    def complete_sequence(self, job: JobRecord) -> None:
        """The job was the last one of its sequence."""
        self.end(job)
        self.events.append(SequenceCompleted(job.sequence_id, job.sequence_type, job.queue, None))

    def cancel(self, job: JobRecord) -> None:
        self.take(job, "cancelled")
        self.end(job)
        self.events.append(JobCancelled(*_facts(job)))
        self.events.append(SequenceCancelled(job.sequence_id, job.sequence_type, job.queue))

    def retry(self, job: JobRecord) -> None:
        self.schedule(job.queue, job.type, None)
        self.events.append(JobRetried(*_facts(job)))

    def trigger(self, job: JobRecord) -> None:
        self.schedule(job.queue, job.type, None)
        self.events.append(JobRescheduled(*_facts(job), None))

    def absorb(self, later: Effects) -> None:
        """Add the effects of a later step of the same transaction."""
        for notification in later.scheduled.values():
            self.schedule(
                notification.queue, notification.type, notification.run_at, count=notification.count
            )
        self.ended += later.ended
        self.lost += later.lost
        self.events += later.events
        self.schedules_changed |= later.schedules_changed


def creation(
    jobs: Iterable[NewJob], stored: Iterable[Inserted]
) -> list[SequenceCreated | JobCreated | JobBlocked]:
    """The events of new jobs; deduplicated ones have none."""
    events: list[SequenceCreated | JobCreated | JobBlocked] = []
    for job, answer in zip(jobs, stored, strict=True):
        if answer.deduplicated or answer.id != job.id:
            continue
        sequence_id = job.sequence_id or job.id
        if job.sequence_id is None:
            events.append(SequenceCreated(sequence_id, job.type, job.queue))
        events.append(JobCreated(job.id, job.type, job.queue, sequence_id))
        if answer.blocked:
            events.append(JobBlocked(job.id, job.type, job.queue, sequence_id, len(job.blockers)))
    return events


def _facts(job: JobRecord) -> tuple[str, str, str, str]:
    return job.id, job.type, job.queue, job.sequence_id
