"""The read model as it may be seen from outside: what is redacted is left out, and cannot be found
out by searching for it."""

from __future__ import annotations

import msgspec

from headway.domain.queries import JobFilter, Page
from headway.domain.views import (
    BY_FILTER,
    AuditPage,
    AuditRecord,
    Checked,
    Counted,
    Explanation,
    FailureGroup,
    JobDetail,
    Overview,
    QueueSummary,
    SequenceGraph,
    SequencePage,
    TypeSummary,
    WorkerSummary,
)
from headway.ports.admin import Questions
from headway.web.problems import Refused
from headway.web.redaction import Redaction

UNTOLD = "the reason is not shown: it may quote a redacted field of the input"


class GuardedInsight:
    """Questions over other ones. Pages and API see the store only through it."""

    def __init__(self, questions: Questions, redaction: Redaction) -> None:
        self._questions = questions
        self._redaction = redaction

    def allowed(self, which: JobFilter) -> JobFilter:
        """The filter, unless it asks about what is not shown."""
        for argument in which.arguments:
            if self._redaction.asks(argument):
                raise Refused(
                    403,
                    "redacted",
                    f"args.{argument.path} is redacted or has redacted fields, so it cannot be "
                    "searched for.",
                )
        return which

    async def overview(self, *, minutes: int = 60) -> Overview:
        return await self._questions.overview(minutes=minutes)

    async def queues(self) -> list[QueueSummary]:
        return await self._questions.queues()

    async def types(self) -> list[TypeSummary]:
        return await self._questions.types()

    async def jobs(self, which: JobFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        page = await self._questions.jobs(self.allowed(which), cursor=cursor, limit=limit)
        return Page([self._redaction.job(job) for job in page.jobs], page.cursor)

    async def count(self, which: JobFilter, *, at_most: int = 10_000) -> Counted:
        return await self._questions.count(self.allowed(which), at_most=at_most)

    async def job(self, id: str) -> JobDetail:
        detail = await self._questions.job(id)
        return msgspec.structs.replace(detail, job=self._redaction.job(detail.job))

    async def why(self, id: str) -> Explanation:
        return await self._questions.why(id)

    async def sequences(
        self, which: JobFilter, *, cursor: str | None = None, limit: int = 50
    ) -> SequencePage:
        return await self._questions.sequences(self.allowed(which), cursor=cursor, limit=limit)

    async def graph(self, id: str, *, at_most: int = 500) -> SequenceGraph:
        return await self._questions.graph(id, at_most=at_most)

    async def failures(self, which: JobFilter, *, limit: int = 100) -> list[FailureGroup]:
        return await self._questions.failures(self.allowed(which), limit=limit)

    async def workers(self) -> list[WorkerSummary]:
        return await self._questions.workers()

    async def audit(self, *, cursor: str | None = None, limit: int = 50) -> AuditPage:
        page = await self._questions.audit(cursor=cursor, limit=limit)
        return AuditPage([self._noted(record) for record in page.records], page.cursor)

    def _noted(self, record: AuditRecord) -> AuditRecord:
        """Filters of other operators may name what is not shown here."""
        if not record.target.startswith(BY_FILTER):
            return record
        shown = self._redaction.filter(record.target.removeprefix(BY_FILTER))
        return msgspec.structs.replace(record, target=BY_FILTER + shown)

    async def check(self, *, cursor: str | None = None, limit: int = 1_000) -> Checked:
        checked = await self._questions.check(cursor=cursor, limit=limit)
        ids = tuple(misfit.job_id for misfit in checked.misfits)
        if not ids:
            return checked
        page = await self._questions.jobs(JobFilter(ids=ids), limit=len(ids))
        plain = {job.id for job in page.jobs if self._redaction.payload(job.input) == job.input}
        misfits = [
            misfit if misfit.job_id in plain else msgspec.structs.replace(misfit, problem=UNTOLD)
            for misfit in checked.misfits
        ]
        return Checked(checked.examined, misfits, checked.cursor)
