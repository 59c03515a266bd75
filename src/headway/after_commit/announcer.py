"""Tells the rest of the world, and this worker's own fetcher, that jobs can be claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from headway.domain.job import NewJob
from headway.domain.schedule import After, At
from headway.domain.settlement import Freed
from headway.ports.notifications import JobsScheduled, Notification, OwnershipLost, SequenceEnded
from headway.ports.notifier import Notifier
from headway.ports.store import Store


class Announcer:
    """Gathers what one commit gave rise to; `send` publishes it in one go."""

    __slots__ = ("_ended", "_hear", "_notifications", "_notifier", "_scheduled", "_store")

    def __init__(
        self,
        store: Store,
        notifier: Notifier | None,
        hear: Callable[[Notification, float], bool | None],
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._hear = hear
        """Gets this worker's own notifications, and in how many seconds the job is due. It answers
        whether it was idle and looks at once; then one of the others can sleep on."""
        self._ended: list[str] = []
        self._scheduled: dict[tuple[str, str], tuple[int, datetime | None]] = {}
        self._notifications: list[Notification] = []

    def scheduled(self, queue: str, type_: str, run_at: datetime | None) -> None:
        """A job can be claimed now; `run_at` is where it lies in its queue, if that is known."""
        count, earliest = self._scheduled.get((queue, type_), (0, run_at))
        if earliest is not None and run_at is not None:
            earliest = min(earliest, run_at)
        self._scheduled[queue, type_] = (count + 1, earliest)
        self._store.expect(queue, run_at)

    def due_in(self, queue: str, type_: str, seconds: float, since: datetime) -> None:
        """A job will be due; told to this worker only, others find it when they look. `since` is a
        time by the store's clock before which it cannot be due: nobody need look below that."""
        if seconds <= 0:
            self.scheduled(queue, type_, since)
        else:
            self._hear(JobsScheduled(queue, type_, 1), seconds)

    def due_by(self, queue: str, type_: str, schedule: At | After, since: datetime) -> None:
        match schedule:
            case After():
                self.due_in(queue, type_, schedule.seconds, since)
            case At(moment):
                self.due_in(queue, type_, (moment - datetime.now(UTC)).total_seconds(), since)

    def stored(self, jobs: Iterable[NewJob], since: datetime) -> None:
        """New jobs were stored. Some may be blocked; but then a hint does no harm."""
        for job in jobs:
            self.due_by(job.queue, job.type, job.schedule, since)

    def freed(self, jobs: Iterable[Freed]) -> None:
        for job in jobs:
            self.scheduled(job.queue, job.type, job.run_at)

    def ended(self, sequence_id: str) -> None:
        self._ended.append(sequence_id)

    def lost(self, job_id: str, reason: str, worker: str | None) -> None:
        """Whoever runs the job, this worker if it is known, must stop."""
        self._notifications.append(OwnershipLost(job_id, reason, worker))

    def send(self) -> None:
        for (queue, type_), (count, run_at) in self._scheduled.items():
            woken = self._hear(JobsScheduled(queue, type_, count, run_at), 0.0)
            left = count - 1 if woken else count
            if left:
                self._notifications.append(JobsScheduled(queue, type_, left, run_at))
        self._scheduled.clear()
        notifier = self._notifier
        if self._ended:
            if notifier is not None and notifier.wants(SequenceEnded):
                self._notifications += map(SequenceEnded, self._ended)
            self._ended.clear()
        if self._notifications:
            to_send, self._notifications = self._notifications, []
            if notifier is not None:
                notifier.publish_soon(to_send)
