"""One run of a worker, from its start to its end: puts fetcher, runner, committer, heartbeat,
reaper and maintenance together, and takes them apart again in an order that loses nothing.

    stop: claim no more -> give back waiting jobs -> let running handlers end (grace)
          -> interrupt the others -> commit -> stop the heartbeat -> sign off
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headway.after_commit.publisher import Publisher
from headway.domain.events import WorkerStarted, WorkerStopped, WorkerStopping
from headway.domain.limits.queue_limits import QueueLimits
from headway.domain.queries import WorkerRecord
from headway.domain.schedules.schedule import ScheduleDefinition
from headway.domain.views import Health
from headway.jobs.handler import Handler
from headway.ports.notifications import (
    Interest,
    JobsScheduled,
    Notification,
    OwnershipLost,
    SchedulesChanged,
)
from headway.ports.notifier import Disposer, Notifier, NotifierStatus
from headway.runtime.poll_interval import polling_saved
from headway.worker.attempt import SHUTDOWN
from headway.worker.attempt_events import Reporter
from headway.worker.background.maintenance import Maintenance
from headway.worker.background.progress import ProgressWriter
from headway.worker.background.queue_limits import QueueLimitWriter
from headway.worker.background.scheduler import Scheduler
from headway.worker.claims.claim_timing import ClaimTiming
from headway.worker.claims.fetcher import Fetcher
from headway.worker.claims.slots import Slots
from headway.worker.committer import Committer
from headway.worker.dispatcher import Dispatcher
from headway.worker.environment import WorkerEnvironment
from headway.worker.failure_streak import NOTIFIER, sleep_unless
from headway.worker.handler_runner import Middleware, Runner
from headway.worker.handler_transactions import BeginTransaction, Permits, WorkerTransactions
from headway.worker.leases.heartbeat import Heartbeat
from headway.worker.leases.heartbeat_thread import HeartbeatRunner
from headway.worker.leases.reaper import Reaper
from headway.worker.leases.store_outage import Outage
from headway.worker.loop_watch import LoopWatch

LAST_WAIT = 5.0
"""Seconds beyond the grace time to wait for the store; and for interrupted handlers, after each of
two interruptions."""
SHORTEST_WAIT = 2.0
"""Seconds that each part gets to end when the time is used up."""


LATE = 5.0
"""Seconds that a handler may block the event loop before the worker is not ready."""
STUCK = 60.0
"""Seconds after which a blocked worker is not live."""


class RunningJob(msgspec.Struct, frozen=True):
    """A job that a worker runs at this moment."""

    job_id: str
    type: str
    queue: str
    seconds: float
    progress: tuple[float, str] | None


class WorkerRun:
    """One run of a worker, from its start to its end."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        handlers: Mapping[str, Handler],
        *,
        notifier: Notifier | None,
        middleware: Sequence[Middleware],
        begin: BeginTransaction,
        heartbeat_runner: HeartbeatRunner,
        drain: bool,
        schedules: Mapping[str, ScheduleDefinition],
        limits: Mapping[str, QueueLimits],
    ) -> None:
        settings, store = environment.settings, environment.store
        self._settings = settings
        self._store = store
        self._handlers = handlers
        self._notifier = notifier
        self._observers = environment.observers
        self._clock = environment.clock
        self._began_at = datetime.now(UTC)
        self._held = environment.held
        self._slots = Slots(settings.work_queues(), settings.concurrency, settings.prefetch_for)
        self._schedule = ClaimTiming(environment, self._slots, handlers, drain=drain)
        reporter = Reporter(environment)
        publisher = Publisher(store, notifier, self._observers, self._schedule.expect_own)
        outage = Outage(environment)
        self._scheduler = Scheduler(environment, publisher, schedules, self._describe)
        self._limits = QueueLimitWriter(environment, publisher, limits, self._describe)
        for name, each in limits.items():
            if name in self._slots and each.rate is not None:
                self._slots[name].rated = True
        self._heartbeat = Heartbeat(
            environment,
            heartbeat_runner,
            outage,
            reporter,
            self._describe,
            self._scheduler.expect,
        )
        # From here on each part hands on to the one before it: fetcher, dispatcher, runner,
        # committer, publisher. What may be claimed next, all of them tell the schedule.
        self._committer = Committer(
            environment,
            self._schedule,
            publisher,
            reporter,
            outage,
            self._scheduler.sequence_ended,
        )
        self._transactions = WorkerTransactions(
            store=store,
            clock=self._clock,
            heartbeat=self._heartbeat,
            lease_for=settings.lease_for,
            begin=begin,
            reporter=reporter,
            permits=Permits(store.transactions),
            failures=environment.failures("transaction"),
        )
        self._runner = Runner(
            environment, self._transactions, self._committer, reporter, middleware
        )
        self._dispatcher = Dispatcher(
            environment, self._slots, self._schedule, self._runner, self._committer
        )
        self._reaper = Reaper(environment, publisher, outage)
        self._fetcher = Fetcher(
            environment,
            self._schedule,
            self._slots,
            self._dispatcher,
            self._committer,
            self._reaper,
            publisher,
            handlers=handlers,
            spender=self._limits.spent,
        )
        self._maintenance = Maintenance(environment)
        self._progress = ProgressWriter(environment)
        self._listening = environment.failures(NOTIFIER)
        self._loop_watch = (
            LoopWatch(settings.worker_id, self._observers) if heartbeat_runner.apart else None
        )
        self._unsubscribe: Disposer | None = None
        self.started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    def running(self) -> list[RunningJob]:
        now = self._clock.monotonic()
        return [
            RunningJob(
                each.claimed.id,
                each.claimed.type,
                each.claimed.queue,
                now - each.began,
                each.progress,
            )
            for each in self._held
            if each.began is not None and each.settlement is None
        ]

    def health(self) -> Health:
        """From any thread."""
        lag = 0.0 if self._loop_watch is None else self._loop_watch.lag
        parts = (
            self._fetcher.failures,
            self._committer.failures,
            self._heartbeat.failures,
            self._transactions.failures,
        )
        problems = [
            f"the {part.part} has failed {part.failures} times" for part in parts if part.failures
        ]
        if lag > LATE:
            problems.append(f"the event loop has been blocked for {lag:.0f} s")
        if not self.started.is_set():
            problems.append("the worker is starting")
        if self._stopping.is_set():
            problems.append("the worker is stopping")
        return Health(live=lag < STUCK, ready=not problems, problems=tuple(problems))

    def request_stop(self) -> None:
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()
        self._schedule.stop()
        self._dispatcher.close()

    async def work(self) -> None:
        settings, observe = self._settings, self._observers.observe
        await self._subscribe()
        self._heartbeat.start()
        if self._loop_watch is not None:
            self._loop_watch.start()
        names = tuple(queue.name for queue in self._slots.queues)
        types = tuple(sorted(self._handlers))
        fired = tuple(sorted(self._scheduler.declarations or ()))
        observe(WorkerStarted(settings.worker_id, names, types, settings.concurrency, fired))
        background = [
            asyncio.create_task(self._keep_subscribed(), name="headway subscriber"),
            asyncio.create_task(self._reaper.run(self._stopping), name="headway reaper"),
            asyncio.create_task(self._maintenance.run(self._stopping), name="headway maintenance"),
            asyncio.create_task(self._progress.run(self._stopping), name="headway progress"),
            asyncio.create_task(self._limits.run(self._stopping), name="headway limits"),
        ]
        if not self._schedule.drain:
            firing = self._scheduler.run(self._stopping)
            background.append(asyncio.create_task(firing, name="headway scheduler"))
        committing = asyncio.create_task(self._committer.run(), name="headway committer")
        fetching = asyncio.create_task(self._fetch(), name="headway fetcher")
        # The time to stop in begins when it is asked for, not when a claim has been answered.
        asked = asyncio.create_task(self._stopping.wait(), name="headway worker waits")
        self.started.set()
        try:
            parts: set[asyncio.Task[Any]] = {fetching, committing, asked}
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            # Without its committer, whatever ended that, a worker would claim and never settle.
            for part in (committing, fetching):
                if part.done():
                    part.result()
        except asyncio.CancelledError:
            self._hurry.set()
            raise
        finally:
            asked.cancel()
            self._stopping.set()
            leaving = asyncio.create_task(
                self._leave(fetching, committing, background), name="headway worker leaves"
            )
            await _to_its_end(leaving, self._hurry)
            observe(WorkerStopped(settings.worker_id))

    async def _fetch(self) -> bool:
        await self._limits.declare_until(self._stopping)
        if self._schedule.drain:  # else the last claim could come before the jobs of due ticks
            await self._scheduler.run(self._stopping, once=True)
        return await self._fetcher.run()

    async def _subscribe(self) -> float:
        """Subscribe to notifications; the seconds to wait before the next try if that fails."""
        if self._notifier is None:
            return 0.0
        try:
            self._unsubscribe = await self._notifier.subscribe(
                self._hear,
                Interest(
                    queues=frozenset(queue.name for queue in self._slots.queues),
                    types=frozenset(self._handlers),
                    worker=self._settings.worker_id,
                    schedules=self._scheduler.fires,
                ),
                idle=self._schedule.is_idle,
                on_status=self._follow_status,
            )
        except Exception as error:
            return self._listening.failed(error)
        return 0.0

    async def _keep_subscribed(self) -> None:
        """Try again to subscribe until it succeeds; meanwhile the worker polls."""
        pause = LAST_WAIT
        while self._notifier is not None and self._unsubscribe is None:
            if await sleep_unless(self._stopping, pause):
                return
            pause = await self._subscribe()

    async def _leave(
        self,
        fetching: asyncio.Task[bool],
        committing: asyncio.Task[None],
        background: list[asyncio.Task[None]],
    ) -> None:
        """Stop the parts in order. Never cancelled; every wait is bounded."""
        self._observers.observe(WorkerStopping(self._settings.worker_id))
        self._schedule.stop()
        self._dispatcher.close()
        time = asyncio.get_running_loop().time
        deadline = time() + self._settings.grace
        end = deadline + LAST_WAIT

        def left() -> float:
            return LAST_WAIT if self._hurry.is_set() else max(end - time(), SHORTEST_WAIT)

        # Jobs of a claim that is not waited for would not run before their leases expire.
        if not await self._wait_for({fetching}, end):
            await asyncio.wait({fetching}, timeout=left())
        self._dispatcher.close()
        if not await self._wait_for(self._runner.tasks, deadline):
            await self._interrupt_handlers()
        self._committer.close()
        if not await self._wait_for({committing}, time() + left()):
            await asyncio.wait({committing}, timeout=left())
        await asyncio.wait(background, timeout=left())
        await self._heartbeat.stop(left())
        await self._runner.close()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(left()):
                if self._unsubscribe is not None:
                    await self._unsubscribe()
        tasks: list[asyncio.Task[Any]] = [fetching, committing, *background]
        for task in tasks:
            task.cancel()
        await asyncio.wait({asyncio.gather(*tasks, return_exceptions=True)}, timeout=left())
        with contextlib.suppress(Exception):
            async with asyncio.timeout(left()):
                await self._limits.flush()
        with contextlib.suppress(Exception):  # while there is still somebody to speak for them
            async with asyncio.timeout(left()):
                await self._reaper.give_back_own()
        await self._sign_off(left())
        if self._loop_watch is not None:
            self._loop_watch.stop()
        for attempt in list(self._held):  # what did not listen is left behind
            self._committer.lost(attempt, attempt.interruption or SHUTDOWN)

    async def _wait_for(self, tasks: set[asyncio.Task[Any]], deadline: float) -> bool:
        """Wait until all are done; False if time is up, or the stop was asked for twice."""
        hurry = asyncio.create_task(self._hurry.wait())
        try:
            while left := {task for task in tasks if not task.done()}:
                seconds = deadline - asyncio.get_running_loop().time()
                if seconds <= 0 or self._hurry.is_set():
                    return False
                await asyncio.wait(
                    {*left, hurry},
                    timeout=seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            return True
        finally:
            hurry.cancel()

    async def _interrupt_handlers(self) -> None:
        """Their jobs are given back, not charged. A handler that does not stop is left behind: its
        lease runs out, and only then may another worker run the job."""
        for attempt in list(self._held):
            if attempt.task is not None and not attempt.task.done():
                attempt.interrupt(SHUTDOWN)
        for _ in range(2):
            if self._runner.tasks:
                await asyncio.wait(set(self._runner.tasks), timeout=LAST_WAIT)
            for task in list(self._runner.tasks):
                task.cancel()

    async def _sign_off(self, seconds: float) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(seconds):
                await self._store.run(
                    self._store.delete_workers,
                    [self._settings.worker_id],
                    now=self._clock.now(),
                )

    def _describe(self) -> WorkerRecord:
        return WorkerRecord(
            id=self._settings.worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(queue.name for queue in self._slots.queues),
            types=tuple(sorted(self._handlers)),
            concurrency=self._settings.concurrency,
            running=self._slots.running,
            started_at=self._began_at,
            seen_at=datetime.now(UTC),
            schedules=self._scheduler.declarations,
            limits=self._limits.declarations,
        )

    def _hear(self, notification: Notification) -> None:
        if isinstance(notification, OwnershipLost):
            # A hint may be late, and the job ours again: ask.
            if any(attempt.claimed.id == notification.job_id for attempt in self._held):
                self._heartbeat.check_now()
        elif isinstance(notification, SchedulesChanged):
            self._scheduler.look_in(0.0)
        elif isinstance(notification, JobsScheduled) and self._schedule.concerns(notification):
            self._store.expect(notification.queue, notification.run_at)
            self._schedule.expect_notified(notification)

    def _follow_status(self, status: NotifierStatus) -> None:
        """The notifier says whether it is connected."""
        if status.connected:
            self._listening.ended()
            saved = polling_saved(self._store, self._notifier)
            self._schedule.rely_on_notifications(self._settings.polling_when_told(saved))
        else:
            self._listening.failed(status.reason)
            self._schedule.rely_on_notifications(None)


async def _to_its_end(task: asyncio.Task[None], hurry: asyncio.Event) -> None:
    """Wait for a task; a cancellation of the waiter only sets `hurry`."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            hurry.set()
    await task
    if cancelled is not None:
        raise cancelled
