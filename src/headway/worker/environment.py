"""The settings, ports and attempts that the parts of a worker share."""

from __future__ import annotations

from dataclasses import dataclass, field

from headway.after_commit.observer_group import Observers
from headway.ports.clock import Clock
from headway.ports.store import Store
from headway.worker.attempt import Attempt
from headway.worker.failure_streak import FailureStreak
from headway.worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    settings: WorkerSettings
    store: Store
    clock: Clock
    observers: Observers
    held: set[Attempt] = field(default_factory=set[Attempt])
    """The attempts whose jobs this worker holds."""

    def failures(self, part: str) -> FailureStreak:
        """The failures of a part of this worker; none yet."""
        return FailureStreak(self.settings.worker_id, part, self.observers)
