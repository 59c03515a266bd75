"""The worker: runs jobs from a store, in the foreground or in the background."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.after_commit.observer_group import gathered
from headway.domain.limits.queue_limits import QueueLimits
from headway.domain.schedules.schedule import ScheduleDefinition
from headway.domain.views import Health
from headway.errors import ConfigurationError
from headway.jobs.handler import Handler
from headway.ports.clock import Clock
from headway.ports.notifier import Notifier
from headway.ports.observer import Observer
from headway.ports.store import Store
from headway.runtime.clock import SystemClock
from headway.worker.environment import WorkerEnvironment
from headway.worker.handler_runner import Middleware
from headway.worker.handler_transactions import BeginTransaction
from headway.worker.leases.heartbeat_thread import HeartbeatRunner, HeartbeatThread
from headway.worker.settings import WorkerSettings
from headway.worker.worker_run import RunningJob, WorkerRun


class Worker:
    """Runs jobs from a store that has been opened. One worker runs on one event loop at a time.

    `run()` works until `request_stop()`, or with `drain=True` until no job of its queues and types
    is due and none of its own is running. Jobs whose leases have expired are given back first, and
    schedules that are due are fired; jobs that are due later, retries among them, and those that
    other workers run, are not waited for.
    """

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        settings: WorkerSettings | None = None,
        *,
        notifier: Notifier | None = None,
        observers: Sequence[Observer] = (),
        middleware: Sequence[Middleware] = (),
        clock: Clock | None = None,
        transactions: BeginTransaction | None = None,
        heartbeat_runner: Callable[[Store], HeartbeatRunner] = HeartbeatThread,
        schedules: Mapping[str, ScheduleDefinition] | None = None,
        limits: Mapping[str, QueueLimits] | None = None,
    ) -> None:
        """`transactions` opens those that `job.prepare()` and `job.complete()` hand out, instead of
        the store. `schedules` and `limits` of queues are those that the code of this worker
        declares."""
        if not handlers:
            raise ConfigurationError("a worker needs at least one job type with a handler")
        self.settings = settings or WorkerSettings()
        self._store = store
        self._handlers = handlers
        self._notifier = notifier
        self._observers = gathered(observers)
        self._middleware = tuple(middleware)
        self._clock = clock or SystemClock()
        self._transactions = transactions or store.begin
        self._heartbeat_runner = heartbeat_runner
        self._schedules: Mapping[str, ScheduleDefinition] = {} if schedules is None else schedules
        self._limits: Mapping[str, QueueLimits] = {} if limits is None else limits
        self._run: WorkerRun | None = None
        self._task: asyncio.Task[None] | None = None
        self._process = os.getpid()

    @property
    def id(self) -> str:
        return self.settings.worker_id

    @property
    def running(self) -> list[RunningJob]:
        """The jobs whose handlers run at this moment, with their progress."""
        return [] if self._run is None else self._run.running()

    @property
    def health(self) -> Health:
        """Whether it is live and ready; may be asked from any thread."""
        if self._run is None:
            return Health(live=True, ready=False, problems=("the worker does not run",))
        return self._run.health()

    async def run(self, *, drain: bool = False) -> None:
        """Work until stopped. Cancelling this interrupts handlers at once, as a second
        `request_stop` does, and still gives their jobs back."""
        if self._process != os.getpid():
            raise ConfigurationError(
                f"worker {self.id} was made before this process was forked; make it afterwards"
            )
        if self._run is not None:
            raise ConfigurationError(f"worker {self.id} is running already")
        self._run = current = WorkerRun(
            WorkerEnvironment(self.settings, self._store, self._clock, self._observers),
            dict(self._handlers),
            notifier=self._notifier,
            middleware=self._middleware,
            begin=self._transactions,
            heartbeat_runner=self._heartbeat_runner(self._store),
            drain=drain,
            schedules=dict(self._schedules),
            limits=dict(self._limits),
        )
        try:
            await current.work()
        finally:
            self._run = None

    def request_stop(self) -> None:
        """Stop gracefully; called again, interrupt what still runs. Call it on the worker's loop;
        before `run` it does nothing."""
        if self._run is not None:
            self._run.request_stop()

    async def start(self) -> None:
        """Run in the background; returns when the worker has started."""
        if self._task is not None and not self._task.done():
            raise ConfigurationError(f"worker {self.id} is running already")
        self._task = asyncio.create_task(self.run(), name=f"headway worker {self.id}")
        await asyncio.sleep(0)  # so that a stop right now finds it begun
        current = self._run
        if current is not None:
            started = asyncio.create_task(current.started.wait())
            ends: set[asyncio.Future[Any]] = {started, self._task}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            started.cancel()

    async def stop(self) -> None:
        """Stop gracefully and return when all is done. Stopping twice, or before `start`, is fine;
        the error that ended the worker is raised here."""
        self.request_stop()
        task = self._task
        if task is not None:
            try:
                await asyncio.shield(task)
            finally:
                if task.done():
                    self._task = None
