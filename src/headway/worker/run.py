"""One run of a worker, from its start to its end: puts fetcher, runner, committer, heartbeat,
reaper and maintenance together, and takes them apart again in an order that loses nothing.

    stop: claim no more -> give back what has not started -> let running handlers end (grace)
          -> commit -> interrupt what is left -> commit -> say goodbye
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

from headway.after_commit.announcer import Announcer
from headway.after_commit.observers import Observers
from headway.domain.events import WorkerStarted, WorkerStopped, WorkerStopping
from headway.domain.health import Health
from headway.domain.queries import WorkerRecord
from headway.jobs.handler import Handler
from headway.ports.clock import Clock
from headway.ports.notifications import Interest, Notification, OwnershipLost
from headway.ports.notifier import Disposer, Notifier, NotifierStatus
from headway.ports.store import Store
from headway.runtime.polling import polling_saved
from headway.worker.attempt import SHUTDOWN, Attempt
from headway.worker.backoff import NOTIFIER, FailureStreak, sleep_unless
from headway.worker.committer import Committer
from headway.worker.dispatcher import Dispatcher
from headway.worker.fetcher import Fetcher
from headway.worker.leases.heartbeat import Heartbeat
from headway.worker.leases.heartbeat_thread import HeartbeatRunner
from headway.worker.leases.outage import Outage
from headway.worker.leases.reaper import Reaper
from headway.worker.loop_watch import LoopWatch
from headway.worker.maintenance import Maintenance
from headway.worker.middleware import Middleware
from headway.worker.permits import Permits
from headway.worker.progress import ProgressWriter
from headway.worker.report import Reporter
from headway.worker.runner import Runner
from headway.worker.settings import WorkerSettings
from headway.worker.slots import Slots
from headway.worker.transactions import Transactions, WorkerTransactions

LAST_WAIT = 5.0
"""Seconds beyond the grace time that the store's answers are waited for; and interrupted handlers,
after each of two interruptions."""
SHORTEST_WAIT = 2.0
"""Seconds that a part gets to end if others before it have used up the time."""


LATE = 5.0
"""Seconds that the event loop may be held up by a handler before the worker is not ready."""
STUCK = 60.0
"""Seconds after which nobody need wait for it any longer."""


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
        settings: WorkerSettings,
        store: Store,
        handlers: Mapping[str, Handler],
        notifier: Notifier | None,
        observers: Observers,
        middleware: Sequence[Middleware],
        clock: Clock,
        transactions: Transactions,
        heartbeat_runner: HeartbeatRunner,
        *,
        drain: bool,
    ) -> None:
        worker = settings.worker_id
        self._settings = settings
        self._store = store
        self._handlers = handlers
        self._notifier = notifier
        self._observers = observers
        self._clock = clock
        self._began_at = datetime.now(UTC)
        self._held: set[Attempt] = set()
        self._slots = Slots(settings.work_queues(), settings.concurrency, settings.prefetch_for)
        reporter = Reporter(worker, observers, clock, settings.lease_for)
        outage = Outage(clock, settings.lease_for, self._held)
        self._heartbeat = Heartbeat(
            heartbeat_runner,
            store,
            clock,
            observers,
            reporter,
            self._held,
            outage,
            self._describe,
            lease_for=settings.lease_for,
            every=settings.heartbeat_interval(),
        )
        announcer = Announcer(store, notifier, self._hear_own)
        self._committer = Committer(
            *(worker, store, clock, observers, reporter, announcer, self._held, outage),
            self._committed,
        )
        self._transactions = FailureStreak(worker, "transaction", observers)
        self._dispatcher = Dispatcher(self._slots, self._held, self._committer)
        self._runner = Runner(
            WorkerTransactions(
                store,
                clock,
                self._heartbeat,
                settings.lease_for,
                transactions,
                reporter,
                Permits(store.transactions),
                self._transactions,
            ),
            self._committer,
            observers,
            reporter,
            middleware,
            settings.concurrency,
            self._dispatcher.ended,
        )
        every = settings.reap_interval()
        self._reaper = Reaper(worker, store, clock, observers, announcer, outage, every)
        self._fetcher = Fetcher(
            settings,
            store,
            clock,
            observers,
            handlers,
            self._slots,
            self._held,
            self._committer,
            self._dispatcher.dispatch,
            self._reaper.reap_all,
            drain=drain,
        )
        self._dispatcher.connect(self._runner.start, self._fetcher.freed, self._fetcher.expect)
        self._maintenance = Maintenance(settings, store, clock, observers)
        self._progress = ProgressWriter(worker, store, clock, observers, self._held)
        self._listening = FailureStreak(worker, NOTIFIER, observers)
        self._loop_watch = LoopWatch(worker, observers) if heartbeat_runner.apart else None
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
            self._transactions,
        )
        problems = [
            f"the {failures.part} has failed {failures.failures} times"
            for failures in parts
            if failures.failures
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
        self._fetcher.stop()
        self._dispatcher.close()

    async def work(self) -> None:
        settings, observe = self._settings, self._observers.observe
        await self._subscribe()
        self._heartbeat.start()
        if self._loop_watch is not None:
            self._loop_watch.start()
        names = tuple(queue.name for queue in self._slots.queues)
        types = tuple(sorted(self._handlers))
        observe(WorkerStarted(settings.worker_id, names, types, settings.concurrency))
        background = [
            asyncio.create_task(self._keep_subscribed(), name="headway subscriber"),
            asyncio.create_task(self._reaper.run(self._stopping), name="headway reaper"),
            asyncio.create_task(self._maintenance.run(self._stopping), name="headway maintenance"),
            asyncio.create_task(self._progress.run(self._stopping), name="headway progress"),
        ]
        committing = asyncio.create_task(self._committer.run(), name="headway committer")
        fetching = asyncio.create_task(self._fetcher.run(), name="headway fetcher")
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

    async def _subscribe(self) -> float:
        """Subscribe to notifications if possible; else the seconds to wait before trying again."""
        if self._notifier is None:
            return 0.0
        try:
            self._unsubscribe = await self._notifier.subscribe(
                self._hear,
                Interest(
                    queues=frozenset(queue.name for queue in self._slots.queues),
                    types=frozenset(self._handlers),
                    worker=self._settings.worker_id,
                ),
                idle=self._fetcher.is_idle,
                on_status=self._attend,
            )
        except Exception as error:
            return self._listening.failed(error)
        return 0.0

    async def _keep_subscribed(self) -> None:
        """Without notifications a worker polls, and tries again to subscribe."""
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
        """Take everything apart. Nothing in here is cancelled, and everything is bounded."""
        self._observers.observe(WorkerStopping(self._settings.worker_id))
        self._fetcher.stop()
        self._dispatcher.close()
        time = asyncio.get_running_loop().time
        deadline = time() + self._settings.grace
        end = deadline + LAST_WAIT

        def left() -> float:
            return LAST_WAIT if self._hurry.is_set() else max(end - time(), SHORTEST_WAIT)

        # A claim that is not waited for hands out jobs that nobody will run.
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
        with contextlib.suppress(Exception):  # while there is still somebody to speak for them
            async with asyncio.timeout(left()):
                await self._reaper.give_back_own()
        await self._say_goodbye(left())
        if self._loop_watch is not None:
            self._loop_watch.stop()
        for attempt in list(self._held):  # what did not listen is left behind
            self._committer.lost(attempt, attempt.interruption or SHUTDOWN)

    async def _wait_for(self, tasks: set[asyncio.Task[Any]], deadline: float) -> bool:
        """Wait until all are done; False if time is up, or somebody is in a hurry."""
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
        """Their jobs are given back, not charged. Who does not listen is left behind: its lease
        runs out, and only then may somebody else run the job."""
        for attempt in list(self._held):
            if attempt.task is not None and not attempt.task.done():
                attempt.interrupt(SHUTDOWN)
        for _ in range(2):
            if self._runner.tasks:
                await asyncio.wait(set(self._runner.tasks), timeout=LAST_WAIT)
            for task in list(self._runner.tasks):
                task.cancel()

    async def _say_goodbye(self, seconds: float) -> None:
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
        )

    def _hear(self, notification: Notification) -> None:
        if isinstance(notification, OwnershipLost):
            # A hint may be late, and the job ours again: ask.
            if any(attempt.claimed.id == notification.job_id for attempt in self._held):
                self._heartbeat.check_now()
        else:
            self._fetcher.hear(notification)

    def _attend(self, status: NotifierStatus) -> None:
        """The notifier says whether it is connected."""
        if status.connected:
            self._listening.ended()
            saved = polling_saved(self._store, self._notifier)
            self._fetcher.rely_on_notifications(self._settings.polling_when_told(saved))
        else:
            self._listening.failed(status.reason)
            self._fetcher.rely_on_notifications(None)

    def _hear_own(self, notification: Notification, seconds: float) -> bool:
        return self._fetcher.hear_own(notification, seconds)

    def _committed(self) -> None:
        self._fetcher.committed()
        self._dispatcher.committed()


async def _to_its_end(task: asyncio.Task[None], hurry: asyncio.Event) -> None:
    """Wait for a task through cancellations of our own, which only make it hurry."""
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
