"""How work is followed from who asks for it to who does it, across processes.

An observer that has an attribute `tracing` is asked for spans: one around each start, one for each
attempt. What it wants to carry from the one to the other travels with the job, in `trace`. Nothing
of this costs anything where nobody traces. What it raises is swallowed and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headway.domain.failure import Failure
from headway.domain.job import ClaimedJob, NewJob


class Starting(Protocol):
    """Jobs are being stored."""

    @property
    def trace(self) -> str | None:
        """What they carry."""
        ...

    def end(self, error: BaseException | None) -> None:
        """They have been stored, or an error kept them from being."""
        ...


class AttemptTrace(Protocol):
    """A handler runs."""

    @property
    def trace_id(self) -> str | None:
        """For log lines."""
        ...

    @property
    def onward(self) -> str | None:
        """What the job carries that continues the sequence, and its new blockers."""
        ...

    def end(self, outcome: str, seconds: float, failure: Failure | None) -> None:
        """The attempt ended so: completed, failed, dead_lettered, rescheduled, released, or why it
        was lost. Called once its outcome is committed; the handler had run for `seconds`."""
        ...


class Tracing(Protocol):
    """Called from the caller's own context (`start`) and from the handler's (`attempt`), whose
    context it may change: it is the handler's alone."""

    def start(self, jobs: Sequence[NewJob]) -> Starting: ...

    def attempt(self, job: ClaimedJob, worker: str, blockers: Sequence[str]) -> AttemptTrace | None:
        """`blockers` are the traces of the last jobs of the sequences that it waited for. None: not
        this one."""
        ...
