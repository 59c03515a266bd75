"""What an operator asks and does: the same questions and levers for CLI, dashboard and API.

`headway.admin.questions` and `headway.admin.actions` answer from a store,
`headway.cli.remote` over HTTP. Everything is bounded: no question reads a whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headway.domain.queries import JobFilter, Page
from headway.domain.views import (
    AuditPage,
    Batch,
    Checked,
    Counted,
    Explanation,
    FailureGroup,
    JobAction,
    JobDetail,
    Overview,
    QueueSummary,
    SequenceGraph,
    SequencePage,
    TypeSummary,
    WorkerSummary,
)


class Questions(Protocol):
    """Questions. Ids may be of a job or of a sequence; JobNotFound where there is none."""

    async def overview(self, *, minutes: int = 60) -> Overview: ...

    async def queues(self) -> list[QueueSummary]:
        """By name: those that hold jobs, were paused, or are worked on by a living worker."""
        ...

    async def types(self) -> list[TypeSummary]: ...

    async def jobs(self, which: JobFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        """Newest first. A page may come back short, even empty, and still have a cursor: then the
        filter had to look at many rows, and the next page goes on from there."""
        ...

    async def count(self, which: JobFilter, *, at_most: int = 10_000) -> Counted:
        """How many jobs match. Beyond `at_most`, or where too many would have to be looked at, it
        is not exact: an estimate, or a lower bound."""
        ...

    async def job(self, id: str) -> JobDetail: ...

    async def why(self, id: str) -> Explanation:
        """One sentence why the job is not running, or what it does."""
        ...

    async def sequences(
        self, which: JobFilter, *, cursor: str | None = None, limit: int = 50
    ) -> SequencePage:
        """By the jobs they are at now; the filter is about these."""
        ...

    async def graph(self, id: str, *, at_most: int = 500) -> SequenceGraph:
        """Everything under the root of this job or sequence, and what blocks it from outside."""
        ...

    async def failures(self, which: JobFilter, *, limit: int = 100) -> list[FailureGroup]:
        """Dead-lettered jobs that match, by fingerprint, the largest group first."""
        ...

    async def workers(self) -> list[WorkerSummary]: ...

    async def audit(self, *, cursor: str | None = None, limit: int = 50) -> AuditPage:
        """What operators did, newest first."""
        ...

    async def check(self, *, cursor: str | None = None, limit: int = 1_000) -> Checked:
        """The inputs of jobs that have not ended, against the types of this code: what a deploy
        would break. In batches; go on with the cursor."""
        ...


class Actions(Protocol):
    """Levers. Each leaves an audit row in the transaction of its effect."""

    async def act(self, action: JobAction, ids: Sequence[str]) -> Batch:
        """On the current jobs of the sequences that these jobs (at most 1,000) belong to. Jobs in
        another state are passed over, not an error."""
        ...

    async def act_on_all(
        self, action: JobAction, which: JobFilter, *, cursor: str | None = None
    ) -> Batch:
        """On one batch of the jobs that match; go on with the cursor until it is None."""
        ...

    async def pause(self, queue: str) -> None: ...

    async def resume(self, queue: str) -> None: ...

    async def start(
        self,
        type: str,
        input: str,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        at: str | None = None,
        key: str | None = None,
    ) -> str:
        """Start a job of a type known to this code, from its arguments as JSON; its id."""
        ...
