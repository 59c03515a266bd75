"""Which attempt runs here: what a handler starts descends from it, what it logs names it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from headway.domain.job import ClaimedJob


class RunningAttempt(Protocol):
    """What the code under a handler may know of the execution that it is part of."""

    @property
    def claimed(self) -> ClaimedJob: ...

    @property
    def worker(self) -> str: ...

    @property
    def trace_id(self) -> str | None: ...


current_attempt: ContextVar[RunningAttempt | None] = ContextVar(
    "headway_current_attempt", default=None
)
"""Set by the worker in the context of each handler, in threads and child processes too; None
outside of handlers."""
