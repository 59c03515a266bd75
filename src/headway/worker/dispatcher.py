"""Between the fetcher, the runner and the committer: starts what waits whenever a slot is free.

A job that was lost twice in a row may be one that kills its worker. Whatever dies with it would
come back with it, and be dead-lettered with it in the end. So such a suspect has the worker for
itself for a while, and no worker runs, or keeps, two of them:

    claimed      what else waits is given back; the running ones may end, for COMPANY seconds
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
from headway.worker.committer import Committer
from headway.worker.slots import Slots

TURN = 0.005
"""Seconds after which starting makes way for what else the loop has to do."""
COMPANY = 0.5
"""Seconds that a suspect waits for the running ones to end; it must not wait for long ones."""
LONGEST = 2.0
"""Seconds that it waits at most, if the store is slow to take back what else was claimed."""
ALONE = 1.0
"""Seconds after which a suspect that still runs does not keep others from running any more."""
EARLY = 0.001
"""Seconds by which a timer may be early, by rounding: its time counts as reached all the same."""


class Dispatcher:
    """Lives on one loop."""

    def __init__(
        self,
        slots: Slots,
        held: set[Attempt],
        committer: Committer,
    ) -> None:
        self._slots = slots
        self._held = held
        self._committer = committer
        self._start: Callable[[Attempt], None] | None = None
        self._freed: Callable[[], None] | None = None
        self._expect: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        """In which jobs are started: what a handler sets in its own is not for the next one."""
        self._starting = False
        self._soon = False
        self._closed = False
        self._next: Attempt | None = None
        """The suspect that is to be run as soon as it is as good as alone."""
        self._reserved_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        """Of what comes next for a suspect, or after it."""

    def connect(
        self,
        start: Callable[[Attempt], None],
        freed: Callable[[], None],
        expect: Callable[[], None],
    ) -> None:
        """Whom to have start attempts, whom to tell that slots are free, and whom to have look
        for jobs."""
        self._start = start
        self._freed = freed
        self._expect = expect

    def close(self) -> None:
        """Start nothing more, and give back what has not been started."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._next is not None:
            self._slots.suspects.append(self._next)
            self._next = None
        self._give_back_waiting()

    def dispatch(self) -> None:
        """Start what can be started."""
        self._soon = False
        start, freed = self._start, self._freed
        if self._starting or self._closed or start is None or freed is None:
            return
        self._starting = True
        take, time = self._slots.take, self._loop.time
        turn_ends = time() + TURN
        try:
            if self._slots.suspects or self._slots.reserved:
                self._attend_to_suspects(start)  # if it has the worker, nothing waits afterwards
            while (attempt := take()) is not None:
                if attempt.interruption is not None:
                    self._slots.ended(attempt)
                    self._set_aside(attempt)
                    continue
                start(attempt)
                if time() > turn_ends:
                    self._dispatch_soon()
                    break
        finally:
            self._starting = False
        freed()

    def committed(self) -> None:
        """Something was given back, or settled."""
        if self._next is not None and not self._soon:
            self._dispatch_soon()

    def _attend_to_suspects(self, start: Callable[[Attempt], None]) -> None:
        """Give back all suspects but one, and start that one as soon as it is as good as alone."""
        slots, now = self._slots, self._loop.time()
        if slots.suspects and not slots.only_healthy:
            self._next = slots.suspects.pop(0)
            slots.reserved = slots.only_healthy = True
            self._reserved_at = now
            self._after(COMPANY, self.dispatch)
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
        has_waited = waited >= COMPANY - EARLY
        if suspect.interruption is not None or (has_waited and not slots.has_room_for(suspect)):
            self._next = None
            self._set_aside(suspect)
            self._end_isolation()
        elif alone or (has_waited and only_company) or waited >= LONGEST - EARLY:
            self._next = None
            slots.suspected = suspect
            slots.take_alone(suspect)
            self._after(ALONE, self._end_isolation)
            start(suspect)
        elif has_waited:  # what was given back is still being committed
            self._after(LONGEST - waited, self.dispatch)

    def _end_isolation(self) -> None:
        """Healthy jobs have their turn now, for as long as they were kept waiting."""
        self._slots.reserved = False
        self._after(self._loop.time() - self._reserved_at, self._end_turn)
        self._dispatch_soon()

    def _end_turn(self) -> None:
        self._timer = None
        if self._slots.suspected is None:
            self._slots.end_turn()
            if self._expect is not None:
                self._expect()

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then, context=self._context)

    def ended(self, attempt: Attempt) -> None:
        """An attempt is over. Its slot is free; its outcome goes to the committer."""
        self._slots.ended(attempt)
        if attempt is self._slots.suspected:
            self._slots.suspected = None
            if self._slots.reserved:
                self._end_isolation()
            elif self._timer is None:
                self._end_turn()
        if attempt in self._held:  # else it has settled itself, in a transaction
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
            self._set_aside(attempt)
        self._give_back_suspects()

    def _give_back_suspects(self) -> None:
        for attempt in self._slots.suspects:
            self._set_aside(attempt)
        self._slots.suspects.clear()

    def _set_aside(self, attempt: Attempt) -> None:
        """Give back what was not started, unless it has been lost."""
        if attempt.lost:
            self._committer.lost(attempt, attempt.interruption or ERROR)
        else:
            attempt.settlement = Release(attempt.claimed.id, attempt.claimed.lease.token)
            self._committer.put(attempt)
