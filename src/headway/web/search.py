"""The filter in the search box, and filters for links."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from starlette.requests import Request

from headway.domain.filters import parse_filter, render_filter
from headway.domain.job import JobState
from headway.domain.queries import JobFilter
from headway.domain.views import ShownState
from headway.errors import InvalidRequest
from headway.web.context import context_of
from headway.web.problems import Refused, problem_of


@dataclass(frozen=True)
class Search:
    """`which` is None if the text cannot be read; `problem` then says why."""

    text: str
    which: JobFilter | None
    problem: str | None = None
    status: int = 200

    @classmethod
    def of(cls, request: Request) -> Search:
        text = request.query_params.get("q", "").strip()
        try:
            which = parse_filter(text)
            context_of(request).redaction.checked_filter(which)
        except (InvalidRequest, Refused) as error:
            status, problem = problem_of(error)
            return cls(text, None, problem.message, status)
        return cls(text, which)

    def with_state(self, state: ShownState | None) -> str:
        """The same filter for one state only, or for all."""
        return render_filter(_in_state(self.which or JobFilter(), state))

    def is_for(self, state: ShownState | None) -> bool:
        which = self.which or JobFilter()
        return which == _in_state(which, state)

    def narrowed(self, fingerprint: str) -> str:
        """The same filter, for failed jobs with this fingerprint."""
        which = _in_state(self.which or JobFilter(), ShownState.FAILED)
        return render_filter(msgspec.structs.replace(which, fingerprints=(fingerprint,)))


def find(
    *,
    state: ShownState | None = None,
    type: str | None = None,
    queue: str | None = None,
    worker: str | None = None,
    schedule: str | None = None,
    key: str | None = None,
    fingerprint: str | None = None,
) -> str:
    """The text of a filter, for a link."""

    def given(value: str | None) -> tuple[str, ...]:
        return () if value is None else (value,)

    which = JobFilter(
        types=given(type),
        queues=given(queue),
        workers=given(worker),
        schedules=given(schedule),
        keys=given(key),
        fingerprints=given(fingerprint),
    )
    return render_filter(_in_state(which, state))


def _in_state(which: JobFilter, state: ShownState | None) -> JobFilter:
    match state:
        case None:
            return msgspec.structs.replace(which, states=(), due=None)
        case ShownState.SCHEDULED:
            return msgspec.structs.replace(which, states=(JobState.PENDING,), due=False)
        case ShownState.PENDING:
            return msgspec.structs.replace(which, states=(JobState.PENDING,), due=True)
        case _:
            return msgspec.structs.replace(which, states=(JobState(state.value),), due=None)
