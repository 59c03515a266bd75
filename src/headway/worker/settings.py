"""Settings of a worker: its queues, how many jobs it runs at once, and its times."""

from __future__ import annotations

import math
import os
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypedDict

import msgspec

from headway.domain.job import DEFAULT_QUEUE, JobState
from headway.domain.orders import PruneRule
from headway.domain.validation import check_name, check_seconds
from headway.errors import InvalidOption

MAX_BATCH = 500
MOST_SAVED = 5.0
"""Seconds by which the pause between polls grows at most while notifications arrive."""
WEEK = timedelta(days=7)


class WorkQueue(msgspec.Struct, frozen=True):
    """A queue to work on: how many of its jobs may run at once here, and its weight."""

    name: str
    limit: int | None = None
    """None: as many as the worker runs at once."""
    weight: float | None = None
    """How often, in proportion, it is claimed from first; None: queues in their order."""

    def __post_init__(self) -> None:
        check_name("queue", self.name)
        if self.limit is not None and self.limit < 1:
            raise InvalidOption(
                f"the limit of queue {self.name!r} must be at least 1, not {self.limit}"
            )
        if self.weight is not None and not (self.weight > 0 and math.isfinite(self.weight)):
            raise InvalidOption(
                f"the weight of queue {self.name!r} must be above 0, not {self.weight}"
            )


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Retention of finished sequences, by the state of their last job; None is for ever."""

    completed: timedelta | None = WEEK
    cancelled: timedelta | None = WEEK
    failed: timedelta | None = None

    def __post_init__(self) -> None:
        for state, kept in self.by_state():
            if kept is not None:
                if not isinstance(kept, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
                    raise InvalidOption(f"the retention of {state} jobs must be a timedelta")
                check_seconds(f"the retention of {state} jobs", kept, zero=True)

    def by_state(self) -> tuple[tuple[JobState, timedelta | None], ...]:
        return (
            (JobState.COMPLETED, self.completed),
            (JobState.CANCELLED, self.cancelled),
            (JobState.FAILED, self.failed),
        )


def new_worker_id() -> str:
    """Host, process id and a random part."""
    host = re.sub(r"[^A-Za-z0-9_.\-]", "-", socket.gethostname()).lstrip(".-")[:100] or "host"
    return f"{host}:{os.getpid()}:{secrets.token_hex(4)}"


def _no_overrides() -> Mapping[str, Retention]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """All times are in seconds."""

    queues: Sequence[str | WorkQueue] | Mapping[str, int | None] | None = None
    """Names in order of precedence, names with their limits, or WorkQueues. None: all queues that
    the app's job types name."""
    concurrency: int = 50
    """Jobs that run at once."""
    batch_size: int = MAX_BATCH
    """Jobs that one claim takes at most."""
    lease_for: float = 30.0
    heartbeat_every: float | None = None
    """None: a third of the lease."""
    poll_every: float = 1.0
    """Pause between two polls of an idle worker that gets no notifications."""
    poll_when_told: float | None = None
    """The same while notifications arrive. None: up to three times `poll_every`, but at most 5
    seconds longer; the more commits the notifier announces, the longer."""
    prefetch_for: float = 0.05
    """Jobs are claimed ahead of free slots, as many as are started within this time; 0: none."""
    grace: float = 30.0
    """Time that running jobs have to end when the worker stops."""
    reap_every: float | None = None
    """Pause between two looks for expired leases. None: a tenth of the lease, at most a second."""
    schedules: bool = True
    """Fire schedules: start jobs at their ticks."""
    maintain_every: float = 60.0
    forget_workers_after: float = 300.0
    forget_audit_after: float = 90 * 86_400.0
    retention: Retention = field(default_factory=Retention)
    retention_by_type: Mapping[str, Retention] = field(default_factory=_no_overrides)
    retention_by_queue: Mapping[str, Retention] = field(default_factory=_no_overrides)
    worker_id: str = field(default_factory=new_worker_id)

    def __post_init__(self) -> None:
        check_name("worker id", self.worker_id)
        if self.concurrency < 1:
            raise InvalidOption(f"concurrency must be at least 1, not {self.concurrency}")
        if not 1 <= self.batch_size <= MAX_BATCH:
            raise InvalidOption(f"batch_size is between 1 and {MAX_BATCH}, not {self.batch_size}")
        for name in (
            "lease_for",
            "poll_every",
            "maintain_every",
            "forget_workers_after",
            "forget_audit_after",
        ):
            check_seconds(name, getattr(self, name))
        for name in ("poll_when_told", "reap_every"):
            if getattr(self, name) is not None:
                check_seconds(name, getattr(self, name))
        for name in ("prefetch_for", "grace"):
            check_seconds(name, getattr(self, name), zero=True)
        if self.heartbeat_every is not None and not 0 < self.heartbeat_every < self.lease_for:
            raise InvalidOption(
                f"heartbeat_every must be between 0 and the lease's {self.lease_for:g} seconds, "
                f"not {self.heartbeat_every}"
            )
        self.work_queues()

    def work_queues(self) -> tuple[WorkQueue, ...]:
        """The queues in one form. Raises InvalidOption if they do not go together."""
        if isinstance(self.queues, str):
            raise InvalidOption(f"queues is a list of names: write [{self.queues!r}]")
        if self.queues is None:
            return (WorkQueue(DEFAULT_QUEUE),)
        if isinstance(self.queues, Mapping):
            queues = tuple(WorkQueue(name, limit) for name, limit in self.queues.items())
        else:
            queues = tuple(
                queue if isinstance(queue, WorkQueue) else WorkQueue(queue) for queue in self.queues
            )
        if not queues:
            raise InvalidOption("a worker needs at least one queue")
        names = [queue.name for queue in queues]
        for name in names:
            if names.count(name) > 1:
                raise InvalidOption(f"queue {name!r} is named twice")
        weighted = [queue for queue in queues if queue.weight is not None]
        if weighted and len(weighted) != len(queues):
            raise InvalidOption("give every queue a weight, or none of them")
        return queues

    def heartbeat_interval(self) -> float:
        return self.lease_for / 3 if self.heartbeat_every is None else self.heartbeat_every

    def reap_interval(self) -> float:
        return min(1.0, self.lease_for / 10) if self.reap_every is None else self.reap_every

    def polling_when_told(self, saved: float) -> float:
        """Seconds between two polls of an idle worker while notifications arrive."""
        if self.poll_when_told is not None:
            return self.poll_when_told
        return min(self.poll_every * saved, self.poll_every + MOST_SAVED)

    def prune_rules(self) -> list[PruneRule]:
        """The retention of a type is used first, then that of its queue, then the general one."""
        types = tuple(self.retention_by_type)
        queues = tuple(self.retention_by_queue)
        rules: list[PruneRule] = []
        for type_, retention in self.retention_by_type.items():
            rules += [
                PruneRule(state=state, older_than=kept.total_seconds(), types=(type_,))
                for state, kept in retention.by_state()
                if kept is not None
            ]
        for queue, retention in self.retention_by_queue.items():
            rules += [
                PruneRule(
                    state=state,
                    older_than=kept.total_seconds(),
                    queues=(queue,),
                    except_types=types,
                )
                for state, kept in retention.by_state()
                if kept is not None
            ]
        rules += [
            PruneRule(
                state=state,
                older_than=kept.total_seconds(),
                except_types=types,
                except_queues=queues,
            )
            for state, kept in self.retention.by_state()
            if kept is not None
        ]
        return rules


class WorkerOptions(TypedDict, total=False):
    """The fields of WorkerSettings, for `app.worker(concurrency=10)`."""

    queues: Sequence[str | WorkQueue] | Mapping[str, int | None]
    concurrency: int
    batch_size: int
    lease_for: float
    heartbeat_every: float | None
    poll_every: float
    poll_when_told: float | None
    prefetch_for: float
    grace: float
    reap_every: float | None
    schedules: bool
    maintain_every: float
    forget_workers_after: float
    forget_audit_after: float
    retention: Retention
    retention_by_type: Mapping[str, Retention]
    retention_by_queue: Mapping[str, Retention]
    worker_id: str
