"""Between the fetcher, the runner and the committer: starts what waits whenever a slot is free.

A job that was lost more than once may be one that kills its worker. Whatever dies with it would
come back with it, and be dead-lettered with it in the end. So such a suspect is run by itself: what
waits is given back first, and nothing else is started or claimed until it has ended or lived for a
while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headway.domain.settlement import Release
from headway.engine.committer import Committer
from headway.engine.execution import ERROR, Execution
from headway.engine.lanes import Lanes

TURN = 0.005
"""Seconds after which starting makes way for what else the loop has to do."""
COMPANY = 0.5
"""Seconds that a suspect waits for the running ones to end; it must not wait for long ones."""
ALONE = 5.0
"""Seconds after which a suspect that still runs does not keep others from running any more."""


class Dispatcher:
    """Lives on one loop."""

    def __init__(
        self,
        lanes: Lanes,
        held: set[Execution],
        committer: Committer,
    ) -> None:
        self._lanes = lanes
        self._held = held
        self._committer = committer
        self._start: Callable[[Execution], None] | None = None
        self._freed: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._starting = False
        self._soon = False
        self._closed = False
        self._waits_since: float | None = None
        """When a suspect was first found waiting for its turn."""

    def connect(self, start: Callable[[Execution], None], freed: Callable[[], None]) -> None:
        """Whom to have start executions, and whom to tell that slots are free."""
        self._start = start
        self._freed = freed

    def close(self) -> None:
        """Start nothing more, and give back what has not been started."""
        self._closed = True
        for execution in self._lanes.remove(lambda _: True):
            self._set_aside(execution)

    def dispatch(self) -> None:
        """Start what can be started."""
        self._soon = False
        start, freed = self._start, self._freed
        if self._starting or self._closed or start is None or freed is None:
            return
        self._starting = True
        if self._lanes.suspects:
            try:
                self._isolate(start)
            finally:
                self._starting = False
            freed()
            return
        take, time = self._lanes.take, self._loop.time
        turn_ends = time() + TURN
        try:
            while (execution := take()) is not None:
                if execution.interruption is not None:
                    self._lanes.ended(execution)
                    self._set_aside(execution)
                    continue
                start(execution)
                if time() > turn_ends:
                    self._dispatch_soon()
                    break
        finally:
            self._starting = False
        freed()

    def committed(self) -> None:
        """Something was given back, or settled."""
        if self._lanes.suspects and not self._soon:
            self._dispatch_soon()

    def _isolate(self, start: Callable[[Execution], None]) -> None:
        """Start one suspect as soon as it is as good as alone."""
        lanes = self._lanes
        if lanes.alone is not None:
            return
        now = self._loop.time()
        if self._waits_since is None:
            self._waits_since = now
            self._loop.call_later(COMPANY, self.dispatch)
        suspect = lanes.first_suspect()
        for execution in lanes.remove(lambda each: each is not suspect):
            self._set_aside(execution)
        alone = len(self._held) <= 1
        only_company = len(self._held) <= 1 + lanes.running
        if alone or (only_company and now - self._waits_since >= COMPANY):
            self._waits_since = None
            lanes.take_alone(suspect)
            self._loop.call_later(ALONE, self._end_isolation, suspect)
            start(suspect)

    def _end_isolation(self, suspect: Execution) -> None:
        if self._lanes.alone is suspect:
            self._lanes.alone = None
            self.dispatch()

    def ended(self, execution: Execution) -> None:
        """An execution is over. Its slot is free; its outcome goes to the committer."""
        self._lanes.ended(execution)
        if execution in self._held:  # else it has settled itself, in a transaction
            if execution.settlement is None:
                self._committer.lost(execution, execution.interruption or ERROR)
            else:
                self._committer.put(execution)
        if not self._soon:
            self._dispatch_soon()

    def _dispatch_soon(self) -> None:
        self._soon = True
        self._loop.call_soon(self.dispatch)

    def _set_aside(self, execution: Execution) -> None:
        """Give back what was not started, unless it has been lost."""
        if execution.lost:
            self._committer.lost(execution, execution.interruption or ERROR)
        else:
            execution.settlement = Release(execution.claimed.id, execution.claimed.lease.token)
            self._committer.put(execution)
