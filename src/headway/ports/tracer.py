"""Traces: they connect the code that starts a job with the worker that runs it.

An observer with an attribute `tracer` is asked for spans: one around each start, one for each
attempt. The job carries the trace context from the one to the other, in `trace`. Without a tracer
this costs nothing. Errors of a tracer are swallowed and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headway.domain.job import ClaimedJob, NewJob
from headway.errors import Failure


class StartTrace(Protocol):
    """The span around storing jobs."""

    @property
    def trace(self) -> str | None:
        """The trace context that the jobs carry."""
        ...

    def end(self, error: BaseException | None) -> None:
        """The jobs were stored, or `error` prevented it."""
        ...


class AttemptTrace(Protocol):
    """The span of an attempt."""

    @property
    def trace_id(self) -> str | None:
        """For log lines."""
        ...

    @property
    def onward(self) -> str | None:
        """The trace context for the next job of the sequence, and for new blockers."""
        ...

    def end(self, outcome: str, seconds: float, failure: Failure | None) -> None:
        """The outcome is committed: completed, failed, dead_lettered, rescheduled, released, or
        the reason for a loss. The handler ran for `seconds`."""
        ...


class Tracer(Protocol):
    """`start` runs in the caller's context, `attempt` in the handler's own, which it may change."""

    def start(self, jobs: Sequence[NewJob]) -> StartTrace: ...

    def attempt(self, job: ClaimedJob, worker: str, blockers: Sequence[str]) -> AttemptTrace | None:
        """`blockers` are the trace contexts of the last jobs of the sequences that the job waited
        for. None: this attempt gets no span."""
        ...
