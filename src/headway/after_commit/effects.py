"""Effects of a transaction, and their publication after the commit: notifiers wake workers and
waiters, observers are given events."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec import structs

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
from headway.domain.schedule import After, At
from headway.domain.settlement import Freed
from headway.ports.notifications import JobsScheduled, Notification, OwnershipLost, SequenceEnded
from headway.ports.notifier import Notifier
from headway.ports.store import Inserted, Store
from headway.runtime.store_errors import in_short

_log = logging.getLogger("headway")


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

    @property
    def notifications(self) -> list[Notification]:
        return [*self.scheduled.values(), *self.lost, *map(SequenceEnded, self.ended)]

    def schedule(self, queue: str, type: str, run_at: datetime | None, *, count: int = 1) -> None:
        """Jobs can be claimed from `run_at` on; None: from a moment that only the store knows."""
        known = self.scheduled.get((queue, type))
        notification = JobsScheduled(queue, type, count, run_at)
        self.scheduled[queue, type] = notification if known is None else known.joined(notification)

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
        """A worker that runs the job does not hold it any more."""
        if job.state is JobState.RUNNING:
            self.lost.append(OwnershipLost(job.id, reason, job.worker))

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


class Publisher:
    """Gives committed changes to the notifier and the observers. It never raises: without a
    notification, workers find the jobs by polling."""

    def __init__(
        self,
        store: Store,
        notifier: Notifier | None,
        observers: Observers,
        own_worker: Callable[[JobsScheduled, float], bool] | None = None,
    ) -> None:
        """`own_worker` is told of the jobs that its worker can claim, and in how many seconds. It
        returns whether that wakes the worker: then one worker less has to be woken."""
        self._store = store
        self._notifier = notifier
        self._observers = observers
        self._own_worker = own_worker
        self._publish_within = None if notifier is None else notifier.within(store.name)
        self._failed = False

    @property
    def watched(self) -> bool:
        """Whether an observer wants to hear of every job."""
        return self._observers.active

    async def publish(self, effects: Effects) -> None:
        notifications = self._publish_here(effects)
        if not notifications or self._notifier is None:
            return
        try:
            await self._notifier.publish(notifications)
        except Exception as error:
            self._observers.observe(NotifierFailed(None, in_short(error)))
            if not self._failed:
                _log.exception(
                    "notifications cannot be published; workers find jobs by polling meanwhile"
                )
            self._failed = True
        else:
            self._failed = False

    def publish_soon(self, effects: Effects) -> None:
        """From code that cannot await."""
        notifications = self._publish_here(effects)
        if notifications and self._notifier is not None:
            self._notifier.publish_soon(notifications)

    async def publish_with(self, tx: Any, effects: Effects) -> None:
        """When the caller's transaction commits, and not if it is rolled back: the store calls us
        after the commit, or the transaction itself sends the notifications. Where neither is
        possible, workers find the jobs by polling."""
        if self._sees_commit(tx, effects):
            return
        if self._publish_within is not None and (notifications := effects.notifications):
            await self._store.run_in(tx, self._publish_within, notifications)

    def publish_with_sync(self, tx: Any, effects: Effects) -> None:
        """The same on a sync connection."""
        if self._sees_commit(tx, effects):
            return
        if self._publish_within is not None and (notifications := effects.notifications):
            self._store.run_in_sync(tx, self._publish_within, notifications)

    def _sees_commit(self, tx: Any, effects: Effects) -> bool:
        return self._store.after_commit(tx, partial(self.publish_soon, effects))

    def _publish_here(self, effects: Effects) -> list[Notification]:
        """Tell the store, the observers and the own worker; the notifications for the others.
        Observers hear first: no job may run before they know that it was created."""
        for scheduled in effects.scheduled.values():
            self._store.expect(scheduled.queue, scheduled.run_at)
        if effects.events:
            self._observers.observe_all(effects.events)
        notifications: list[Notification]
        if self._own_worker is None:
            notifications = [*effects.scheduled.values()]
        else:
            notifications = self._for_others(effects, self._own_worker)
        notifications += effects.lost
        if effects.ended and self._may_be_awaited():
            notifications += map(SequenceEnded, effects.ended)
        return notifications

    def _may_be_awaited(self) -> bool:
        """Whether anybody may wait for the end of a sequence. A worker's notifier knows; that of a
        client may not listen."""
        if self._notifier is None:
            return False
        return self._own_worker is None or self._notifier.wants(SequenceEnded)

    def _for_others(
        self, effects: Effects, own_worker: Callable[[JobsScheduled, float], bool]
    ) -> list[Notification]:
        for scheduled, seconds in effects.later:
            own_worker(scheduled, seconds)
        notifications: list[Notification] = []
        for scheduled in effects.scheduled.values():
            if not own_worker(scheduled, 0.0):
                notifications.append(scheduled)
            elif scheduled.count > 1:
                notifications.append(structs.replace(scheduled, count=scheduled.count - 1))
        return notifications
