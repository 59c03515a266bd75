"""Renews the leases of a worker, in a thread of its own: a handler that blocks the event loop keeps
its job, while a process that is frozen as a whole loses it.

    every third of a lease:  extend(all leases that are not fresh)  in one statement
        lost                 -> the handler is interrupted with the reason
        no answer            -> tried again; when a lease may have run out by our own clock, its
                                handler is interrupted, for another worker may have the job; the
                                outage is noted, so that the job is not charged for it
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from random import random
from typing import Any

from headway.domain.lease import Verdict
from headway.domain.queries import BEAT_EVERY, WorkerRecord
from headway.worker.attempt import (
    LEASE_EXPIRED,
    Attempt,
    reason_for,
)
from headway.worker.attempt_events import Reporter
from headway.worker.environment import WorkerEnvironment
from headway.worker.leases.heartbeat_thread import Beats, Call, HeartbeatRunner
from headway.worker.leases.store_outage import Outage

FRESH = 0.9
"""The part of a lease that must be left for it not to be renewed yet."""
MARGIN = 0.05
"""The part of a lease that is not used, so that a handler stops before another one starts."""
ANSWER = 1.0
"""Seconds that the store has to say why a lease is lost."""
PASSING = 0.2
"""Seconds that a transaction waits for a renewal that is under way."""


class Heartbeat:
    """Its thread only reads the attempts that the worker holds."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        runner: HeartbeatRunner,
        outage: Outage,
        reporter: Reporter,
        describe: Callable[[], WorkerRecord],
        next_schedule: Callable[[float], None],
    ) -> None:
        """`next_schedule` is told, on the loop, in how many seconds a schedule is due."""
        self._runner = runner
        self._store = environment.store
        self._clock = environment.clock
        self._reporter = reporter
        self._held = environment.held
        self._outage = outage
        self._describe = describe
        self._next_schedule = next_schedule
        self._lease_for = lease_for = environment.settings.lease_for
        self._every = environment.settings.heartbeat_interval()
        self._beat_every = min(BEAT_EVERY, self._every)
        self._look_every = max(lease_for / 10, 0.02)
        self.doubt = self._look_every + lease_for * MARGIN
        """With less than this left of its lease no handler runs: a lease that ends before the next
        look counts as lost in this one."""
        self.failures = environment.failures("heartbeat")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._stop = False
        self._check_all = False
        self._lock = threading.Lock()
        self._renewing = False
        self._passing_by: list[asyncio.Future[None]] = []

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._runner.start(self._beats())
        self._look()

    async def stop(self, seconds: float) -> None:
        """Returns when the thread has ended, or after so many seconds: it may wait for a dead store
        for longer."""
        if self._ended is None:
            return
        if self._watch is not None:
            self._watch.cancel()
        self._stop = True
        self._runner.wake()
        try:
            async with asyncio.timeout(seconds):
                await self._ended
        except TimeoutError:
            return
        self._runner.join()
        self._ended = None

    def check_now(self) -> None:
        """Ask the store about all leases now: notifications says that one is lost."""
        self._check_all = True
        self._runner.wake()

    async def pass_by(self) -> None:
        """Wait for a renewal that is under way. One that begins later leaves out attempts that are
        `in_transaction` by then. Not for long: the renewal may itself wait for the caller."""
        with self._lock:
            if not self._renewing:
                return
            passed = asyncio.get_running_loop().create_future()
            self._passing_by.append(passed)
        await asyncio.wait({passed}, timeout=PASSING)

    def _look(self) -> None:
        """On the loop: interrupt attempts whose leases were not renewed in time."""
        loop = self._loop
        if loop is None or self._stop:
            return
        now = self._clock.monotonic()
        if doubtful := self._doubtful(now):
            # The store may know the true reason, after a freeze for instance: what it says within
            # a moment is what handlers hear. A lease that is still valid leaves less time for it.
            self.check_now()
            expired = all(each.deadline <= now for each in doubtful)
            moment = ANSWER if expired else min(ANSWER, self._lease_for * MARGIN / 2)
            loop.call_later(moment, self._give_up, doubtful)
        self._watch = loop.call_later(self._look_every, self._look)

    def _doubtful(self, now: float) -> set[Attempt]:
        """Attempts whose leases may be lost, or may be before the next look."""
        return {
            each
            for each in self._held
            if each.deadline <= now + self.doubt
            and each.interruption is None
            and not each.in_transaction
            and each.settlement is None
        }

    def _give_up(self, doubtful: set[Attempt]) -> None:
        """Interrupt those about which the store has not answered."""
        for attempt in doubtful & self._doubtful(self._clock.monotonic()):
            attempt.interrupt(LEASE_EXPIRED)
            self._outage.excuse(attempt)

    def _beats(self) -> Beats:
        next_beat = -self._beat_every
        try:
            while not self._stop:
                pause = self._every * (0.9 + random() / 10)
                try:
                    yield from self._renew()
                    now = self._clock.monotonic()
                    if now >= next_beat and not self._stop:
                        seconds = yield from self._ask(self._say_alive)
                        if seconds is not None:
                            self._on_loop(self._next_schedule, seconds)
                        next_beat = now + self._beat_every
                except Exception as error:  # whatever it is: leases depend on this
                    pause = min(pause, self.failures.failed(error))
                else:
                    self.failures.ended()
                yield min(pause, self._beat_every)
        finally:
            self._on_loop(self._tell_ended)

    def _say_alive(self, run: Callable[..., Any]) -> Any:
        return run(self._store.save_worker, self._describe(), now=self._clock.now())

    def _ask(self, call: Call) -> Generator[Call | float, Any, Any]:
        """Run a store operation, and note whether the store answers."""
        self._outage.asks()
        try:
            answer = yield call
        except Exception:
            self._outage.failed()
            raise
        self._outage.answered()
        return answer

    def _renew(self) -> Beats:
        with self._lock:
            self._renewing = True
        try:
            yield from self._renew_all()
        finally:
            with self._lock:
                self._renewing = False
                passing, self._passing_by = self._passing_by, []
            for passed in passing:
                self._on_loop(_let_pass, passed)

    def _renew_all(self) -> Beats:
        sent = self._clock.monotonic()
        fresh = sent + self._lease_for * FRESH
        everything, self._check_all = self._check_all, False
        due = [
            attempt
            for attempt in list(self._held)
            if not attempt.in_transaction
            and not attempt.lost  # one that timed out, or is told to stop, still runs
            and (everything or attempt.deadline <= fresh)
        ]
        if not due:
            return
        held = [attempt.held for attempt in due]
        verdicts = yield from self._ask(
            lambda run: run(self._store.extend, held, self._lease_for, now=self._clock.now())
        )
        until = sent + self._lease_for
        refused: list[tuple[Attempt, Verdict]] = []
        for attempt, verdict in zip(due, verdicts, strict=True):
            if verdict is Verdict.APPLIED:
                attempt.deadline = until
                self._reporter.renewed(attempt)
            elif attempt in self._held:  # it may have been committed meanwhile
                refused.append((attempt, verdict))
        if refused:
            ids = [attempt.claimed.id for attempt, _ in refused]
            records = yield from self._ask(lambda run: run(self._store.get, ids))
            self._on_loop(
                self._interrupt,
                [
                    (attempt, reason_for(verdict, record))
                    for (attempt, verdict), record in zip(refused, records, strict=True)
                ],
            )

    def _interrupt(self, lost: list[tuple[Attempt, str]]) -> None:
        for attempt, reason in lost:
            if attempt in self._held and attempt.settlement is None:
                if not attempt.interrupt(reason):
                    attempt.interruption = reason  # a timeout is not ours to record any more
                if reason == LEASE_EXPIRED:
                    self._outage.excuse(attempt)

    def _on_loop(self, callback: Callable[..., None], *args: object) -> None:
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(callback, *args)
            except RuntimeError:  # the loop was closed under us
                self._stop = True

    def _tell_ended(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def _let_pass(passed: asyncio.Future[None]) -> None:
    if not passed.done():
        passed.set_result(None)
