"""Starts waiting jobs whenever a slot is free.

A job that was lost twice in a row may be one that kills its worker. Jobs that die with it would
also be lost again and again, and be dead-lettered in the end. So such a suspect has the worker for
itself for a while, and no worker runs, or keeps, two suspects:

    claimed      the other waiting jobs are given back; running ones may end, for COMPANY seconds
    alone        it runs, and nothing else is started or claimed, for ALONE seconds at most
    healthy turn for as long as that took, only healthy jobs are claimed and started, and for longer
                 if the suspect still runs; if no healthy job waits, the turn ends at once

Why one job that kills its worker cannot have an innocent one dead-lettered: it kills twice before
it is a suspect itself. An innocent job that was there both times has two losses then and is a
suspect, too, and from then on the two are never in one worker together, but for the moment between
a claim and the giving back. One that was there less often can be hit again, by a suspect that kills
late or has not waited for a long job to end, but only until it has two losses. So one such job
costs another job two losses in a row, of five (`max_losses`), and an attempt of that other job
that fails or reschedules itself in between sets its count back to 0.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context

from headway.domain.settlement import Release
from headway.worker.attempt import ERROR, Attempt
from headway.worker.claims.claim_timing import ClaimTiming
from headway.worker.claims.slots import Slots
from headway.worker.committer import Committer
from headway.worker.environment import WorkerEnvironment
from headway.worker.handler_runner import Runner

TURN = 0.005
"""Seconds after which starting jobs makes way for other tasks of the loop."""
COMPANY = 0.5
"""Seconds that a suspect waits for running jobs to end; it does not wait for long ones."""
LONGEST = 2.0
"""Seconds that it waits at most, if the store is slow to take back the other jobs."""
ALONE = 1.0
"""Seconds after which other jobs run beside a suspect that still runs."""
LOOK_EVERY = 0.02
"""Seconds between looks at whether a suspect is alone."""


class Dispatcher:
    """Lives on one loop."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        slots: Slots,
        schedule: ClaimTiming,
        runner: Runner,
        committer: Committer,
    ) -> None:
        self._slots = slots
        self._held = environment.held
        self._schedule = schedule
        self._runner = runner
        self._committer = committer
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        """Jobs are started in it: context variables of one handler do not reach the next."""
        self._starting = False
        self._soon = False
        self._closed = False
        self._next: Attempt | None = None
        """The suspect that is started as soon as it is alone, or has waited long enough."""
        self._reserved_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        """Of the next step for a suspect."""

    def close(self) -> None:
        """Start nothing more, and give back the waiting jobs."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._next is not None:
            self._slots.suspects.append(self._next)
            self._next = None
        self._give_back_waiting()

    def dispatch(self) -> None:
        """Start waiting jobs while slots are free."""
        self._soon = False
        if self._starting or self._closed:
            return
        self._starting = True
        take, time = self._slots.take, self._loop.time
        start, ended = self._runner.start, self._ended
        turn_ends = time() + TURN
        try:
            if self._slots.suspects or self._slots.reserved:
                self._attend_to_suspects()  # if it has the worker, nothing waits afterwards
            while (attempt := take()) is not None:
                if attempt.interruption is not None:
                    self._slots.ended(attempt)
                    self._give_back(attempt)
                    continue
                start(attempt, ended)
                if time() > turn_ends:
                    self._dispatch_soon()
                    break
        finally:
            self._starting = False
        self._schedule.look_again()

    def _attend_to_suspects(self) -> None:
        """Give back all suspects but one; start that one if it is alone or has waited."""
        slots, now = self._slots, self._loop.time()
        if slots.suspects and not slots.only_healthy:
            self._next = slots.suspects.pop(0)
            slots.reserved = slots.only_healthy = True
            self._reserved_at = now
        if not slots.reserved:
            self._give_back_suspects()
            return
        self._give_back_waiting()
        suspect = self._next
        if suspect is None:  # it runs
            return
        alone = len(self._held) <= 1
        only_company = len(self._held) <= 1 + slots.running
        waited = now - self._reserved_at
        has_waited = waited >= COMPANY
        if suspect.interruption is not None or (has_waited and not slots.has_room_for(suspect)):
            self._next = None
            self._give_back(suspect)
            self._end_isolation()
        elif alone or (has_waited and only_company) or waited >= LONGEST:
            self._next = None
            slots.suspected = suspect
            slots.take_alone(suspect)
            self._after(ALONE, self._end_isolation)
            self._runner.start(suspect, self._ended)
        else:  # others still run, or what was given back is being committed
            self._after(LOOK_EVERY, self.dispatch)

    def _end_isolation(self) -> None:
        """Start the turn of healthy jobs, which lasts as long as they were kept waiting."""
        self._slots.reserved = False
        self._after(self._loop.time() - self._reserved_at, self._end_turn)
        self._dispatch_soon()

    def _end_turn(self) -> None:
        self._timer = None
        if self._slots.suspected is None:
            self._slots.end_turn()
            self._schedule.expect()

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then, context=self._context)

    def _ended(self, attempt: Attempt) -> None:
        """An attempt is over. Its slot is free; its outcome goes to the committer."""
        self._slots.ended(attempt)
        if attempt is self._slots.suspected:
            self._slots.suspected = None
            if self._slots.reserved:
                self._end_isolation()
            elif self._timer is None:
                self._end_turn()
        if attempt in self._held:  # else the handler's own transaction has settled it
            if attempt.settlement is None:
                self._committer.lost(attempt, attempt.interruption or ERROR)
            else:
                self._committer.put(attempt)
        if not self._soon:
            self._dispatch_soon()

    def _dispatch_soon(self) -> None:
        self._soon = True
        self._loop.call_soon(self.dispatch, context=self._context)

    def _give_back_waiting(self) -> None:
        for attempt in self._slots.remove(lambda _: True):
            self._give_back(attempt)
        self._give_back_suspects()

    def _give_back_suspects(self) -> None:
        for attempt in self._slots.suspects:
            self._give_back(attempt)
        self._slots.suspects.clear()

    def _give_back(self, attempt: Attempt) -> None:
        """Give back a job that was not started, unless it has been lost."""
        if attempt.lost:
            self._committer.lost(attempt, attempt.interruption or ERROR)
        else:
            attempt.settlement = Release(attempt.claimed.id, attempt.claimed.lease.token)
            self._committer.put(attempt)
