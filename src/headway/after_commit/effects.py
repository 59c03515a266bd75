"""What the world is told once a change is committed: sleepers are woken, observers hear of it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from headway.after_commit.observers import Observers
from headway.domain.events import (
    Event,
    JobBlocked,
    JobCancelled,
    JobCompleted,
    JobCreated,
    JobRescheduled,
    JobRetried,
    JobUnblocked,
    NotifierFailed,
    SequenceCancelled,
    SequenceCompleted,
    SequenceCreated,
)
from headway.domain.job import JobRecord, JobState, NewJob
from headway.domain.settlement import Freed
from headway.ports.notifications import JobsScheduled, Notification, OwnershipLost, SequenceEnded
from headway.ports.notifier import Notifier
from headway.ports.store import Inserted, Store
from headway.runtime.store_errors import in_short

_log = logging.getLogger("headway")


@dataclass(slots=True)
class Effects:
    """Collected while a change is made; nothing of it is told before the commit."""

    scheduled: dict[tuple[str, str], JobsScheduled] = field(
        default_factory=dict[tuple[str, str], JobsScheduled]
    )
    """By queue and type, so that a thousand jobs wake workers once."""
    others: list[Notification] = field(default_factory=list[Notification])
    events: list[Event] = field(default_factory=list[Event])

    @property
    def notifications(self) -> list[Notification]:
        return [*self.scheduled.values(), *self.others]

    def schedule(self, queue: str, type: str, run_at: datetime | None, *, count: int = 1) -> None:
        """Jobs can be claimed from `run_at` on; None: from a moment that only the store knows."""
        known = self.scheduled.get((queue, type))
        notification = JobsScheduled(queue, type, count, run_at)
        self.scheduled[queue, type] = notification if known is None else known.joined(notification)

    def create(self, jobs: Sequence[NewJob], stored: Sequence[Inserted], watched: bool) -> None:
        """Jobs were stored; `watched` says whether anyone wants to hear of each."""
        alike = Counter(
            (job.queue, job.type, answer.run_at)
            for job, answer in zip(jobs, stored, strict=True)
            if not (answer.deduplicated or answer.blocked or answer.id != job.id)
        )
        for (queue, type, run_at), count in alike.items():
            self.schedule(queue, type, run_at, count=count)
        if watched:
            self.events += creation(jobs, stored)

    def free(self, freed: Iterable[Freed]) -> None:
        """Jobs became pending because their last blocker completed."""
        for job in freed:
            self.schedule(job.queue, job.type, job.run_at)
            self.events.append(JobUnblocked(job.job_id, job.type, job.queue))

    def end(self, job: JobRecord) -> None:
        """The job's sequence has ended."""
        self.others.append(SequenceEnded(job.sequence_id))

    def take(self, job: JobRecord, reason: str) -> None:
        """If somebody runs the job, it is no longer theirs."""
        if job.state is JobState.RUNNING:
            self.others.append(OwnershipLost(job.id, reason, job.worker))

    def complete(self, job: JobRecord) -> None:
        """The job was completed without a worker."""
        self.take(job, "already_completed")
        self.events.append(JobCompleted(*_facts(job), None, job.lease_version, None))

    def complete_sequence(self, job: JobRecord) -> None:
        """With it, its sequence is complete."""
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
        """What a later step of the same transaction brought."""
        for notification in later.scheduled.values():
            self.schedule(
                notification.queue, notification.type, notification.run_at, count=notification.count
            )
        self.others += later.others
        self.events += later.events


def creation(
    jobs: Iterable[NewJob], stored: Iterable[Inserted]
) -> list[SequenceCreated | JobCreated | JobBlocked]:
    """What is told of jobs that were stored; nothing of those that were there before."""
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


class Publisher:
    """Tells effects. It never raises: who is not woken finds the jobs by polling."""

    def __init__(self, store: Store, notifier: Notifier, observers: Observers) -> None:
        self._store = store
        self._notifier = notifier
        self._observers = observers
        self._publish_within = notifier.within(store.name)
        self._troubled = False

    @property
    def watched(self) -> bool:
        """Whether anyone wants to hear of every job."""
        return self._observers.active

    async def publish(self, effects: Effects) -> None:
        notifications = self._tell_here(effects)
        if not notifications:
            return
        try:
            await self._notifier.publish(notifications)
        except Exception as error:
            self._observers.observe(NotifierFailed(None, in_short(error)))
            if not self._troubled:
                _log.exception(
                    "notifications cannot be published; workers find jobs by polling meanwhile"
                )
            self._troubled = True
        else:
            self._troubled = False

    def publish_soon(self, effects: Effects) -> None:
        """From code that cannot await."""
        notifications = self._tell_here(effects)
        if notifications:
            self._notifier.publish_soon(notifications)

    async def publish_with(self, tx: Any, effects: Effects) -> None:
        """When the caller's transaction commits, and not if it is rolled back: seen by us, or told
        by the transaction itself. Where neither can be, workers find the jobs by polling."""
        if self._sees_commit(tx, effects):
            return
        if self._publish_within is not None and (notifications := effects.notifications):
            await self._store.run_in(tx, self._publish_within, notifications)

    def publish_with_sync(self, tx: Any, effects: Effects) -> None:
        """The same on a connection that blocks."""
        if self._sees_commit(tx, effects):
            return
        if self._publish_within is not None and (notifications := effects.notifications):
            self._store.run_in_sync(tx, self._publish_within, notifications)

    def _sees_commit(self, tx: Any, effects: Effects) -> bool:
        return self._store.after_commit(tx, partial(self.publish_soon, effects))

    def _tell_here(self, effects: Effects) -> Sequence[Notification]:
        for scheduled in effects.scheduled.values():
            self._store.expect(scheduled.queue, scheduled.run_at)
        if effects.events:
            self._observers.observe_all(effects.events)
        return effects.notifications
