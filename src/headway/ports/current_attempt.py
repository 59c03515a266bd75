"""The attempt that runs in the current context: parent of what is started there, named in logs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from headway.domain.job import ClaimedJob


class RunningAttempt(Protocol):
    """The part of an attempt that code called by a handler may read."""

    @property
    def claimed(self) -> ClaimedJob: ...

    @property
    def worker(self) -> str: ...

    @property
    def trace_id(self) -> str | None: ...


current_attempt: ContextVar[RunningAttempt | None] = ContextVar(
    "headway_current_attempt", default=None
)
"""Set by the worker for each handler, in threads and child processes too; None elsewhere."""
